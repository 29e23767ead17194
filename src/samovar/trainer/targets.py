"""What the columns of a target mean (a number, yes or no, one of several classes): given, or found in examples."""

from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import Dataset

from samovar.data.batches import as_arrays, read_example
from samovar.data.examples import Indices
from samovar.errors import BadInput
from samovar.seeds import numpy_generator

NUM_SAMPLED = 1000
"""How many examples of a data set are read to find out what it holds."""


@dataclass(frozen=True)
class TargetColumns:
    """What the columns of a target mean, one entry per column."""

    kinds: tuple[int, ...]
    """1: a number, 0: yes or no, 3 and more: one of that many classes."""
    means: tuple[float, ...]
    stds: tuple[float, ...]

    @property
    def num_outputs(self) -> int:
        """How many outputs the net needs: one per column, or one per class."""
        return sum(kind if kind > 2 else 1 for kind in self.kinds)


class TrainingSubset(Dataset[Any]):
    """The training part of a data set, with the `regression_flags` and `scale` of the whole."""

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


def sample_indices(num_examples: int, most: int = NUM_SAMPLED) -> list[int]:
    """The examples to look at where reading all would take too long: drawn from the whole, never its head, which may be
    unlike the rest. The seed is fixed, so that every process looks at the same ones."""
    if num_examples <= most:
        return list(range(num_examples))
    drawn = numpy_generator(0, "sample of examples").choice(num_examples, most, replace=False)
    return sorted(drawn.tolist())


def gather_targets(dataset: Any) -> torch.Tensor:
    """The targets of all examples of arrays, or of a sample of any other data set; [examples, …]."""
    subset = dataset if isinstance(dataset, TrainingSubset) else None
    whole = dataset if subset is None else subset.dataset
    arrays = as_arrays(whole)
    if arrays is not None and arrays.targets is not None:
        return arrays.targets if subset is None else arrays.targets[torch.from_numpy(subset.indices)]
    found = []
    for index in sample_indices(len(dataset)):
        number = index if subset is None else int(subset.indices[index])
        item = read_example(whole, number)
        if not isinstance(item, list | tuple) or len(item) not in (2, 3):
            raise BadInput(
                f"dataset: example {number} has no target. It must be (input, target) or (input, weight, target)"
            )
        found.append(torch.as_tensor(item[-1]))
    try:
        return torch.stack(found)
    except RuntimeError as error:
        raise BadInput(
            f"dataset: targets have different shapes: {error}. "
            "Set regression_flags and scale of the data set, or give targets one shape"
        ) from error


def find_columns(targets: torch.Tensor | None, flags: Any = None, scale: Any = None) -> TargetColumns:
    """Find out what columns mean from examples, where flags or scale are not given."""
    by_column = None if targets is None else _by_column(targets)
    if flags is None:
        if by_column is None or targets is None:
            raise BadInput("MixedCriterion needs a data set or regression_flags")
        are_integers = not targets.is_floating_point() and targets.dtype != torch.bool
        kinds = [_kind(values, are_integers) for values in by_column]
    else:
        kinds = [int(flag) for flag in torch.as_tensor(flags).reshape(-1).tolist()]
        if any(kind < 0 or kind == 2 for kind in kinds):
            raise BadInput(
                "regression_flags must be 1 for a number, 0 for yes or no (two classes), or n for n classes, n ≥ 3; "
                f"got {kinds}"
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
            f"scale must have one mean and one standard deviation above 0 per column, got {len(means)} means and the "
            f"standard deviations {stds} for {len(kinds)} columns"
        )
    means = [mean if kind == 1 else 0.0 for kind, mean in zip(kinds, means, strict=True)]
    stds = [std if kind == 1 else 1.0 for kind, std in zip(kinds, stds, strict=True)]
    return TargetColumns(tuple(kinds), tuple(means), tuple(stds))


def _by_column(targets: torch.Tensor) -> list[torch.Tensor]:
    """The values of each column, without NaN."""
    columns = targets.reshape(-1, 1) if targets.dim() == 1 else targets
    values = [columns[:, number].reshape(-1).double() for number in range(columns.shape[1])]
    return [each[~each.isnan()] for each in values]


def _kind(values: torch.Tensor, are_integers: bool) -> int:
    if bool(((values == 0) | (values == 1)).all()):
        return 0
    if are_integers and bool((values >= 0).all()):
        return int(values.max().item()) + 1
    return 1


def _scale(values: torch.Tensor) -> tuple[float, float]:
    if len(values) == 0:
        return 0.0, 1.0
    std = values.std(correction=0).item()
    return values.mean().item(), std if std > 0 else 1.0
