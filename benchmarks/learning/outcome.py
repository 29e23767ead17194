"""What one contestant reached on one task, as a JSON file, and the comparison of two of them. Trains nothing.

Losses are kept as sums over a few hundred groups of rows, the same groups for every contestant. Rows of a table are
shuffled and those of a stream are consecutive, so drawing groups with replacement is a bootstrap of rows in the first
case and of stretches of time in the second.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Self

import numpy as np
from benchmarks.contest.machine import Machine
from numpy.typing import NDArray
from pydantic import TypeAdapter

from samovar.seeds import numpy_generator

Array = NDArray[np.float64]
NUM_GROUPS = 200
NUM_DRAWS = 2000
LEAST_CHANCE = 1e-4
"""Probabilities are clipped here before the logarithm, for every contestant: some trees are sure of themselves."""


@dataclass(frozen=True)
class Outcome:
    began: datetime
    machine: Machine
    task: str
    contestant: str
    setting: str
    """Which of the contestant's settings this is; empty if there is only one."""
    seed: int
    most_rows: int
    """What the task was limited to."""
    is_rmse: bool
    """The score is the root of the mean loss, which is a squared error; else the mean loss itself, a log-loss."""
    rows: list[int]
    """Rows of each group."""
    sums: list[float]
    """Summed losses of each group."""
    cpu_seconds: float
    """Processor time of training and predicting."""

    @property
    def score(self) -> float:
        """Lower is better."""
        return float(self.resample(np.arange(len(self.rows))[None])[0])

    def resample(self, groups: NDArray[np.int64]) -> Array:
        """Scores [draws] of groups [draws, groups]."""
        rows, sums = np.array(self.rows, dtype=np.float64), np.array(self.sums)
        losses: Array = sums[groups].sum(1) / rows[groups].sum(1)
        return np.sqrt(losses) if self.is_rmse else losses

    @classmethod
    def load(cls, path: Path) -> Self:
        return TypeAdapter(cls).validate_json(path.read_bytes())

    def save(self, path: Path) -> None:
        path.write_bytes(TypeAdapter(type(self)).dump_json(self))


@dataclass(frozen=True)
class Standing:
    """One contestant on one task, with one setting: an outcome per seed."""

    outcomes: Sequence[Outcome]

    @property
    def scores(self) -> list[float]:
        return [outcome.score for outcome in self.outcomes]

    @property
    def score(self) -> float:
        return float(np.mean(self.scores))

    @property
    def deviation(self) -> float | None:
        """The standard deviation of the seeds' scores."""
        return float(np.std(self.scores, ddof=1)) if len(self.outcomes) > 1 else None

    @property
    def cpu_seconds(self) -> float:
        return float(np.mean([outcome.cpu_seconds for outcome in self.outcomes]))

    def compare(self, other: "Standing") -> "Interval":
        """How much higher the other's score is, with a 95 % interval over rows and seeds."""
        rows = self.outcomes[0].rows
        if any(outcome.rows != rows for outcome in (*self.outcomes, *other.outcomes)):
            raise ValueError(f"{self.outcomes[0].task}: the two did not predict the same rows")
        chance = numpy_generator(0, "learning bootstrap")
        # The same groups for both: rows that are hard for one are hard for the other.
        groups = chance.integers(0, len(rows), (NUM_DRAWS, len(rows)))
        differences = other._resample(groups, chance) - self._resample(groups, chance)
        low, high = np.quantile(differences, [0.025, 0.975])
        return Interval(other.score - self.score, float(low), float(high))

    def _resample(self, groups: NDArray[np.int64], chance: np.random.Generator) -> Array:
        """Scores [draws], each the mean of as many seeds as there are, drawn with replacement too."""
        scores = np.stack([outcome.resample(groups) for outcome in self.outcomes])
        drawn = chance.integers(0, len(scores), scores.shape)
        mean: Array = np.take_along_axis(scores, drawn, 0).mean(0)
        return mean


@dataclass(frozen=True)
class Interval:
    middle: float
    low: float
    high: float

    @property
    def is_clear(self) -> bool:
        """Whether zero is outside."""
        return self.low > 0 or self.high < 0


def log_losses(classes: NDArray[np.int64], chances: NDArray[Any]) -> Array:
    """The loss of each row, from class numbers [rows] and probabilities [rows, classes]."""
    chances = np.clip(np.asarray(chances, np.float64), LEAST_CHANCE, 1 - LEAST_CHANCE)
    chances /= chances.sum(1, keepdims=True)
    losses: Array = -np.log(chances[np.arange(len(classes)), classes])
    return losses


def group(losses: Array) -> tuple[list[int], list[float]]:
    """Rows and summed losses of each group."""
    edges = np.linspace(0, len(losses), min(NUM_GROUPS, len(losses)) + 1).astype(int)
    return np.diff(edges).tolist(), np.add.reduceat(losses, edges[:-1]).tolist()
