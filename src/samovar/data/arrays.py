"""Numpy arrays, tensors and pandas frames as examples that are taken many at a time. Never imports pandas.

Which examples are trained on and which are held out. Knows numbers of examples only.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import Dataset

from samovar.errors import BadInput
from samovar.native import hash_integers
from samovar.seeds import derive


class ArrayDataset(Dataset[Any]):
    """Examples side by side in memory: one or several inputs, with or without weights and targets.

    Numbers become float32, whole numbers stay what they are: labels of classes, ids.
    """

    def __init__(self, inputs: Any, targets: Any = None, weights: Any = None) -> None:
        several = inputs if isinstance(inputs, list | tuple) else [inputs]
        self.has_several_inputs = isinstance(inputs, list | tuple)
        self.inputs = [as_tensor(each, f"input {number}") for number, each in enumerate(several)]
        self.targets = None if targets is None else as_tensor(targets, "targets")
        self.weights = None if weights is None else as_tensor(weights, "weights").float()
        parts = [*self.inputs, *(each for each in (self.targets, self.weights) if each is not None)]
        if len({len(part) for part in parts}) != 1:
            raise BadInput(
                f"arrays of {', '.join(str(len(part)) for part in parts)} examples (inputs, targets, weights); "
                "expected as many in each: cut them to the same rows"
            )

    def __len__(self) -> int:
        return len(self.inputs[0])

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        taken = self._parts([part[index] for part in self.inputs], lambda part: part[index])
        return taken

    def take(self, indices: torch.Tensor | slice) -> tuple[Any, ...]:
        """A whole minibatch, as `collate_fn` of its examples would give it."""
        if isinstance(indices, slice):
            return self._parts([part[indices] for part in self.inputs], lambda part: part[indices])
        return self._parts(
            [part.index_select(0, indices) for part in self.inputs], lambda part: part.index_select(0, indices)
        )

    def _parts(self, inputs: list[torch.Tensor], take: Any) -> tuple[Any, ...]:
        given = inputs if self.has_several_inputs else inputs[0]
        rest = [take(part) for part in (self.weights, self.targets) if part is not None]
        return (given, *rest) if self.targets is not None else (given,)


def as_tensor(values: Any, name: str) -> torch.Tensor:
    """A tensor of numbers from a tensor, an array, a list or a frame; floats become float32."""
    if isinstance(values, torch.Tensor):
        return values.float() if values.dtype in (torch.float64, torch.float16) else values
    array = _as_array(values, name)
    if array.dtype.kind == "f":
        array = array.astype(np.float32, copy=False)
    elif array.dtype.kind == "b":
        array = array.astype(np.float32)
    elif array.dtype.kind in "iu":
        array = array.astype(np.int64, copy=False) if array.dtype != np.uint8 or array.ndim == 1 else array
    else:
        raise BadInput(
            f"{name}: found values of type {array.dtype}; expected numbers: turn texts into numbers, or leave them out"
        )
    if not array.flags.writeable or not array.flags.c_contiguous:
        array = array.copy()
    return torch.from_numpy(array)


def _as_array(values: Any, name: str) -> np.ndarray[Any, Any]:
    if hasattr(values, "to_numpy"):  # a frame or a series of pandas, or of its likes
        columns = getattr(values, "columns", None)
        if columns is not None:
            _refuse_texts(values, list(columns), name)
            kinds = {np.asarray(values[column].to_numpy()).dtype.kind for column in columns}
            return np.asarray(values.to_numpy(), dtype=None if kinds <= {"i", "u"} else np.float32)
        return np.asarray(values.to_numpy())
    if isinstance(values, str | bytes) or not isinstance(values, np.ndarray | Sequence):
        raise BadInput(
            f"{name}: found {type(values).__name__}; expected a numpy array, a tensor or a pandas frame: convert it"
        )
    return np.asarray(values)


def _refuse_texts(frame: Any, columns: list[Any], name: str) -> None:
    for column in columns:
        kind = np.asarray(frame[column].to_numpy()).dtype
        if kind.kind not in "fiub":
            raise BadInput(
                f"{name}: column {column!r} has values of type {kind}; expected numbers: turn it into numbers "
                "or leave it out"
            )


Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Split:
    """The numbers of the examples to train on, and of those to judge by."""

    train: Indices
    valid: Indices


def split_examples(num_examples: int, train_prop: float, shuffle: bool) -> Split:
    """With `shuffle`, by a fixed hash of each index: the same in every run, and rows appended later move no old one.
    Without, head and tail."""
    if not 0 < train_prop < 1:
        raise BadInput(
            f"train_prop: found {train_prop}; expected a part between 0 and 1, both ends excluded: some examples must "
            "be left to measure with"
        )
    indices = np.arange(num_examples, dtype=np.int64)
    if shuffle:
        is_train = hash_integers(indices, derive(0, "split")) < np.uint64(int(train_prop * 2**64))
    else:
        is_train = indices < round(num_examples * train_prop)
    split = Split(indices[is_train], indices[~is_train])
    for name, part in (("training", split.train), ("validation", split.valid)):
        if len(part) == 0:
            raise BadInput(
                f"split: the {name} part of {num_examples} examples is empty with train_prop={train_prop}; expected "
                "both parts to have some: give more examples, or another train_prop"
            )
    return split
