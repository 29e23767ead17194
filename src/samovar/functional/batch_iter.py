"""The seam: what gives the minibatches of an epoch.

Endless sources: a function that draws one item with the generator that it is given. It keeps no place of its own.

Functions of an item, and where they run: here, in threads, in processes. The order of items never changes.

A function with a parameter named `random` is handed the item's own generator: what it draws depends on nothing else.

Minibatches without end, cut into epochs. What an item is depends on (seed, epoch, item) alone.

source ─▶ transform ─▶ … ─▶ batch_size items ─▶ combiner ─▶ minibatch      made ahead of the step, in a thread
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


class BatchIter(ABC):
    """The minibatches of an epoch depend on (seed, epoch) alone, so that a resumed run sees the same ones."""

    @property
    @abstractmethod
    def num_batches(self) -> int:
        """Of an epoch."""

    @abstractmethod
    def open(self, seed: int, epoch: int) -> Generator[Any, None, None]:
        """The minibatches of one epoch, each a tuple of arrays. Closing it ends all work ahead."""


class Repeated(BatchIter):
    """Anything with a length that gives the same minibatches each time, for example a list."""

    def __init__(self, batches: Any) -> None:
        self._batches = batches

    @property
    def num_batches(self) -> int:
        return len(self._batches)

    def open(self, seed: int, epoch: int) -> Generator[Any, None, None]:
        yield from self._batches


def as_batch_iter(batches: Any) -> BatchIter:
    """What `train_model` makes of its argument: a `BatchIter` itself, or a list that is gone through in each epoch."""
    if isinstance(batches, BatchIter):
        return batches
    if hasattr(batches, "__len__") and hasattr(batches, "__iter__"):
        return Repeated(batches)
    raise BadInput(
        f"batch_iter: found {type(batches).__name__}; expected Infinite(…), another BatchIter or a list of batches: "
        "a generator cannot be read again from the same place"
    )


Source: TypeAlias = Callable[[np.random.Generator], Any]


class sample:  # users call it like a function
    """Draws elements of a sequence, with equal chances or by weights."""

    def __init__(self, sequence: Sequence[Any], weights: Sequence[float] | None = None) -> None:
        if len(sequence) == 0:
            raise BadInput("sample: the sequence is empty; expected something to draw from: give some ids")
        self._sequence = sequence
        self._ends: Any = None
        if weights is not None:
            shares = np.asarray(weights, np.float64)
            if len(shares) != len(sequence) or not (shares >= 0).all() or not shares.sum() > 0:
                raise BadInput(
                    f"sample: found {len(shares)} weights for {len(sequence)} elements; expected one a element, none "
                    "below 0 and some above: mend the weights"
                )
            self._ends = np.cumsum(shares / shares.sum())

    def __call__(self, random: np.random.Generator) -> Any:
        if self._ends is None:
            return self._sequence[int(random.integers(len(self._sequence)))]
        place = int(np.searchsorted(self._ends, random.random(), side="right"))
        return self._sequence[min(place, len(self._sequence) - 1)]


class load_by_random_id:  # users call it like a function
    """Draws an id and gives what each loader returns for it, as a tuple."""

    def __init__(
        self, *loaders: Callable[[Any], Any], ids: Sequence[Any], weights: Sequence[float] | None = None
    ) -> None:
        if not loaders:
            raise BadInput("load_by_random_id: no loaders; expected functions of an id: give at least one")
        self._loaders = loaders
        self._sample = sample(ids, weights)

    def __call__(self, random: np.random.Generator) -> tuple[Any, ...]:
        chosen = self._sample(random)
        try:
            return tuple(load(chosen) for load in self._loaders)
        except Exception as error:
            error.add_note(f"while loading the item of id {chosen!r}")
            raise


Item: TypeAlias = tuple[Any, np.random.Generator]
"""A value, and its generator."""


_thread = local()  # `is_worker` is set in the threads of `Threads`


class Transform:
    """Calls a function on each item in turn."""

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
    """Calls it in several threads: for functions that wait, or that leave Python."""

    def __init__(self, func: Callable[..., Any], n_workers: int = 2) -> None:
        super().__init__(func)
        self.n_workers = n_workers

    def executor(self) -> Executor:
        return ThreadPoolExecutor(self.n_workers, initializer=setattr, initargs=(_thread, "is_worker", True))

    def apply(self, items: Iterable[Item]) -> Generator[Item, None, None]:
        waiting: deque[Future[Item]] = deque()
        executor = self.executor()
        try:
            for item in items:
                waiting.append(executor.submit(self.call, item))
                if len(waiting) > 2 * self.n_workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            executor.shutdown(wait=self._may_wait(), cancel_futures=True)

    def _may_wait(self) -> bool:
        """Calls under way must not meet the next run. But the garbage collector may close this on any thread: a worker
        must not wait for itself."""
        return not getattr(_thread, "is_worker", False)


class Processes(Threads):
    """Calls it in several processes; the function must be importable by name."""

    def executor(self) -> Executor:
        # A forked child of a process with threads may hang.
        return ProcessPoolExecutor(self.n_workers, get_context("forkserver"))

    def _may_wait(self) -> bool:
        return False  # a call in another process shares nothing with the next run


class unpack_args:  # users call it like a function
    """A function of an item from a function of its parts."""

    def __init__(self, func: Callable[..., Any]) -> None:
        self.func = func

    def __call__(self, parts: Iterable[Any]) -> Any:
        return self.func(*parts)


class multiply:  # users call it like a function
    """The same function of each part."""

    def __init__(self, func: Callable[[Any], Any]) -> None:
        self.func = func

    def __call__(self, parts: Iterable[Any]) -> tuple[Any, ...]:
        return tuple(self.func(part) for part in parts)


class apply_at:  # users call it like a function
    """A function of some parts only, by their numbers."""

    def __init__(self, index: int | Iterable[int], func: Callable[[Any], Any]) -> None:
        self.indices = {index} if isinstance(index, int) else set(index)
        self.func = func

    def __call__(self, parts: Iterable[Any]) -> tuple[Any, ...]:
        return tuple(self.func(part) if number in self.indices else part for number, part in enumerate(parts))


def _parameters(func: Callable[..., Any]) -> set[str]:
    try:
        return set(inspect.signature(func).parameters)
    except (TypeError, ValueError):  # a function of C that does not say
        return set()


class Infinite(BatchIter):
    """`source` draws an item, each transform changes it, `batch_size` of them are combined into a minibatch.

    An epoch has `n_iters_per_epoch` minibatches; `buffer_size` of them are made ahead."""

    def __init__(
        self,
        source: Source,
        *transforms: Callable[..., Any] | Transform,
        batch_size: int,
        n_iters_per_epoch: int,
        buffer_size: int = 1,
        combiner: Callable[[Sequence[Any]], Any] | None = None,
    ) -> None:
        if not callable(source):
            raise BadInput(
                f"Infinite: found a source of type {type(source).__name__}; expected load_by_random_id(…), sample(…) "
                "or a function of a generator: an iterator cannot go on from the same place"
            )
        counts = (
            ("batch_size", batch_size, 1),
            ("n_iters_per_epoch", n_iters_per_epoch, 1),
            ("buffer_size", buffer_size, 0),
        )
        for name, value, least in counts:
            if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
                raise BadInput(
                    f"Infinite: {name} is {value!r}; expected a whole number, at least {least}: change the argument"
                )
        self._source = source
        self._transforms = [each if isinstance(each, Transform) else Transform(each) for each in transforms]
        self._batch_size = batch_size
        self._num_batches = n_iters_per_epoch
        self._buffer_size = buffer_size
        self._combine = combiner or combine_to_arrays

    @property
    def num_batches(self) -> int:
        return self._num_batches

    def open(self, seed: int, epoch: int) -> Generator[Any, None, None]:
        batches = self._batches(seed, epoch)
        return _ahead(batches, self._buffer_size) if self._buffer_size > 0 else batches

    def _batches(self, seed: int, epoch: int) -> Generator[Any, None, None]:
        stages: list[Generator[Item, None, None]] = [self._draw(seed, epoch)]
        for transform in self._transforms:
            stages.append(transform.apply(stages[-1]))
        try:
            while batch := [value for value, _ in islice(stages[-1], self._batch_size)]:
                yield self._combine(batch)
        finally:
            for stage in reversed(stages):
                stage.close()

    def _draw(self, seed: int, epoch: int) -> Generator[Item, None, None]:
        for number in range(self._num_batches * self._batch_size):
            random = numpy_generator(seed, "item", epoch, number)
            yield self._source(random), random


def combine_to_arrays(items: Sequence[Any]) -> tuple[Any, ...]:
    """The first parts of all items as one array, the second as another, …"""
    parts: Iterable[Any] = zip(*items, strict=True) if isinstance(items[0], tuple | list) else [items]
    try:
        return tuple(np.stack([np.asarray(value) for value in part]) for part in parts)
    except ValueError as error:
        raise BadInput(
            f"Infinite: items cannot be joined into a minibatch ({error}); expected arrays of one shape: "
            "crop or pad them in a transform, or give a combiner"
        ) from error


def _ahead(batches: Generator[Any, None, None], count: int) -> Generator[Any, None, None]:
    """The same, with so many made ahead by a thread."""
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
        # The call under way must not meet the next run. But the garbage collector may close this on any thread, even on
        # one that the worker waits for: only the reader waits.
        is_reader = get_ident() == reader
        executor.shutdown(wait=is_reader, cancel_futures=True)
        if is_reader:
            batches.close()
