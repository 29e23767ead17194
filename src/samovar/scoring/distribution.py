"""Predictions of positives and negatives, sorted and counted, in bounded memory: what AUC and average precision need.
Knows no tables and no tasks.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

MAX_DISTINCT = 1 << 20
"""As many distinct predictions are kept as they are. Beyond that, they are rounded."""
_MANTISSA_BITS = 52
_ROUNDED_BITS = 16  # about five significant digits


class Distribution:
    """The weight of positives and of negatives at each distinct prediction.

    More than `max_distinct` predictions are rounded towards zero, to 16 bits of their mantissas and, if that is not
    enough, to fewer. Rounding keeps their order except that neighbours become equal.

    Args:
        max_distinct: How many to keep.

    Example:
        >>> distribution = Distribution()
        >>> distribution.add(np.array([1.0, 0.0, 1.0]), np.array([0.75, 0.5, 0.25]), np.ones(3))
        >>> distribution.auc()
        0.5
    """

    def __init__(self, max_distinct: int = MAX_DISTINCT) -> None:
        self._max_distinct = max_distinct
        self._bits = _MANTISSA_BITS
        self._values = self._positives = self._negatives = np.zeros(0)

    @property
    def is_exact(self) -> bool:
        """Whether no prediction was rounded."""
        return self._bits == _MANTISSA_BITS

    def add(self, targets: Floats, predictions: Floats, weights: Floats) -> None:
        """Count rows. Targets are 0 or 1, predictions finite."""
        counts = weights > 0
        targets, predictions, weights = targets[counts], predictions[counts], weights[counts]
        values = np.concatenate([self._values, self._round(predictions)])
        positives = np.concatenate([self._positives, weights * targets])
        self._merge(values, positives, np.concatenate([self._negatives, weights * (1 - targets)]))
        while len(self._values) > self._max_distinct:
            self._bits = min(self._bits - 1, _ROUNDED_BITS)
            self._merge(self._round(self._values), self._positives, self._negatives)

    def _merge(self, values: Floats, positives: Floats, negatives: Floats) -> None:
        self._values, places = np.unique(values, return_inverse=True)
        self._positives, self._negatives = (
            np.asarray(np.bincount(places, weights, len(self._values)), np.float64)
            for weights in (positives, negatives)
        )

    def _round(self, values: Floats) -> Floats:
        mask = np.uint64(2**64 - 2 ** (_MANTISSA_BITS - self._bits))
        # Adding zero turns -0.0, which is a value of its own as bits, into 0.0.
        return (np.ascontiguousarray(values).view(np.uint64) & mask).view(np.float64) + 0.0

    def auc(self) -> float | None:
        """The probability that a positive has a higher prediction than a negative; a tie counts half. None if there is
        only one class."""
        positives, negatives = float(self._positives.sum()), float(self._negatives.sum())
        if positives == 0 or negatives == 0:
            return None
        below = np.cumsum(self._negatives) - self._negatives
        # Not `@`: BLAS would wake its threads, which then spin on the cores that train.
        pairs = float((self._positives * (below + self._negatives / 2)).sum())
        return pairs / (positives * negatives)

    def average_precision(self) -> float | None:
        """The mean over positives of the precision among the rows that are predicted at least as high. None without
        positives."""
        positives = float(self._positives.sum())
        if positives == 0:
            return None
        above = np.cumsum(self._positives[::-1])
        precision = above / (above + np.cumsum(self._negatives[::-1]))
        return float((self._positives[::-1] * precision).sum()) / positives
