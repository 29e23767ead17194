"""Examples in memory, and their split into a training and a validation part. Never imports pandas."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import Dataset

from samovar.errors import BadInput
from samovar.native import hash_integers
from samovar.seeds import derive

Indices: TypeAlias = NDArray[np.int64]


class ArrayDataset(Dataset[Any]):
    """Arrays, tensors or pandas frames as a data set whose minibatches are sliced, not collated.

    An example is `(input, target)`, or `(input, weight, target)` with weights, or `(input,)` without targets. Floats
    become float32. Integers stay integers, because they are class labels or ids.

    Args:
        inputs: An array with one entry per example along its first axis. For a net with several inputs, a list of
            arrays.
        targets: What to predict, one entry per example; not needed for prediction.
        weights: The weight of each example, or of each of its outputs.

    Raises:
        BadInput: The arrays have different numbers of examples, or values that are not numbers.

    Example:
        >>> import numpy as np
        >>> dataset = ArrayDataset(np.zeros((100, 3)), targets=np.ones((100, 1)))
        >>> len(dataset)
        100
        >>> dataset[0]
        (tensor([0., 0., 0.]), tensor([1.]))
    """

    def __init__(self, inputs: Any, targets: Any = None, weights: Any = None) -> None:
        self.has_several_inputs = isinstance(inputs, list | tuple)
        arrays = inputs if self.has_several_inputs else [inputs]
        self.inputs = [as_tensor(each, f"input {number}") for number, each in enumerate(arrays)]
        self.targets = None if targets is None else as_tensor(targets, "targets")
        self.weights = None if weights is None else as_tensor(weights, "weights").float()
        tensors = [*self.inputs, *(each for each in (self.targets, self.weights) if each is not None)]
        if len({len(each) for each in tensors}) != 1:
            lengths = ", ".join(str(len(each)) for each in tensors)
            raise BadInput(f"inputs, targets and weights must have the same number of examples, got {lengths}")

    def __len__(self) -> int:
        return len(self.inputs[0])

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        return self._select(lambda tensor: tensor[index])

    def take(self, indices: torch.Tensor | slice) -> tuple[Any, ...]:
        """Return a whole minibatch, the same as collating its examples would give.

        Args:
            indices: The examples, by number.
        """
        if isinstance(indices, slice):
            return self._select(lambda tensor: tensor[indices])
        return self._select(lambda tensor: tensor.index_select(0, indices))

    def _select(self, pick: Callable[[torch.Tensor], torch.Tensor]) -> tuple[Any, ...]:
        picked = [pick(each) for each in self.inputs]
        inputs = picked if self.has_several_inputs else picked[0]
        if self.targets is None:
            return (inputs,)
        weights = [] if self.weights is None else [pick(self.weights)]
        return (inputs, *weights, pick(self.targets))


def as_tensor(values: Any, name: str) -> torch.Tensor:
    """Turn a tensor, array, list or frame into a tensor of numbers; floats become float32."""
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
        raise BadInput(f"{name}: values must be numbers, got {array.dtype}")
    if not array.flags.writeable or not array.flags.c_contiguous:
        array = array.copy()
    return torch.from_numpy(array)


def _as_array(values: Any, name: str) -> np.ndarray[Any, Any]:
    if hasattr(values, "to_numpy"):  # a frame or a series, of pandas or a library like it
        columns = getattr(values, "columns", None)
        if columns is None:
            return np.asarray(values.to_numpy())
        kinds = {_column_kind(values, column, name) for column in columns}
        return np.asarray(values.to_numpy(), dtype=None if kinds <= {"i", "u"} else np.float32)
    if isinstance(values, str | bytes) or not isinstance(values, np.ndarray | Sequence):
        raise BadInput(f"{name} must be a numpy array, a tensor or a pandas frame, got {type(values).__name__}")
    return np.asarray(values)


def _column_kind(frame: Any, column: Any, name: str) -> str:
    dtype = np.asarray(frame[column].to_numpy()).dtype
    if dtype.kind not in "fiub":
        raise BadInput(f"{name}: column {column!r} must hold numbers, got {dtype}. Convert it or drop it")
    return dtype.kind


@dataclass(frozen=True, eq=False)
class Split:
    """Which examples are trained on and which are held out, by index.

    Attributes:
        train: Indices of the training part, ascending.
        valid: Indices of the validation part, ascending.

    Example:
        >>> split = split_examples(10, train_prop=0.8, shuffle=False)
        >>> split.valid
        array([8, 9])
    """

    train: Indices
    valid: Indices


def split_examples(num_examples: int, train_prop: float, shuffle: bool) -> Split:
    """Split examples into a training and a validation part.

    Args:
        num_examples: How many examples there are.
        train_prop: The share to train on, between 0 and 1.
        shuffle: With True, a fixed hash of the index decides: every run gets the same split, and examples appended
            later move no earlier one. With False, the head is trained on and the tail is held out.

    Returns:
        The indices of both parts.

    Raises:
        BadInput: `train_prop` is not between 0 and 1, or one part would be empty.

    Example:
        >>> split_examples(5, train_prop=0.6, shuffle=False).train
        array([0, 1, 2])
    """
    if not isinstance(train_prop, Real) or not 0 < train_prop < 1:
        raise BadInput(f"train_prop must be between 0 and 1, both excluded, got {train_prop!r}")
    indices = np.arange(num_examples, dtype=np.int64)
    if shuffle:
        is_train = hash_integers(indices, derive(0, "split")) < np.uint64(int(train_prop * 2**64))
    else:
        is_train = indices < round(num_examples * train_prop)
    split = Split(indices[is_train], indices[~is_train])
    for name, part in (("training", split.train), ("validation", split.valid)):
        if len(part) == 0:
            raise BadInput(
                f"the {name} part of {num_examples} examples is empty with train_prop={train_prop}. "
                "Give more examples or another train_prop"
            )
    return split
