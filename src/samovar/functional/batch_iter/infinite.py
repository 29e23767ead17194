"""Minibatches without end, cut into epochs. What an item is depends on (seed, epoch, item) alone.

source ─▶ transform ─▶ … ─▶ batch_size items ─▶ combiner ─▶ minibatch      made ahead of the step, in a thread
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from numbers import Integral
from typing import Any

import numpy as np

from samovar.errors import BadInput
from samovar.functional.batch_iter.base import BatchIter
from samovar.functional.batch_iter.sources import Source
from samovar.functional.batch_iter.transforms import Item, Transform
from samovar.seeds import numpy_generator


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
    try:
        for _ in range(count + 1):
            waiting.append(executor.submit(next, batches, end))
        while (batch := waiting.popleft().result()) is not end:
            waiting.append(executor.submit(next, batches, end))
            yield batch
    finally:
        executor.shutdown(wait=False, cancel_futures=True)  # see the reader of tables: nobody waits for it
