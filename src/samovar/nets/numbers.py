"""One column of numbers as a net takes it: a map to normal scores, and the bins of its piecewise-linear encoding. Knows
no tables and no nets."""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, InstanceOf
from scipy.special import ndtri

from samovar.config.records import Number, Text

Floats = NDArray[np.float64]

NUM_KNOTS = 1000
"""The most values at which the map to normal scores is exact; between them it is linear."""
MOST_SCORE = 4.0


@dataclass(frozen=True, eq=False)
class NumberMap:
    """How the values of a column become scores, and the bins of the scores."""

    fill: float
    """The median, for missing values."""
    knots: Floats
    """Values, ascending."""
    scores: Floats
    """The normal score of each knot."""
    edges: NDArray[np.float32]
    """The edges of bins, as scores, ascending."""

    @classmethod
    def fit(cls, values: Floats, num_bins: int) -> "NumberMap | None":
        """Learn from the values of a column, NaN being missing. None if they are all the same."""
        known = np.sort(values[~np.isnan(values)])
        if len(known) == 0 or known[0] == known[-1]:
            return None
        knots, scores = _normal_scores(known)
        edges = np.unique(np.interp(choose_edges(known, num_bins), knots, scores).astype(np.float32))
        return cls(float(np.median(known)), knots, scores, edges)

    def apply(self, values: Floats) -> NDArray[np.float32]:
        """The scores of values; those outside of what was seen get the score of the nearest that was."""
        filled = np.where(np.isnan(values), self.fill, values)
        return np.interp(filled, self.knots, self.scores).astype(np.float32)

    def state_dict(self) -> dict[str, Any]:
        return {"fill": self.fill, "knots": self.knots, "scores": self.scores, "edges": self.edges}


def _check_floats(array: NDArray[Any]) -> NDArray[Any]:
    if array.dtype not in (np.float32, np.float64) or array.ndim != 1 or not np.isfinite(array).all():
        raise ValueError("not a list of finite numbers")
    return array


@dataclass(frozen=True, eq=False)
class NumberState:
    """One number that a net gets, as a file holds it."""

    column: Text
    part: Text
    fill: Number
    knots: Annotated[InstanceOf[np.ndarray], AfterValidator(_check_floats)]
    scores: Annotated[InstanceOf[np.ndarray], AfterValidator(_check_floats)]
    edges: Annotated[InstanceOf[np.ndarray], AfterValidator(_check_floats)]

    def __post_init__(self) -> None:
        if not 2 <= len(self.knots) == len(self.scores) or not (np.diff(self.knots) > 0).all():
            raise ValueError("there must be a score for each knot, and knots must be ascending")

    @property
    def map(self) -> NumberMap:
        return NumberMap(self.fill, self.knots, self.scores, self.edges)


def _normal_scores(ordered: Floats) -> tuple[Floats, Floats]:
    """Knots, and what a normal variable would be at their ranks. Equal values share the middle of their ranks."""
    distinct = np.unique(ordered)
    if len(distinct) > NUM_KNOTS:
        distinct = np.unique(np.quantile(ordered, np.linspace(0, 1, NUM_KNOTS), method="nearest"))
    below = np.searchsorted(ordered, distinct, "left")
    up_to = np.searchsorted(ordered, distinct, "right")
    scores = ndtri((below + up_to) / (2 * len(ordered)))
    return distinct, np.clip(scores, -MOST_SCORE, MOST_SCORE)


def choose_edges(ordered: Floats, num_bins: int) -> Floats:
    """The edges of bins of ascending values.

    Each distinct value is an edge if there are few. Otherwise a value with more than one bin's share of the rows is an
    edge, and so are its two neighbours, so that it has a place of its own; quantiles of the other rows fill the rest.
    """
    distinct, counts = np.unique(ordered, return_counts=True)
    if len(distinct) <= num_bins + 1:
        return distinct
    is_heavy = counts > len(ordered) / num_bins
    heavy = np.flatnonzero(is_heavy)
    last = len(distinct) - 1
    kept = np.unique(np.concatenate([[0, last], heavy, np.maximum(heavy - 1, 0), np.minimum(heavy + 1, last)]))
    num_left = num_bins + 1 - len(kept)
    edges: Floats = distinct[kept]
    if num_left > 0:
        others = np.repeat(distinct[~is_heavy], counts[~is_heavy])
        edges = np.union1d(edges, np.quantile(others, np.linspace(0, 1, num_left + 2)[1:-1]))
    return edges
