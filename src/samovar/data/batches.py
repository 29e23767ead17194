"""One minibatch of a torch data set, the same in whichever process it is made. Knows no order of minibatches.

switch_state()              until it was called number + 1 times
seed the global generators with (seed, number)
items = dataset[index] …    ─▶ collate_fn ─▶ (inputs, weights, targets)
"""

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch
from torch.utils.data import IterableDataset, TensorDataset, default_collate

from samovar import seeds
from samovar.data.examples import ArrayDataset
from samovar.errors import BadInput

BatchIndices: TypeAlias = Sequence[int] | torch.Tensor | slice


@dataclass(frozen=True)
class Batch:
    """One minibatch. `weights` and `targets` are None where the data set has none."""

    inputs: tuple[Any, ...]
    weights: Any
    targets: Any
    num_examples: int


@dataclass
class BatchMaker:
    """Makes the minibatches of a data set so that they depend on the seed and their number only.

    Worker processes change nothing: before each minibatch, the global generators of Python, numpy and torch are seeded
    with (seed, number), and `switch_state` of the data set, if it has one, is called until it was called number + 1
    times.

    Args:
        dataset: Anything with `__len__` and `__getitem__`. Its own `collate_fn`, if it has one, joins examples.
        seed: The seed of everything random in a minibatch.

    Raises:
        BadInput: The data set is empty, or has no length or no examples by index.

    Example:
        >>> import numpy as np
        >>> maker = BatchMaker(ArrayDataset(np.zeros((10, 3)), np.ones(10)), seed=0)
        >>> maker.make(0, [4, 2]).targets
        tensor([1., 1.])
    """

    dataset: Any
    seed: int
    num_switches: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        check_dataset(self.dataset)
        arrays = as_arrays(self.dataset)
        if arrays is not None:
            self.dataset = arrays
        if hasattr(self.dataset, "switch_state"):
            self.dataset = copy.copy(self.dataset)  # the user's own keeps the state that every maker starts from

    @property
    def is_array(self) -> bool:
        """Whether minibatches are sliced."""
        return type(self.dataset) is ArrayDataset

    def make(self, number: int, indices: BatchIndices) -> Batch:
        """Make a minibatch.

        Args:
            number: Its number in the whole run.
            indices: The examples in it.

        Returns:
            The collated examples.

        Raises:
            BadInput: An example cannot be read, or the examples cannot be joined.
        """
        return self.make_several(number, [indices])[0]

    def make_several(self, number: int, several: Sequence[BatchIndices]) -> list[Batch]:
        """Make consecutive minibatches, the same as one by one. For small ones it is faster: the state of the global
        generators, from which the model draws too, is saved and restored only once.

        Args:
            number: The number of the first one.
            several: The examples of each, by number.
        """
        if self.is_array:
            return [self._slice(indices) for indices in several]
        with seeds.reseeding() as reseed:
            return [self._make(each, indices, reseed) for each, indices in enumerate(several, number)]

    def _slice(self, indices: BatchIndices) -> Batch:
        positions = indices if isinstance(indices, torch.Tensor | slice) else torch.tensor(indices)
        return unpack(self.dataset.take(positions))

    def _make(self, number: int, indices: BatchIndices, reseed: Callable[[int], None]) -> Batch:
        if isinstance(indices, slice):
            indices = range(indices.start, indices.stop)
        self._switch_state(number, reseed)
        reseed(seeds.derive(self.seed, "minibatch", number))
        return unpack(self._collate([read_example(self.dataset, int(index)) for index in indices]))

    def _switch_state(self, number: int, reseed: Callable[[int], None]) -> None:
        """Minibatches made by other processes count too."""
        switch = getattr(self.dataset, "switch_state", None)
        while switch is not None and self.num_switches <= number:
            reseed(seeds.derive(self.seed, "switch_state", self.num_switches))
            switch()
            self.num_switches += 1

    def _collate(self, items: list[Any]) -> Any:
        collate = getattr(self.dataset, "collate_fn", None)
        if collate is not None:
            return collate(items)
        try:
            return default_collate(items)
        except (RuntimeError, TypeError) as error:
            raise BadInput(
                f"dataset: examples cannot be joined into a minibatch: {error}. "
                "Give them one shape, or define collate_fn in the data set"
            ) from error


def read_example(dataset: Any, index: int) -> Any:
    try:
        return dataset[index]
    except Exception as error:
        raise BadInput(f"dataset: cannot read example {index}: {type(error).__name__}: {error}") from error


def check_dataset(dataset: Any) -> None:
    """Refuse a data set without a length, without examples by index, or without examples."""
    if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__"):
        raise BadInput(
            f"dataset must have __len__ and __getitem__, got {type(dataset).__name__}. "
            "For minibatches without a fixed number of examples, use train_model"
        )
    if len(dataset) == 0:
        raise BadInput("dataset is empty")


def unpack(collated: Any) -> Batch:
    """A tuple or list of two or three is (inputs, targets) or (inputs, weights, targets); anything else is inputs."""
    if not isinstance(collated, list | tuple):
        return _batch(collated, None, None)
    if len(collated) == 1:
        return _batch(collated[0], None, None)
    if len(collated) == 2:
        return _batch(collated[0], None, collated[1])
    if len(collated) == 3:
        return _batch(collated[0], collated[1], collated[2])
    raise BadInput(
        f"dataset: an example must be (input, target) or (input, weight, target), got {len(collated)} elements. "
        "Put several inputs into one list"
    )


def _batch(inputs: Any, weights: Any, targets: Any) -> Batch:
    separate = tuple(inputs) if isinstance(inputs, list | tuple) else (inputs,)
    separate = tuple(_as_float32(each) for each in separate)
    return Batch(separate, _as_float32(weights), _as_float32(targets), _count_examples(separate))


def _as_float32(value: Any) -> Any:
    """Nets have float32 weights, while Python's and numpy's floats arrive as float64."""
    if isinstance(value, torch.Tensor):
        return value.float() if value.dtype == torch.float64 else value
    if isinstance(value, Mapping):
        return {name: _as_float32(each) for name, each in value.items()}
    return value


def _count_examples(inputs: Iterable[Any]) -> int:
    for each in inputs:
        if isinstance(each, Mapping):
            return _count_examples(each.values())
        if hasattr(each, "__len__"):
            return len(each)
    return 1


def as_arrays(dataset: Any) -> ArrayDataset | None:
    """The data set as arrays, if it is one whose minibatches can be sliced; None if it makes its examples itself."""
    if type(dataset) is ArrayDataset:  # a subclass may make them in its own way
        return dataset
    if type(dataset) is not TensorDataset or hasattr(dataset, "collate_fn"):
        return None
    tensors = list(dataset.tensors)
    if len(tensors) == 3:
        return ArrayDataset(tensors[0], tensors[2], tensors[1])
    if len(tensors) == 2:
        return ArrayDataset(tensors[0], tensors[1])
    return ArrayDataset(tensors[0] if len(tensors) == 1 else tensors)
