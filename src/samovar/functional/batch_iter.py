"""Minibatches for `train_model`: drawn without end, cut into epochs, made ahead of the step. Knows no models.

    source ─▶ transform ─▶ … ─▶ batch_size items ─▶ combiner ─▶ minibatch
    draws     here, in threads or in processes                   buffer_size of them made ahead, in a thread

An item depends on (seed, epoch, number of the item) only, so that a resumed run sees the same ones. A function with a
parameter named `random` gets the item's own generator.
"""

import inspect
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from itertools import islice
from multiprocessing import get_context
from numbers import Integral
from threading import get_ident, local
from typing import Any, TypeAlias

import numpy as np

from samovar.errors import BadInput
from samovar.seeds import numpy_generator

__all__ = [
    "BatchIter",
    "Infinite",
    "Processes",
    "Threads",
    "apply_at",
    "as_batch_iter",
    "load_by_random_id",
    "multiply",
    "sample",
    "unpack_args",
]

Source: TypeAlias = Callable[[np.random.Generator], Any]
Item: TypeAlias = tuple[Any, np.random.Generator]
"""A value and its generator."""


class BatchIter(ABC):
    """The interface between `train_model` and your data. Subclass it if `Infinite` does not fit.

    The minibatches of an epoch must depend on (seed, epoch) only, so that a resumed run sees the same ones.

    Example:
        ```python
        import numpy as np
        from samovar.functional.batch_iter import BatchIter


        class Shuffled(BatchIter):
            def __init__(self, x, y, batch_size):
                self.x, self.y, self.batch_size = x, y, batch_size

            @property
            def num_batches(self):
                return len(self.x) // self.batch_size

            def open(self, seed, epoch):
                order = np.random.default_rng([seed, epoch]).permutation(len(self.x))
                for rows in order[: self.num_batches * self.batch_size].reshape(-1, self.batch_size):
                    yield self.x[rows], self.y[rows]
        ```
    """

    @property
    @abstractmethod
    def num_batches(self) -> int:
        """The number of minibatches per epoch."""

    @abstractmethod
    def open(self, seed: int, epoch: int) -> Generator[Any, None, None]:
        """Make the minibatches of one epoch.

        Args:
            seed: The seed of the run.
            epoch: The number of the epoch, from 0.

        Returns:
            A generator of minibatches, each a tuple of arrays whose last one is the target. Closing it ends all work
            ahead.
        """


class Infinite(BatchIter):
    """Draws minibatches at random without end, for data that is sampled or augmented.

    `source` draws an item, each transform changes it, and `combiner` joins `batch_size` of them into a minibatch.

    Args:
        source: Draws one item: `load_by_random_id(…)`, `sample(…)`, or your own function of a numpy generator.
        *transforms: Functions of an item. One with a parameter named `random` also gets the item's generator. Wrap a
            slow one in `Threads` or `Processes`; the order of items never changes.
        batch_size: Items per minibatch.
        n_iters_per_epoch: Minibatches per epoch.
        buffer_size: How many minibatches a thread makes ahead of the step; with 0, each is made when it is asked for.
        combiner: Joins a list of items into a minibatch. By default, items that are tuples are stacked part by part
            into arrays.

    Raises:
        BadInput: The source cannot be called, or a count is not a whole number or too small.

    Example:
        >>> import numpy as np
        >>> def add_noise(item, random):
        ...     image, label = item
        ...     return image + random.normal(0, 0.1, image.shape), label
        >>> images, labels = np.zeros((100, 8, 8)), np.arange(100)
        >>> batches = Infinite(
        ...     load_by_random_id(images.__getitem__, labels.__getitem__, ids=range(100)),
        ...     add_noise,
        ...     batch_size=16,
        ...     n_iters_per_epoch=5,
        ... )
        >>> images, labels = next(batches.open(seed=0, epoch=0))
        >>> images.shape
        (16, 8, 8)
    """

    def __init__(
        self,
        source: Source,
        *transforms: "Callable[..., Any] | Transform",
        batch_size: int,
        n_iters_per_epoch: int,
        buffer_size: int = 1,
        combiner: Callable[[Sequence[Any]], Any] | None = None,
    ) -> None:
        if not callable(source):
            raise BadInput(
                "source must be load_by_random_id(…), sample(…) or a function of a numpy generator, "
                f"got {type(source).__name__}. An iterator cannot be resumed"
            )
        counts = (
            ("batch_size", batch_size, 1),
            ("n_iters_per_epoch", n_iters_per_epoch, 1),
            ("buffer_size", buffer_size, 0),
        )
        for name, value, least in counts:
            if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
                raise BadInput(f"{name} must be an integer of at least {least}, got {value!r}")
        self._source = source
        self._transforms = [each if isinstance(each, Transform) else Transform(each) for each in transforms]
        self._batch_size = batch_size
        self._num_batches = n_iters_per_epoch
        self._buffer_size = buffer_size
        self._combine = combiner or stack_parts

    @property
    def num_batches(self) -> int:
        return self._num_batches

    def open(self, seed: int, epoch: int) -> Generator[Any, None, None]:
        batches = self._make_batches(seed, epoch)
        return _make_ahead(batches, self._buffer_size) if self._buffer_size > 0 else batches

    def _make_batches(self, seed: int, epoch: int) -> Generator[Any, None, None]:
        steps: list[Generator[Item, None, None]] = [self._draw(seed, epoch)]
        for transform in self._transforms:
            steps.append(transform.apply(steps[-1]))
        try:
            while batch := [value for value, _ in islice(steps[-1], self._batch_size)]:
                yield self._combine(batch)
        finally:
            for step in reversed(steps):
                step.close()

    def _draw(self, seed: int, epoch: int) -> Generator[Item, None, None]:
        for number in range(self._num_batches * self._batch_size):
            random = numpy_generator(seed, "item", epoch, number)
            yield self._source(random), random


def _make_ahead(batches: Generator[Any, None, None], count: int) -> Generator[Any, None, None]:
    """The same minibatches, with `count` of them made ahead by a thread."""
    end = object()
    waiting: deque[Future[Any]] = deque()
    executor = ThreadPoolExecutor(1)
    reader = get_ident()
    try:
        for _ in range(count + 1):
            waiting.append(executor.submit(next, batches, end))
        while (batch := waiting.popleft().result()) is not end:
            waiting.append(executor.submit(next, batches, end))
            yield batch
    finally:
        # A call under way must not overlap with the next run, so the reader waits for it. The garbage collector may
        # close this on any thread, even on one that the call depends on: there, nothing waits.
        is_reader = get_ident() == reader
        executor.shutdown(wait=is_reader, cancel_futures=True)
        if is_reader:
            batches.close()


def stack_parts(items: Sequence[Any]) -> tuple[Any, ...]:
    """Stack the first parts of all items into one array, the second parts into another, and so on."""
    parts: Iterable[Any] = zip(*items, strict=True) if isinstance(items[0], tuple | list) else [items]
    try:
        return tuple(np.stack([np.asarray(value) for value in part]) for part in parts)
    except ValueError as error:
        raise BadInput(
            f"items cannot be joined into a minibatch: {error}. Crop or pad them in a transform, or pass a combiner"
        ) from error


class Repeated(BatchIter):
    """Anything with a length that yields the same minibatches each time, for example a list."""

    def __init__(self, batches: Any) -> None:
        self._batches = batches

    @property
    def num_batches(self) -> int:
        return len(self._batches)

    def open(self, seed: int, epoch: int) -> Generator[Any, None, None]:
        yield from self._batches


def as_batch_iter(batches: Any) -> BatchIter:
    """Turn what `train_model` was given into a `BatchIter`.

    Args:
        batches: A `BatchIter`, or a list of minibatches (or anything else with a length) that is repeated each epoch.

    Returns:
        The `BatchIter` itself, or one over the list.

    Raises:
        BadInput: It is neither, for example a generator, which cannot be read twice.

    Example:
        >>> as_batch_iter([("inputs", "targets")]).num_batches
        1
    """
    if isinstance(batches, BatchIter):
        return batches
    if hasattr(batches, "__len__") and hasattr(batches, "__iter__"):
        return Repeated(batches)
    raise BadInput(
        f"batch_iter must be Infinite(…), another BatchIter or a list of minibatches, got {type(batches).__name__}. "
        "It is read again in each epoch"
    )


# Sources: a function that draws one item with the generator it is given. It keeps no position of its own.


class sample:  # users call it like a function
    """A source that draws elements of a sequence.

    Args:
        sequence: What to draw from.
        weights: One weight per element, 0 or more; elements are drawn in proportion to them. By default, all are
            equally likely.

    Raises:
        BadInput: The sequence is empty, or the weights do not fit it.

    Example:
        >>> batches = Infinite(sample([1, 2, 3], weights=[0, 1, 0]), batch_size=2, n_iters_per_epoch=1)
        >>> next(batches.open(seed=0, epoch=0))
        (array([2, 2]),)
    """

    def __init__(self, sequence: Sequence[Any], weights: Sequence[float] | None = None) -> None:
        if len(sequence) == 0:
            raise BadInput("sample: the sequence is empty")
        self._sequence = sequence
        self._cumulative: Any = None
        if weights is not None:
            shares = np.asarray(weights, np.float64)
            if len(shares) != len(sequence):
                raise BadInput(f"sample: expected one weight per element, got {len(shares)} for {len(sequence)}")
            if not (shares >= 0).all() or not shares.sum() > 0:
                raise BadInput("sample: weights must be 0 or more, with at least one above 0")
            self._cumulative = np.cumsum(shares / shares.sum())

    def __call__(self, random: np.random.Generator) -> Any:
        if self._cumulative is None:
            return self._sequence[int(random.integers(len(self._sequence)))]
        position = int(np.searchsorted(self._cumulative, random.random(), side="right"))
        return self._sequence[min(position, len(self._sequence) - 1)]


class load_by_random_id:  # users call it like a function
    """A source that draws an id and loads everything that belongs to it.

    Args:
        *loaders: Functions of an id. An item is the tuple of what they return.
        ids: What to draw from.
        weights: One weight per id, as in `sample`.

    Raises:
        BadInput: There are no loaders or no ids, or the weights do not fit.

    Example:
        >>> source = load_by_random_id(float, str, ids=[7])
        >>> source(np.random.default_rng(0))
        (7.0, '7')
    """

    def __init__(
        self, *loaders: Callable[[Any], Any], ids: Sequence[Any], weights: Sequence[float] | None = None
    ) -> None:
        if not loaders:
            raise BadInput("load_by_random_id: needs at least one function of an id")
        self._loaders = loaders
        self._sample = sample(ids, weights)

    def __call__(self, random: np.random.Generator) -> tuple[Any, ...]:
        chosen = self._sample(random)
        try:
            return tuple(load(chosen) for load in self._loaders)
        except Exception as error:
            error.add_note(f"while loading the item of id {chosen!r}")
            raise


# Transforms: a function of an item, and where it runs.

_thread = local()  # `is_worker` is set in the threads of `Threads`


class Transform:
    """Calls a function on one item after another."""

    def __init__(self, func: Callable[..., Any]) -> None:
        self.func = func
        self._takes_random = "random" in _parameters(func)

    def call(self, item: Item) -> Item:
        value, random = item
        return (self.func(value, random=random) if self._takes_random else self.func(value)), random

    def apply(self, items: Iterable[Item]) -> Generator[Item, None, None]:
        for item in items:
            yield self.call(item)


class Threads(Transform):
    """Runs a transform in threads: for functions that wait for a disk or a network, or that release the GIL.

    Args:
        func: The transform.
        n_workers: The number of threads.

    Example:
        >>> from time import sleep
        >>> def fetch(number):
        ...     sleep(0.001)
        ...     return number * 10
        >>> batches = Infinite(sample([1]), Threads(fetch, n_workers=4), batch_size=2, n_iters_per_epoch=1)
        >>> next(batches.open(seed=0, epoch=0))
        (array([10, 10]),)
    """

    def __init__(self, func: Callable[..., Any], n_workers: int = 2) -> None:
        super().__init__(func)
        self.n_workers = n_workers

    def apply(self, items: Iterable[Item]) -> Generator[Item, None, None]:
        """Apply the function to items in threads, in order.

        Args:
            items: Each item with the generator of its random numbers.
        """
        waiting: deque[Future[Item]] = deque()
        executor = self._open_executor()
        try:
            for item in items:
                waiting.append(executor.submit(self.call, item))
                if len(waiting) > 2 * self.n_workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            executor.shutdown(wait=self._may_wait(), cancel_futures=True)

    def _open_executor(self) -> Executor:
        return ThreadPoolExecutor(self.n_workers, initializer=setattr, initargs=(_thread, "is_worker", True))

    def _may_wait(self) -> bool:
        """A call under way must not overlap with the next run, so closing waits for it. The garbage collector may close
        this on any thread, and a worker must not wait for itself."""
        return not getattr(_thread, "is_worker", False)


class Processes(Threads):
    """Runs a transform in processes: for functions that compute in Python.

    Args:
        func: The transform. Processes import it by name, so it cannot be a lambda or a local function.
        n_workers: The number of processes.

    Example:
        ```python
        from samovar.functional.batch_iter import Infinite, Processes, sample


        def square(number):
            return number**2


        if __name__ == "__main__":
            batches = Infinite(sample(range(10)), Processes(square), batch_size=4, n_iters_per_epoch=1)
            print(next(batches.open(seed=0, epoch=0)))
        ```
    """

    def _open_executor(self) -> Executor:
        # A forked child of a process with threads may hang.
        return ProcessPoolExecutor(self.n_workers, get_context("forkserver"))

    def _may_wait(self) -> bool:
        return False  # a call in another process shares nothing with the next run


class unpack_args:  # users call it like a function
    """Turns a function of several arguments into a transform of a tuple.

    Args:
        func: Is called with the parts of the item.

    Example:
        >>> unpack_args(max)((1, 5, 2))
        5
    """

    def __init__(self, func: Callable[..., Any]) -> None:
        self.func = func

    def __call__(self, parts: Iterable[Any]) -> Any:
        return self.func(*parts)


class multiply:  # users call it like a function
    """Applies one function to every part of an item.

    Args:
        func: A function of one part.

    Example:
        >>> multiply(abs)((-1, -2))
        (1, 2)
    """

    def __init__(self, func: Callable[[Any], Any]) -> None:
        self.func = func

    def __call__(self, parts: Iterable[Any]) -> tuple[Any, ...]:
        return tuple(self.func(part) for part in parts)


class apply_at:  # users call it like a function
    """Applies a function to some parts of an item and leaves the others.

    Args:
        index: The number of the part, from 0, or several numbers.
        func: A function of one part.

    Example:
        >>> apply_at(1, abs)((-1, -2))
        (-1, 2)
    """

    def __init__(self, index: int | Iterable[int], func: Callable[[Any], Any]) -> None:
        self.indices = {index} if isinstance(index, int) else set(index)
        self.func = func

    def __call__(self, parts: Iterable[Any]) -> tuple[Any, ...]:
        return tuple(self.func(part) if number in self.indices else part for number, part in enumerate(parts))


def _parameters(func: Callable[..., Any]) -> set[str]:
    try:
        return set(inspect.signature(func).parameters)
    except (TypeError, ValueError):  # a function written in C that does not tell
        return set()
