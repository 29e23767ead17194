"""Criteria: the loss that is minimised, the loss that is judged by, and what a prediction is made of an output.

Some examples of a data set, as a data set.

What the columns of a target are: numbers, yes or no, or one of several classes. Found in examples, or given.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch.nn import functional
from torch.utils.data import Dataset

from samovar.data.arrays import Indices
from samovar.data.batches import read_item
from samovar.errors import BadInput


class Part(Dataset[Any]):
    """What the whole says of its columns holds for the part."""

    def __init__(self, dataset: Any, indices: Indices) -> None:
        self.dataset = dataset
        self.indices = indices
        for name in ("regression_flags", "scale"):
            if hasattr(dataset, name):
                setattr(self, name, getattr(dataset, name))

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int) -> Any:
        return self.dataset[int(self.indices[index])]


NUM_EXAMPLES = 1000
"""So many of the first examples are looked at."""


@dataclass(frozen=True)
class Columns:
    """One entry a column of the target."""

    kinds: tuple[int, ...]
    """1: a number, 0: yes or no, 3 and more: one of so many classes."""
    means: tuple[float, ...]
    stds: tuple[float, ...]

    @property
    def num_outputs(self) -> int:
        """Of the net: a class has one each."""
        return sum(kind if kind > 2 else 1 for kind in self.kinds)


def gather_targets(dataset: Any) -> torch.Tensor:
    """The targets of the first examples, [examples, …]."""
    found = []
    for index in range(min(NUM_EXAMPLES, len(dataset))):
        number = int(dataset.indices[index]) if isinstance(dataset, Part) else index
        item = read_item(dataset.dataset if isinstance(dataset, Part) else dataset, number)
        if not isinstance(item, list | tuple) or len(item) not in (2, 3):
            raise BadInput(
                f"dataset: example {number} has no target; expected (input, target) or (input, weight, target): "
                "give targets, or set regression_flags and scale of the data set"
            )
        found.append(torch.as_tensor(item[-1]))
    try:
        return torch.stack(found)
    except RuntimeError as error:
        raise BadInput(
            f"dataset: targets have different shapes ({error}); expected one shape: set regression_flags and scale "
            "of the data set"
        ) from error


def find_columns(targets: torch.Tensor | None, flags: Any = None, scale: Any = None) -> Columns:
    """From examples, where flags or scale are not given."""
    by_column = None if targets is None else _by_column(targets)
    if flags is None:
        if by_column is None or targets is None:
            raise BadInput(
                "MixedCriterion: neither a data set nor regression_flags and scale; expected one of both: give it"
            )
        is_whole = not targets.is_floating_point() and targets.dtype != torch.bool
        kinds = [_kind(values, is_whole) for values in by_column]
    else:
        kinds = [int(flag) for flag in torch.as_tensor(flags).reshape(-1).tolist()]
        if any(kind < 0 or kind == 2 for kind in kinds):
            raise BadInput(
                f"MixedCriterion: regression_flags {kinds}; expected 1 for a number, 0 for yes or no (also for two "
                "classes), 3 or more for so many classes: mend them"
            )
    if scale is not None:
        means, stds = (torch.as_tensor(each, dtype=torch.float64).reshape(-1).tolist() for each in scale)
        means, stds = (each * len(kinds) if len(each) == 1 else each for each in (means, stds))
    elif by_column is not None:
        means, stds = [], []
        for kind, values in zip(kinds, by_column, strict=True):
            mean, std = _scale(values) if kind == 1 else (0.0, 1.0)
            means.append(mean)
            stds.append(std)
    else:
        means, stds = [0.0] * len(kinds), [1.0] * len(kinds)
    if not len(kinds) == len(means) == len(stds) or any(not std > 0 for std in stds):
        raise BadInput(
            f"MixedCriterion: {len(kinds)} regression_flags, scale of {len(means)} means and stds {stds}; expected one "
            "a column, and stds above 0: mend them"
        )
    means = [mean if kind == 1 else 0.0 for kind, mean in zip(kinds, means, strict=True)]
    stds = [std if kind == 1 else 1.0 for kind, std in zip(kinds, stds, strict=True)]
    return Columns(tuple(kinds), tuple(means), tuple(stds))


def _by_column(targets: torch.Tensor) -> list[torch.Tensor]:
    """The values of each column that are there."""
    columns = targets.reshape(-1, 1) if targets.dim() == 1 else targets
    values = [columns[:, number].reshape(-1).double() for number in range(columns.shape[1])]
    return [each[~each.isnan()] for each in values]


def _kind(values: torch.Tensor, is_whole: bool) -> int:
    if bool(((values == 0) | (values == 1)).all()):
        return 0
    if is_whole and bool((values >= 0).all()):
        return int(values.max().item()) + 1
    return 1


def _scale(values: torch.Tensor) -> tuple[float, float]:
    if len(values) == 0:
        return 0.0, 1.0
    std = values.std(correction=0).item()
    return values.mean().item(), std if std > 0 else 1.0


_NO_LABEL = -(2**63)  # torch would leave out those that are -100


class Criterion(Protocol):
    """One's own: `criterion=MyCriterion` is called with the training part, an object is used as it is."""

    def __call__(self, output: Any, target: Any, weights: Any = None, unscaled: bool = False) -> torch.Tensor:
        """A scalar; `unscaled` asks for the one that nets are compared by."""

    def postproc(self, pred: Any) -> Any:
        """A prediction from the raw output."""


class MixedCriterion:
    """Any mixture of columns: squared error for numbers (scaled to mean 0 and deviation 1), cross-entropy for yes or no
    and for classes. What is not given is taken from the data set's `regression_flags` and `scale`, else found in its
    first 1000 examples. A target that is NaN does not count."""

    def __init__(self, dataset: Any = None, regression_flags: Any = None, scale: Any = None) -> None:
        self.columns: Columns | None = None
        flags = regression_flags if regression_flags is not None else getattr(dataset, "regression_flags", None)
        scale = scale if scale is not None else getattr(dataset, "scale", None)
        if dataset is not None or flags is not None:
            is_known = flags is not None and scale is not None
            self.columns = find_columns(None if dataset is None or is_known else gather_targets(dataset), flags, scale)

    def __call__(self, output: Any, target: Any, weights: Any = None, unscaled: bool = False) -> torch.Tensor:
        columns = self._known()
        if len(columns.kinds) == 1 and columns.kinds[0] > 2 and weights is None and _are_labels(output, target):
            return _class_loss(output, target.reshape(-1), "mean")
        if columns.kinds == (1,) * len(columns.kinds) or columns.kinds == (0,) * len(columns.kinds):
            losses, target = self._uniform(columns, output, target, unscaled)
        else:
            losses, target = self._by_column(columns, output, target, unscaled)
        return _mean(losses, target, weights)

    def postproc(self, pred: torch.Tensor) -> torch.Tensor:
        columns = self._known()
        shaped = pred.reshape(len(pred), -1) if pred.dim() == 1 else pred
        if len(columns.kinds) == 1 and columns.kinds[0] > 2:
            return shaped.softmax(1)
        parts, first = [], 0
        for kind, mean, std in zip(columns.kinds, columns.means, columns.stds, strict=True):
            width = max(kind, 1) if kind > 2 else 1
            part = shaped[:, first : first + width]
            parts.append(part * std + mean if kind == 1 else part.sigmoid() if kind == 0 else part.softmax(1))
            first += width
        return torch.cat(parts, 1).reshape(pred.shape)

    def _known(self) -> Columns:
        if self.columns is None:
            raise BadInput("MixedCriterion: does not know its columns; expected a data set or flags: give them first")
        return self.columns

    def _uniform(self, columns: Columns, output: Any, target: Any, unscaled: bool) -> tuple[Any, Any]:
        """All columns of one kind, in one go."""
        target = _fit(output, target)
        clean = target.nan_to_num(nan=0.0) if target.is_floating_point() else target.to(output.dtype)
        if columns.kinds[0] == 0:
            _check_shares(clean)
            return functional.binary_cross_entropy_with_logits(output, clean, reduction="none"), target
        mean, std = (_spread(each, output) for each in (columns.means, columns.stds))
        if unscaled:
            return (output * std + mean - clean).square(), target
        return (output - (clean - mean) / std).square(), target

    def _by_column(self, columns: Columns, output: Any, target: Any, unscaled: bool) -> tuple[Any, Any]:
        shaped = output.reshape(len(output), -1)
        wanted = target.reshape(len(target), -1)
        is_single = len(columns.kinds) == 1  # then the net knows better how many classes there are
        expected = shaped.shape[1] if is_single else columns.num_outputs
        if wanted.shape[1] != len(columns.kinds) or shaped.shape[1] != expected or len(wanted) != len(shaped):
            raise BadInput(
                f"net: its output has the shape {list(output.shape)}, the target {list(target.shape)}; expected "
                f"{columns.num_outputs} outputs for {len(columns.kinds)} columns: change the last layer, or give "
                "floats as targets if they are numbers and no classes"
            )
        losses, first = [], 0
        for number, kind in enumerate(columns.kinds):
            width = shaped.shape[1] if is_single else kind if kind > 2 else 1
            part, value = shaped[:, first : first + width], wanted[:, number]
            clean = value.nan_to_num(nan=0.0) if value.is_floating_point() else value
            if kind > 2:
                losses.append(_class_loss(part, clean, "none"))
            else:
                one = Columns((kind,), (columns.means[number],), (columns.stds[number],))
                losses.append(self._uniform(one, part, clean[:, None].to(part.dtype), unscaled)[0][:, 0])
            first += width
        return torch.stack(losses, 1), wanted

    def state_dict(self) -> dict[str, Any]:
        columns = self._known()
        return {"kinds": list(columns.kinds), "means": list(columns.means), "stds": list(columns.stds)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.columns = Columns(tuple(state["kinds"]), tuple(state["means"]), tuple(state["stds"]))


def _are_labels(output: Any, target: Any) -> bool:
    """The usual case, in one call of torch: whole numbers, one an example, and an output for each class."""
    are_tensors = isinstance(output, torch.Tensor) and isinstance(target, torch.Tensor)
    return (
        are_tensors
        and target.dtype == torch.int64
        and output.dim() == 2
        and output.shape[1] > 1
        and output.shape[0] == target.numel() == target.shape[0]
    )


def _class_loss(output: torch.Tensor, labels: torch.Tensor, reduction: str) -> torch.Tensor:
    labels = labels.long()
    if not output.is_cpu and bool(((labels < 0) | (labels >= output.shape[1])).any()):  # a device would only fail
        raise _no_such_class(output, labels)
    try:
        return functional.cross_entropy(output, labels, reduction=reduction, ignore_index=_NO_LABEL)
    except IndexError as error:
        raise _no_such_class(output, labels) from error


def _no_such_class(output: torch.Tensor, labels: torch.Tensor) -> BadInput:
    found = labels.max() if int(labels.max()) >= output.shape[1] else labels.min()
    return BadInput(
        f"net: has {output.shape[1]} outputs for classes, and a target is {int(found)}; expected classes "
        f"from 0 to {output.shape[1] - 1}: change the last layer, or give floats as targets if they are no classes"
    )


def _fit(output: Any, target: Any) -> Any:
    """The target in the shape of the output, where only axes of one are missing."""
    if not isinstance(output, torch.Tensor) or not isinstance(target, torch.Tensor):
        raise BadInput(
            f"net: gave {type(output).__name__} for a target of type {type(target).__name__}; expected tensors: "
            "return one from forward, or give a criterion of your own"
        )
    if output.shape == target.shape:
        return target
    if [size for size in output.shape if size != 1] == [size for size in target.shape if size != 1]:
        return target.reshape(output.shape)
    raise BadInput(
        f"net: its output has the shape {list(output.shape)}, the target {list(target.shape)}; expected the same "
        "shape: change the last layer of the net, or the targets of the data set"
    )


def _check_shares(target: torch.Tensor) -> None:
    if target.numel() == 0:
        return
    low, high = (float(each) for each in target.aminmax())
    if low < 0 or high > 1:
        raise BadInput(
            f"target: found {low if low < 0 else high:g} in a column of yes or no, as its first examples were; "
            "expected 0 to 1: set regression_flags of the data set to 1 for a column of numbers"
        )


def _spread(values: tuple[float, ...], output: torch.Tensor) -> Any:
    if len(values) == 1:
        return values[0]
    return torch.tensor(values, dtype=output.dtype, device=output.device).reshape(-1, *[1] * (output.dim() - 2))


def _mean(losses: torch.Tensor, target: torch.Tensor, weights: Any) -> torch.Tensor:
    if weights is not None:
        losses = losses * _spread_weights(weights, losses, target)
    if not target.is_floating_point():
        return losses.mean()
    is_there = ~target.isnan()
    if bool(is_there.all()):
        return losses.mean()
    return torch.where(is_there, losses, 0).sum() / is_there.sum().clamp(min=1)


def _spread_weights(weights: torch.Tensor, losses: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """[B] weighs examples, [B, outputs] the outputs; of a single column of classes, the classes."""
    weights = weights.to(losses.dtype)
    if weights.numel() == len(losses):
        return weights.reshape(-1, *[1] * (losses.dim() - 1))
    if weights.shape == losses.shape:
        return weights
    if weights.dim() == 2 and losses.shape[1:] == (1,):
        return weights.gather(1, target.long().clamp(min=0))
    if weights.dim() == 2 and losses.dim() > 2 and weights.shape == losses.shape[:2]:
        return weights.reshape(*weights.shape, *[1] * (losses.dim() - 2))
    raise BadInput(
        f"weights: found the shape {list(weights.shape)} for outputs of {list(losses.shape)}; expected one number an "
        "example, or one an output: change what the data set gives as weight"
    )
