"""Inputs as a net can learn from them: numbers standardised, and nothing infinite or missing. Knows no frames."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from pydantic import InstanceOf

from samovar.config.records import check_state
from samovar.data import BatchMaker
from samovar.data.batches import as_arrays
from samovar.data.examples import ArrayDataset, Indices
from samovar.errors import BadInput
from samovar.trainer.targets import sample_indices

_ROWS_AT_ONCE = 65536
_ROWS_FOR_BOUNDS = 100_000  # sorting more would take long


@dataclass(frozen=True)
class Scale:
    """What one input is standardised by. Tensors with an entry per column of a matrix, or one for everything."""

    low: InstanceOf[torch.Tensor]
    high: InstanceOf[torch.Tensor]
    """Values beyond are outliers, and are clipped: one that is a hundred deviations away would rule the prediction."""
    mean: InstanceOf[torch.Tensor]
    std: InstanceOf[torch.Tensor]

    def __post_init__(self) -> None:
        parts = (self.low, self.high, self.mean, self.std)
        if any(not each.is_floating_point() or each.dim() > 1 or each.shape != self.low.shape for each in parts):
            raise ValueError("the parts of a scale must have one number each, or one per column")

    def apply(self, values: torch.Tensor) -> torch.Tensor:
        return (values.clamp(self.low, self.high) - self.mean) / self.std

    def to(self, device: torch.device) -> "Scale":
        return Scale(*(each.to(device) for each in (self.low, self.high, self.mean, self.std)))

    def state_dict(self) -> dict[str, torch.Tensor]:
        return {name: value.cpu() for name, value in vars(self).items()}


@dataclass(frozen=True)
class _State:
    """What a file holds."""

    scales: list[Scale | None]


class InputScales:
    """The scales of the floats among the inputs of a net.

    A matrix is scaled by column, an image or a sequence as a whole. Integers are ids or bytes of images, and stay.
    Without scales it changes nothing.
    """

    def __init__(self, scales: Sequence[Scale | None] = ()) -> None:
        self._scales = list(scales)

    def apply(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """Return the inputs with mean 0 and standard deviation 1 in the examples that were seen in training."""
        if not self._scales:
            return inputs
        if len(inputs) != len(self._scales):
            raise BadInput(f"the net was trained with {len(self._scales)} inputs, got {len(inputs)}")
        return [self._apply(number, each) for number, each in enumerate(inputs)]

    def _apply(self, number: int, value: Any) -> Any:
        scale = self._scales[number]
        if scale is None:
            return value
        if scale.mean.dim() == 1 and value.shape[-1] != len(scale.mean):
            raise BadInput(
                f"input {number}: the net was trained with {len(scale.mean)} columns, got the shape {list(value.shape)}"
            )
        if scale.mean.device != value.device:
            scale = self._scales[number] = scale.to(value.device)
        return scale.apply(value)

    def state_dict(self) -> dict[str, Any]:
        return {"scales": [None if each is None else each.state_dict() for each in self._scales]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._scales = check_state(_State, state, "the state of the scales").scales


def find_scales(maker: BatchMaker, train: Indices) -> InputScales:
    """Scales from the training part: all of it for arrays, a sample of any other data set."""
    arrays = as_arrays(maker.dataset)
    if arrays is not None:
        return InputScales([_find_scale(each, torch.from_numpy(train)) for each in arrays.inputs])
    sample = maker.make(0, [int(train[index]) for index in sample_indices(len(train))])
    return InputScales([_find_scale(each, None) for each in sample.inputs])


def _find_scale(values: Any, rows: torch.Tensor | None) -> Scale | None:
    if not isinstance(values, torch.Tensor) or values.dtype != torch.float32:
        return None
    rows = torch.arange(len(values)) if rows is None else rows
    low, high = _find_bounds(values, rows)

    def mean_of(measure: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        total, count = torch.zeros(()), 0
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            part = values[rows[start : start + _ROWS_AT_ONCE]].clamp(low, high).double()
            part = part if values.dim() == 2 else part.reshape(-1, 1)
            total, count = total + measure(part).sum(0), count + len(part)
        return total / count if values.dim() == 2 else total.reshape(()) / count

    mean = mean_of(lambda part: part)
    std = mean_of(lambda part: (part - mean).square()).sqrt()
    # A column of one value has a deviation of rounding errors only.
    is_constant = std <= 1e-7 * mean.abs()
    return Scale(low, high, mean.float(), torch.where(is_constant, 1.0, std).float())


def _find_bounds(values: torch.Tensor, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The range of the middle 99 % of a column, widened by itself on both sides; a normal column has nothing beyond it.
    A column with fewer different values, and everything that is not a matrix, has no bounds."""
    if values.dim() != 2:
        return torch.tensor(-torch.inf), torch.tensor(torch.inf)
    drawn = sample_indices(len(rows), _ROWS_FOR_BOUNDS)
    quantiles = np.quantile(values[rows[drawn]].numpy(), [0.005, 0.995], axis=0)
    low, high = (torch.from_numpy(each.astype(np.float32)) for each in quantiles)
    width = high - low
    has_none = width <= 0
    return torch.where(has_none, -torch.inf, low - width), torch.where(has_none, torch.inf, high + width)


def check_arrays(arrays: ArrayDataset) -> None:
    """Refuse inputs that are not finite, infinite targets, and weights that are negative, with their row and column."""
    for number, each in enumerate(arrays.inputs):
        check_finite(each, f"input {number}" if arrays.has_several_inputs else "inputs")
    if arrays.targets is not None and arrays.targets.is_floating_point():
        check_finite(arrays.targets.nan_to_num(nan=0.0, posinf=torch.inf, neginf=-torch.inf), "targets")
    if arrays.weights is not None:
        check_finite(arrays.weights, "weights")
        if bool((arrays.weights < 0).any()):
            row = int((arrays.weights < 0).reshape(len(arrays), -1).any(1).nonzero()[0])
            raise BadInput(f"weights must not be negative, got {float(arrays.weights[row].min()):g} in row {row}")


def check_finite(values: torch.Tensor, name: str, rows: Any = None) -> None:
    """Refuse NaN and infinity. `rows` are the numbers of the rows, if they are not counted from 0."""
    if not values.is_floating_point() or bool(values.isfinite().all()):
        return
    place = (~values.isfinite()).nonzero()[0].tolist()
    found = float(values[tuple(place)])
    row = place[0] if rows is None else int(rows[place[0]])
    where = f"row {row}"
    if len(place) == 2:
        where += f", column {place[1]}"
    elif len(place) > 2:
        where += f", place {place[1:]}"
    raise BadInput(f"{name}: {where} is {found:g}. Remove or replace values that are missing or infinite")
