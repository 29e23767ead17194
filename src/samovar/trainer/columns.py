"""What the columns of a target are: numbers, yes or no, or one of several classes. Found in examples, or given."""

from dataclasses import dataclass
from typing import Any

import torch

from samovar.data.batches import read_item
from samovar.errors import BadInput
from samovar.trainer.part import Part

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
