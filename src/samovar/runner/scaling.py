"""Standardises real-valued inputs by their running mean and deviation, which are part of the model. Knows no tables.

In training, each minibatch is counted first and then scaled, so that none passes unscaled. A frozen model counts
nothing: evaluation, prediction and serving see the numbers of the last training step.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from samovar.errors import BadInput
from samovar.tables.record import RecordValue
from samovar.tables.schema import ColumnSchema

MAX_DEVIATIONS = 10.0
"""A scaled value is limited to this: a column that was constant for long may change by any number of deviations."""
_NAME = "running_scale"


class RunningScale(nn.Module):
    """Turns real-valued columns into deviations from their mean: (x - mean) / deviation of all rows trained so far.

    Each component of a list has its own mean and deviation. In training, with gradients enabled, a call first counts
    its rows. Values that are not finite are not counted; NaN stays NaN. The results are limited to ±10. A component
    that never changed becomes 0.

    Training adds it to a model whose table says `"number": {"scale": "running"}`.

    Args:
        shapes: The columns, and the shape of one row: `()` for a number.

    Raises:
        BadInput: When called: a column has another shape.

    Example:
        >>> scale = RunningScale({"price": ()})
        >>> scale({"price": torch.tensor([1.0, 3.0])})["price"]
        tensor([-1.,  1.])
        >>> scale.eval()({"price": torch.tensor([2.0, 4.0])})["price"]
        tensor([0., 2.])
    """

    count: torch.Tensor
    mean: torch.Tensor
    squares: torch.Tensor
    """Sums of squared distances from the mean."""

    def __init__(self, shapes: Mapping[str, Sequence[int]]) -> None:
        super().__init__()
        self.shapes = {name: tuple(shape) for name, shape in shapes.items()}
        self._widths = [math.prod(shape) for shape in self.shapes.values()]
        for name in ("count", "mean", "squares"):
            self.register_buffer(name, torch.zeros(sum(self._widths), dtype=torch.float64, device="cpu"))

    def forward(self, inputs: Mapping[str, RecordValue]) -> dict[str, RecordValue]:
        """The inputs, with these columns scaled."""
        values = torch.cat([self._flat(name, inputs[name]) for name in self.shapes], 1).to(self.mean.device)
        if self.training and torch.is_grad_enabled():
            self._add(values)
        deviation = torch.where(self.squares > 0, (self.squares / self.count.clamp(min=1)).sqrt(), 1.0)
        scaled = ((values - self.mean) / deviation).clamp(-MAX_DEVIATIONS, MAX_DEVIATIONS).float()
        parts = zip(self.shapes.items(), scaled.split_with_sizes(self._widths, 1), strict=True)
        return {**inputs, **{name: part.reshape(len(values), *shape).contiguous() for (name, shape), part in parts}}

    def _flat(self, name: str, value: RecordValue) -> torch.Tensor:
        shape = self.shapes[name]
        if not isinstance(value, torch.Tensor) or value.shape[1:] != shape:
            found = list(value.shape) if isinstance(value, torch.Tensor) else type(value).__name__
            raise BadInput(f"running scale: column {name!r} must have the shape {['B', *shape]}, got {found}")
        return value.detach().double().reshape(len(value), math.prod(shape))

    def _add(self, values: torch.Tensor) -> None:
        """Chan's formula: the mean and the squares of both parts together, without the loss of digits of a plain sum
        of squares."""
        is_known = values.isfinite()
        count = is_known.sum(0, dtype=torch.float64)
        total = self.count + count
        mean = values.where(is_known, 0.0).sum(0) / count.clamp(min=1)
        squares = (values - mean).where(is_known, 0.0).square().sum(0)
        distance = (mean - self.mean).where(count > 0, 0.0)
        share = count / total.clamp(min=1)
        self.squares += squares + distance.square() * self.count * share
        self.mean += distance * share
        self.count.copy_(total)

    def extra_repr(self) -> str:
        return ", ".join(self.shapes)


def scale_inputs(model: nn.Module, columns: Sequence[ColumnSchema]) -> None:
    """Make a model scale those of its input columns that the table says to scale. Its state then has their numbers.

    Raises:
        BadInput: A list has an unknown length, or the model has a module of the same name.
    """
    shapes = {column.name: _shape(column) for column in columns if (column.converter or {}).get("scale") == "running"}
    if not shapes:
        return
    if hasattr(model, _NAME):
        raise BadInput(f"the model has an attribute {_NAME!r}, which scales its inputs. Rename yours")
    model.add_module(_NAME, RunningScale(shapes).train(model.training))
    model.register_forward_pre_hook(_scale)


def _shape(column: ColumnSchema) -> Sequence[int]:
    shape: Sequence[int] | None = () if column.rank == 1 else (column.converter or {}).get("shape")
    if shape is None or len(shape) != column.rank - 1:
        raise BadInput(f"column {column.name!r} cannot be scaled: its table does not know the length of its lists")
    return shape


def _scale(model: nn.Module, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    inputs, *others = arguments
    scale = model._modules[_NAME]  # a compiled model looks up attributes in the one that it wraps
    assert scale is not None
    return (scale(inputs), *others)
