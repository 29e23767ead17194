"""Criteria: the loss to train with, the loss to compare nets by, and predictions from raw outputs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Protocol

import torch
from pydantic import Field, Strict
from torch.nn import functional

from samovar.config.records import Number, Positive, check_state
from samovar.errors import BadInput
from samovar.trainer.targets import TargetColumns, TrainingSubset, find_columns, gather_targets

_NO_LABEL = -(2**63)  # by default, torch ignores targets of -100


class Criterion(Protocol):
    """What `PytorchTrainer.train(criterion=…)` takes.

    A class is called with the training part of the data set, `MyCriterion(dataset)`; an object is used as it is. A
    criterion with `state_dict` and `load_state_dict` is saved with the net.

    Example:
        ```python
        import numpy as np
        import torch
        from samovar import PytorchTrainer


        class AbsoluteError:
            def __call__(self, output, target, weights=None, unscaled=False):
                return (output - target).abs().mean()

            def postproc(self, pred):
                return pred


        x = np.random.randn(100, 3)
        trainer = PytorchTrainer(torch.nn.Linear, [3, 1])
        trainer.fit(x, x.sum(1, keepdims=True), name="robust", n_epochs=2, criterion=AbsoluteError())
        ```
    """

    def __call__(self, output: Any, target: Any, weights: Any = None, unscaled: bool = False) -> torch.Tensor:
        """Return the loss of a minibatch.

        Args:
            output: What the net returned.
            target: The targets of the data set.
            weights: The weights of the data set, if it has some.
            unscaled: False for the loss to train with, True for the loss to compare nets by. While training, the latter
                is asked for too, without gradients, so that both losses of the report have the same units.

        Returns:
            A scalar.
        """

    def postproc(self, pred: Any) -> Any:
        """Turn the output of the net into a prediction."""


@dataclass(frozen=True)
class _State:
    """What a file holds."""

    kinds: Annotated[list[Annotated[int, Strict(), Field(ge=0, le=2**24)]], Field(min_length=1)]
    means: list[Number]
    stds: list[Positive]

    def __post_init__(self) -> None:
        if not len(self.kinds) == len(self.means) == len(self.stds) or 2 in self.kinds:
            raise ValueError("there must be a mean and a standard deviation for each kind, and two classes are kind 0")


class MixedCriterion:
    """Squared error for numbers and cross-entropy for yes-or-no and class columns, in any mixture.

    A column of the target is one of three kinds, named by a flag:

    | flag | column | loss | outputs of the net | prediction |
    |---|---|---|---|---|
    | 1 | a number | squared error, scaled to mean 0 and standard deviation 1 | 1 | the number |
    | 0 | yes or no: 0, 1, or a probability | binary cross-entropy | 1 | probability of 1 |
    | n ≥ 3 | one of n classes, numbered from 0 | cross-entropy | n | n probabilities |

    What is not given is taken from the attributes `regression_flags` and `scale` of the data set, if it has them, or
    found in its targets: all of them for arrays, those of 1000 examples drawn with a fixed seed for any other data set.
    A column of zeros and ones is yes or no, integers are classes, everything else is a number. Targets that are NaN are
    ignored. Weights, which cannot be negative, multiply the loss once: [B] weighs examples, [B, outputs] weighs
    outputs, and [B, classes] weighs the classes of a single class column.

    Args:
        dataset: Where to look for flags, scale and targets.
        regression_flags: One flag per column.
        scale: The means and standard deviations of the columns, as a pair of lists, or of numbers for all columns.

    Raises:
        BadInput: The flags or the scale are wrong, or later the output of the net does not fit the target.

    Example:
        A price, a click, and one of five categories:

        >>> criterion = MixedCriterion(regression_flags=[1, 0, 5], scale=([9.5, 0, 0], [2.0, 1, 1]))
        >>> output = torch.zeros(8, 1 + 1 + 5)
        >>> target = torch.tensor([[9.5, 1.0, 3.0]]).repeat(8, 1)
        >>> round(criterion(output, target).item(), 3)
        0.768
        >>> criterion.postproc(output)[0, :3]
        tensor([9.5000, 0.5000, 0.2000])
    """

    def __init__(self, dataset: Any = None, regression_flags: Any = None, scale: Any = None) -> None:
        self.columns: TargetColumns | None = None
        flags = regression_flags if regression_flags is not None else getattr(dataset, "regression_flags", None)
        scale = scale if scale is not None else getattr(dataset, "scale", None)
        if dataset is not None or flags is not None:
            has_both = flags is not None and scale is not None
            self.columns = find_columns(None if dataset is None or has_both else gather_targets(dataset), flags, scale)

    def __call__(self, output: Any, target: Any, weights: Any = None, unscaled: bool = False) -> torch.Tensor:
        """Return the loss of a minibatch; with `unscaled`, numbers are compared in their own units."""
        columns = self._get_columns()
        if len(columns.kinds) == 1 and columns.kinds[0] > 2 and weights is None and _are_class_labels(output, target):
            return _class_loss(output, target.reshape(-1), "mean")
        if columns.kinds == (1,) * len(columns.kinds) or columns.kinds == (0,) * len(columns.kinds):
            losses, target = self._loss_of_one_kind(columns, output, target, unscaled)
        else:
            losses, target = self._loss_by_column(columns, output, target, unscaled)
        return _weighted_mean(losses, target, weights)

    def postproc(self, pred: torch.Tensor) -> torch.Tensor:
        """Turn the raw output of the net into numbers and probabilities.

        Args:
            pred: The net's output, [B, outputs].
        """
        columns = self._get_columns()
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

    @property
    def has_scale(self) -> bool:
        """Whether the loss to train with and the loss to compare nets by have different units."""
        return any(std != 1 for std in self._get_columns().stds)

    def _get_columns(self) -> TargetColumns:
        if self.columns is None:
            raise BadInput("MixedCriterion knows no columns yet. Pass a data set or regression_flags")
        return self.columns

    def _loss_of_one_kind(self, columns: TargetColumns, output: Any, target: Any, unscaled: bool) -> tuple[Any, Any]:
        """All columns are of one kind and computed at once."""
        target = _match_shape(output, target)
        clean = target.nan_to_num(nan=0.0) if target.is_floating_point() else target.to(output.dtype)
        if columns.kinds[0] == 0:
            _check_probabilities(clean)
            return functional.binary_cross_entropy_with_logits(output, clean, reduction="none"), target
        mean, std = (_expand(each, output) for each in (columns.means, columns.stds))
        if unscaled:
            return (output * std + mean - clean).square(), target
        return (output - (clean - mean) / std).square(), target

    def _loss_by_column(self, columns: TargetColumns, output: Any, target: Any, unscaled: bool) -> tuple[Any, Any]:
        shaped = output.reshape(len(output), -1)
        wanted = target.reshape(len(target), -1)
        is_single = len(columns.kinds) == 1  # then the net decides how many classes there are
        expected = shaped.shape[1] if is_single else columns.num_outputs
        if wanted.shape[1] != len(columns.kinds) or shaped.shape[1] != expected or len(wanted) != len(shaped):
            raise BadInput(
                f"net: output of shape {list(output.shape)} does not fit a target of shape {list(target.shape)}, which "
                f"needs {columns.num_outputs} outputs. Change the last layer, or give floats as targets if they are "
                "numbers rather than classes"
            )
        losses, first = [], 0
        for number, kind in enumerate(columns.kinds):
            width = shaped.shape[1] if is_single else kind if kind > 2 else 1
            part, value = shaped[:, first : first + width], wanted[:, number]
            clean = value.nan_to_num(nan=0.0) if value.is_floating_point() else value
            if kind > 2:
                losses.append(_class_loss(part, clean, "none"))
            else:
                one = TargetColumns((kind,), (columns.means[number],), (columns.stds[number],))
                losses.append(self._loss_of_one_kind(one, part, clean[:, None].to(part.dtype), unscaled)[0][:, 0])
            first += width
        return torch.stack(losses, 1), wanted

    def state_dict(self) -> dict[str, Any]:
        """The state of the criteria."""
        columns = self._get_columns()
        return {"kinds": list(columns.kinds), "means": list(columns.means), "stds": list(columns.stds)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state; `CorruptData` if it is damaged.

        Args:
            state: What `state_dict` returned.
        """
        found = check_state(_State, state, "the state of the MixedCriterion")
        self.columns = TargetColumns(tuple(found.kinds), tuple(found.means), tuple(found.stds))


def _are_class_labels(output: Any, target: Any) -> bool:
    """The usual case, one call of torch: one integer per example, and one output per class."""
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
    # On other devices, torch fails without a message.
    if not output.is_cpu and bool(((labels < 0) | (labels >= output.shape[1])).any()):
        raise _unknown_class(output, labels)
    try:
        return functional.cross_entropy(output, labels, reduction=reduction, ignore_index=_NO_LABEL)
    except IndexError as error:
        raise _unknown_class(output, labels) from error


def _unknown_class(output: torch.Tensor, labels: torch.Tensor) -> BadInput:
    found = labels.max() if int(labels.max()) >= output.shape[1] else labels.min()
    return BadInput(
        f"the net has outputs for the classes 0 to {output.shape[1] - 1}, got the class {int(found)} as a target. "
        "Change the last layer, or give floats as targets if they are numbers rather than classes"
    )


def _match_shape(output: Any, target: Any) -> Any:
    """Reshape the target like the output, if only axes of size 1 differ."""
    if not isinstance(output, torch.Tensor) or not isinstance(target, torch.Tensor):
        raise BadInput(
            f"output and target must be tensors, got {type(output).__name__} and {type(target).__name__}. "
            "For anything else, pass your own criterion"
        )
    if output.shape == target.shape:
        return target
    if [size for size in output.shape if size != 1] == [size for size in target.shape if size != 1]:
        return target.reshape(output.shape)
    raise BadInput(
        f"net: output of shape {list(output.shape)} does not fit a target of shape {list(target.shape)}. "
        "Change the last layer"
    )


def _check_probabilities(target: torch.Tensor) -> None:
    if target.numel() == 0:
        return
    low, high = (float(each) for each in target.aminmax())
    if low < 0 or high > 1:
        raise BadInput(
            f"target: values of a yes-or-no column must be between 0 and 1, got {low if low < 0 else high:g}. "
            "If it is a column of numbers, set regression_flags of the data set to 1"
        )


def _expand(values: tuple[float, ...], output: torch.Tensor) -> Any:
    if len(values) == 1:
        return values[0]
    return torch.tensor(values, dtype=output.dtype, device=output.device).reshape(-1, *[1] * (output.dim() - 2))


def _weighted_mean(losses: torch.Tensor, target: torch.Tensor, weights: Any) -> torch.Tensor:
    if weights is not None:
        losses = losses * _expand_weights(weights, losses, target)
    if not target.is_floating_point():
        return losses.mean()
    is_known = ~target.isnan()
    if bool(is_known.all()):
        return losses.mean()
    return torch.where(is_known, losses, 0).sum() / is_known.sum().clamp(min=1)


def _expand_weights(weights: torch.Tensor, losses: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """[B] weighs examples, [B, outputs] weighs outputs; [B, classes] weighs the classes of a single class column."""
    weights = weights.to(losses.dtype)
    if bool((weights < 0).any()):
        raise BadInput(f"weights must not be negative, got {float(weights.min()):g}")
    if weights.numel() == len(losses):
        return weights.reshape(-1, *[1] * (losses.dim() - 1))
    if weights.shape == losses.shape:
        return weights
    if weights.dim() == 2 and losses.shape[1:] == (1,):
        return weights.gather(1, target.long().clamp(min=0))
    if weights.dim() == 2 and losses.dim() > 2 and weights.shape == losses.shape[:2]:
        return weights.reshape(*weights.shape, *[1] * (losses.dim() - 2))
    raise BadInput(
        f"weights must have one number per example or per output, got the shape {list(weights.shape)} for outputs of "
        f"shape {list(losses.shape)}"
    )


def make_criterion(criterion: Any, subset: TrainingSubset) -> Any:
    """The criterion that the argument of `train` means."""
    if isinstance(criterion, str):
        if criterion != "auto":
            raise BadInput(f"criterion must be 'auto', a class or an object, got {criterion!r}")
        criterion = MixedCriterion
    if not callable(criterion) or not hasattr(criterion, "postproc"):
        kind = criterion if isinstance(criterion, type) else type(criterion)
        raise BadInput(
            f"criterion: {kind.__name__} needs the methods __call__(output, target, weights=None, unscaled=False) and "
            "postproc(pred). See MixedCriterion"
        )
    return criterion(subset) if isinstance(criterion, type) else criterion
