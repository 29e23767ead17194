"""The seam: what gives the minibatches of an epoch."""

from abc import ABC, abstractmethod
from collections.abc import Generator
from typing import Any

from samovar.errors import BadInput


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
