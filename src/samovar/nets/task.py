"""`TabularTask`: what is predicted. Targets as tensors, the loss over the members of a net, predictions from its
outputs. Knows no rows and no nets."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from numpy.typing import NDArray
from pyarrow import types
from pydantic import Field, Strict
from torch.nn import functional

from samovar.brewing.arrays import as_numpy, is_text
from samovar.config.records import Flag, Number, Positive, Text, check_state
from samovar.errors import BadInput
from samovar.nets.columns import as_column

MOST_CLASSES = 100
"""Integers are classes only if they are not more than these."""
_Kind = Literal["regression", "binary", "multiclass"]
_Int64 = Annotated[int, Strict(), Field(ge=-(2**63), lt=2**63)]


@dataclass(frozen=True)
class _State:
    """What a file holds."""

    kind: _Kind
    classes: list[Text] | list[Flag] | list[_Int64] | list[Number] | None
    mean: Number
    std: Positive

    def __post_init__(self) -> None:
        num_classes = 0 if self.classes is None else len(set(self.classes))
        kind = "regression" if self.classes is None else "binary" if num_classes == 2 else "multiclass"
        if kind != self.kind or num_classes == 1 or num_classes < len(self.classes or ()):
            raise ValueError(f"the classes are not those of kind {self.kind!r}")


class TabularTask:
    """What is predicted: a number, yes or no, or one of several classes. Also the criterion that trains a `TabularNet`.

    | kind | outputs | prediction |
    |---|---|---|
    | `"regression"` | 1 | the number |
    | `"binary"` | 1 | the probability of the second class |
    | `"multiclass"` | one per class | the probability of each class |

    Text, categories, booleans and two whole numbers are classes. Integers are classes if they are 0 … K - 1 or 1 … K
    without a gap, with K up to 100. All other numbers are numbers.

    Missing targets are ignored by the loss. Numbers are standardised for training; predictions are in their own units.

    Attributes:
        kind: `"regression"`, `"binary"` or `"multiclass"`.
        classes: The classes in ascending order, as they are in the targets; None for numbers.
        mean: The mean of the numbers; 0 for classes.
        std: Their standard deviation; 1 for classes.

    Example:
        >>> import torch
        >>> task = TabularTask.fit(["no", "yes", "yes", "no"])
        >>> task.kind, task.num_outputs, list(task.classes)
        ('binary', 1, ['no', 'yes'])
        >>> target = task.encode(["yes", "no"])
        >>> output = torch.zeros(2, 8, 1)  # of two rows and eight members
        >>> round(task(output, target).item(), 4)
        0.6931
        >>> task.postproc(output)
        tensor([0.5000, 0.5000])
    """

    def __init__(self) -> None:
        self.kind: _Kind = "regression"
        self.classes: NDArray[Any] | None = None
        self.mean = 0.0
        self.std = 1.0

    @classmethod
    def fit(cls, target: Any, kind: Literal["regression", "classification"] | None = None) -> Self:
        """Learn from targets what they are.

        Args:
            target: One value per row: an array, a series, a tensor or a list.
            kind: What to predict, where the rule in the table above would be wrong.

        Returns:
            A task.

        Raises:
            BadInput: There are no targets, one class only, text where numbers are wanted, or a number is infinite.
        """
        if kind not in (None, "regression", "classification"):
            raise BadInput(f"kind must be 'regression' or 'classification', got {kind!r}")
        known = _read_target(target).drop_null()
        if len(known) == 0:
            raise BadInput("target: every value is missing")
        task = cls()
        distinct = _sort(known.unique())
        if kind == "classification" or (kind is None and _are_classes(distinct)):
            if len(distinct) < 2:
                raise BadInput(f"target: classes must be at least two, got only {distinct[0].as_py()!r}")
            task.kind = "binary" if len(distinct) == 2 else "multiclass"
            task.classes = _as_classes(distinct)
        else:
            numbers = _as_numbers(known)
            std = float(numbers.std())
            task.mean, task.std = float(numbers.mean()), std if std > 0 else 1.0
        return task

    @property
    def num_outputs(self) -> int:
        """How many outputs each member of the net needs."""
        return len(self.classes) if self.kind == "multiclass" and self.classes is not None else 1

    def encode(self, target: Any) -> torch.Tensor:
        """Turn targets into what the loss takes.

        Args:
            target: One value per row, as in `fit`.

        Returns:
            One entry per row: standardised numbers, 0 or 1 as floats, or the numbers of classes as int64. Missing is
            NaN, or -1 for several classes.

        Raises:
            BadInput: A class is unknown, or a value has another type.
        """
        array = _read_target(target)
        if self.classes is None:
            return torch.from_numpy(((_as_numbers(array) - self.mean) / self.std).astype(np.float32))
        known = pa.array(self.classes.tolist())
        try:
            found = pc.index_in(array.cast(known.type), value_set=known)
        except pa.ArrowException:
            raise BadInput(f"target: classes must be {known.type}, as they were in fit; got {array.type}") from None
        unknown = pc.and_(pc.is_null(found), pc.is_valid(array))
        if pc.any(unknown).as_py():
            shown = ", ".join(map(str, self.classes[:20]))
            raise BadInput(f"target: the class {array.filter(unknown)[0].as_py()!r} is unknown; fit saw {shown}")
        if self.kind == "binary":
            return torch.from_numpy(as_numpy(found.cast(pa.float32())).astype(np.float32))
        return torch.from_numpy(as_numpy(pc.fill_null(found, -1)).astype(np.int64))

    # The criterion

    def __call__(self, output: Any, target: Any, weights: Any = None, unscaled: bool = False) -> torch.Tensor:
        """Return the loss of a minibatch.

        Args:
            output: Outputs of the net, [B, members, outputs].
            target: What `encode` returned, for these rows.
            weights: A weight per row, which multiplies its loss.
            unscaled: False for the mean loss of the members, to train with. True for the loss of their mean prediction,
                to compare nets by: the squared error in the units of the target, or the log-loss.

        Returns:
            A scalar.
        """
        if output.dim() != 3 or output.shape[2] != self.num_outputs or len(output) != len(target):
            raise BadInput(
                f"net: output of shape {list(output.shape)} does not fit {len(target)} targets, which need the shape "
                f"[{len(target)}, members, {self.num_outputs}]"
            )
        target = target.reshape(-1)
        is_known: torch.Tensor = target >= 0 if self.kind == "multiclass" else ~target.isnan()
        clean = torch.where(is_known, target, 0)
        losses = self._loss_of_mean(output, clean) if unscaled else self._mean_of_losses(output, clean)
        if weights is not None:
            losses = losses * weights.reshape(-1)
        return torch.where(is_known, losses, 0).sum() / is_known.sum().clamp(min=1)

    def _mean_of_losses(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        num_members = output.shape[1]
        repeated = target.unsqueeze(1).expand(-1, num_members)
        if self.kind == "regression":
            losses = (output[:, :, 0] - repeated).square()
        elif self.kind == "binary":
            losses = functional.binary_cross_entropy_with_logits(output[:, :, 0], repeated, reduction="none")
        else:
            losses = functional.cross_entropy(output.flatten(0, 1), repeated.flatten(), reduction="none")
        return losses.reshape(len(target), num_members).mean(1)

    def _loss_of_mean(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        if self.kind == "regression":
            return (output[:, :, 0].mean(1) - target).square() * self.std**2
        if self.kind == "binary":
            logits = torch.stack([-output[:, :, 0], output[:, :, 0]], 2)
            logs = functional.logsigmoid(logits)
        else:
            logs = output.log_softmax(2)
        mean_logs = logs.logsumexp(1) - math.log(output.shape[1])  # the logarithm of mean probabilities
        return -mean_logs.gather(1, target.long().unsqueeze(1)).squeeze(1)

    def postproc(self, pred: torch.Tensor) -> torch.Tensor:
        """Turn outputs into predictions.

        Args:
            pred: Outputs of the net, [B, members, outputs].

        Returns:
            Numbers [B] as float64, the probabilities of the second class [B], or of all classes [B, classes].
        """
        if self.kind == "regression":
            means: torch.Tensor = pred[:, :, 0].double().mean(1)
            return means * self.std + self.mean
        if self.kind == "binary":
            return pred[:, :, 0].sigmoid().mean(1)
        return pred.softmax(2).mean(1)

    # State

    def state_dict(self) -> dict[str, Any]:
        """Everything that was learned, as plain values."""
        classes = None if self.classes is None else self.classes.tolist()
        return {"kind": self.kind, "classes": classes, "mean": self.mean, "std": self.std}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Replace what was learned by what `state_dict` returned.

        Args:
            state: The state.

        Raises:
            CorruptData: The state is damaged.
        """
        found = check_state(_State, state, "the state of the TabularTask")
        self.kind, self.mean, self.std = found.kind, found.mean, found.std
        self.classes = None if found.classes is None else _as_classes(pa.array(found.classes))


def _read_target(target: Any) -> pa.Array:
    array = as_column(target, "target")
    if types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if types.is_floating(array.type):
        array = pc.if_else(pc.is_nan(array), None, array)
    if is_text(array.type):
        array = array.cast(pa.string())
    return array


def _sort(array: pa.Array) -> pa.Array:
    return array.take(pc.array_sort_indices(array)) if not types.is_boolean(array.type) else pa.array([False, True])


def _are_classes(distinct: pa.Array) -> bool:
    """Whether distinct values, ascending, are classes."""
    if is_text(distinct.type) or types.is_boolean(distinct.type):
        return True
    values = distinct.to_pylist() if len(distinct) <= MOST_CLASSES else []
    if len(values) == 2:
        return all(value == int(value) for value in values)
    is_range = len(values) > 2 and values[0] in (0, 1) and values[-1] - values[0] == len(values) - 1
    return is_range and bool(types.is_integer(distinct.type))


def _as_classes(distinct: pa.Array) -> NDArray[Any]:
    return np.array(distinct.to_pylist(), dtype=object if is_text(distinct.type) else None)


def _as_numbers(array: pa.Array) -> NDArray[np.float64]:
    if not (types.is_integer(array.type) or types.is_floating(array.type) or types.is_decimal(array.type)):
        if not types.is_boolean(array.type) and not types.is_null(array.type):
            raise BadInput(f"target: values must be numbers, got {array.type}")
        array = array.cast(pa.uint8())
    numbers = as_numpy(array.cast(pa.float64(), safe=False)).astype(np.float64)
    if np.isinf(numbers).any():
        row = int(np.flatnonzero(np.isinf(numbers))[0])
        raise BadInput(f"target, row {row}: the value is {numbers[row]}; numbers must be finite or missing")
    return numbers
