"""One minibatch of a torch data set, made the same way in whatever process makes it. Knows no order of minibatches.

seed the global generators of this process with (seed, number)
switch_state()              until it was called number + 1 times
items = dataset[index] …    ─▶ collate_fn ─▶ (inputs, weights, targets)
"""

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils.data import IterableDataset, TensorDataset, default_collate

from samovar import seeds
from samovar.data.arrays import ArrayDataset
from samovar.errors import BadInput

Indices = Sequence[int] | torch.Tensor | slice


@dataclass(frozen=True)
class Batch:
    """One or several inputs; weights and targets where there are some."""

    inputs: tuple[Any, ...]
    weights: Any
    targets: Any
    num_examples: int


@dataclass
class BatchMaker:
    """Makes minibatch after minibatch of one data set."""

    dataset: Any
    seed: int
    num_switches: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        check_dataset(self.dataset)
        if type(self.dataset) is TensorDataset and not hasattr(self.dataset, "collate_fn"):
            self.dataset = _as_arrays(self.dataset)
        if hasattr(self.dataset, "switch_state"):
            self.dataset = copy.copy(self.dataset)  # the user's own stays at the state where each maker begins

    @property
    def is_array(self) -> bool:
        """Minibatches are taken whole. A class derived from it may have its own ways."""
        return type(self.dataset) is ArrayDataset

    def make(self, number: int, indices: Indices) -> Batch:
        """The minibatch of this number in the run, of these examples."""
        if self.is_array:
            positions = indices if isinstance(indices, torch.Tensor | slice) else torch.tensor(indices)
            return unpack(self.dataset.take(positions))
        if isinstance(indices, slice):
            indices = range(indices.start, indices.stop)
        self._switch(number)
        with seeds.seeded(seeds.derive(self.seed, "minibatch", number)):  # the model draws from the same generators
            return unpack(self._collate([read_item(self.dataset, int(index)) for index in indices]))

    def _switch(self, number: int) -> None:
        """Whoever makes minibatch k makes it after k + 1 calls, whatever was made elsewhere."""
        switch = getattr(self.dataset, "switch_state", None)
        while switch is not None and self.num_switches <= number:
            with seeds.seeded(seeds.derive(self.seed, "switch_state", self.num_switches)):
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
                f"dataset: examples cannot be joined into a minibatch ({error}); expected tensors of the same shape: "
                "make them so, or define collate_fn in the data set"
            ) from error


def read_item(dataset: Any, index: int) -> Any:
    try:
        return dataset[index]
    except Exception as error:
        raise BadInput(
            f"dataset: example {index} cannot be read ({type(error).__name__}: {error}); expected an example: mend "
            "it, or leave it out of the data set"
        ) from error


def check_dataset(dataset: Any) -> None:
    """Refuse what has no length or cannot be asked for an example."""
    if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__"):
        raise BadInput(
            f"dataset: found {type(dataset).__name__}, which has no length or no examples by number; expected a "
            "torch.utils.data.Dataset with __len__ and __getitem__: define both, or train with train_model"
        )
    if len(dataset) == 0:
        raise BadInput("dataset: it is empty; expected examples: give some")


def unpack(collated: Any) -> Batch:
    """A tuple or list of two or three is (inputs, targets) or (inputs, weights, targets); anything else is inputs."""
    if isinstance(collated, list | tuple):
        parts = list(collated)
        if len(parts) == 1:
            return _batch(parts[0], None, None)
        if len(parts) == 2:
            return _batch(parts[0], None, parts[1])
        if len(parts) == 3:
            return _batch(parts[0], parts[1], parts[2])
        raise BadInput(
            f"dataset: an example has {len(parts)} elements; expected (input, target) or (input, weight, target), "
            "where several inputs are one list: put them so"
        )
    return _batch(collated, None, None)


def _batch(inputs: Any, weights: Any, targets: Any) -> Batch:
    several = tuple(inputs) if isinstance(inputs, list | tuple) else (inputs,)
    several = tuple(_tensor(each) for each in several)
    return Batch(several, _tensor(weights), _tensor(targets), _count(several))


def _tensor(value: Any) -> Any:
    """Floats of a net are float32: Python's and numpy's come as float64."""
    if isinstance(value, torch.Tensor):
        return value.float() if value.dtype == torch.float64 else value
    if isinstance(value, Mapping):
        return {name: _tensor(each) for name, each in value.items()}
    return value


def _count(inputs: Iterable[Any]) -> int:
    for each in inputs:
        if isinstance(each, Mapping):
            return _count(each.values())
        if hasattr(each, "__len__"):
            return len(each)
    return 1


def _as_arrays(dataset: TensorDataset) -> ArrayDataset:
    tensors = list(dataset.tensors)
    if len(tensors) == 3:
        return ArrayDataset(tensors[0], tensors[2], tensors[1])
    if len(tensors) == 2:
        return ArrayDataset(tensors[0], tensors[1])
    return ArrayDataset(tensors[0] if len(tensors) == 1 else tensors)
