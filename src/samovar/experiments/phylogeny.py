"""How far configs are from each other, and which are next of kin. Pure functions of flat configs.

The distance of two configs is the mean over all keys of: 0 for the same value, |a - b| / (|a| + |b|) for two numbers,
1 for anything else that differs, a missing key included. Each part is a metric, and so is their mean.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samovar.config.values import MISSING

Floats = NDArray[np.float64]


def distances(configs: Sequence[Mapping[str, Any]]) -> Floats:
    """Condensed, as scipy has it: (0, 1), (0, 2), … (1, 2), … Always the same bits: keys are added in their order."""
    keys = sorted({key for config in configs for key in config})
    columns = [_Column.of([config.get(key, MISSING) for config in configs]) for key in keys]
    differing = [column for column in columns if column.num_values > 1]
    count = len(configs)
    found = np.zeros(count * (count - 1) // 2)
    start = 0
    for first in range(count - 1):
        row = found[start : start + count - 1 - first]
        for column in differing:
            row += column.from_one(first)
        start += len(row)
    return found / max(1, len(keys))


class _Column:
    """One key of all configs: distinct values, and which of them each config has."""

    def __init__(self, codes: NDArray[np.intp], numbers: Floats) -> None:
        self.num_values = len(numbers)
        self._codes = codes
        self._numbers = numbers  # of each distinct value; NaN for what is no number
        self._from_value: dict[int, Floats] = {}

    @classmethod
    def of(cls, values: Sequence[Any]) -> "_Column":
        codes: dict[Any, int] = {}
        numbers: list[float] = []
        row = []
        for value in values:
            number = float(value) if _is_number(value) else None
            token = number if number is not None else _text(value)
            if token not in codes:
                codes[token] = len(numbers)
                numbers.append(np.nan if number is None else number)
            row.append(codes[token])
        return cls(np.array(row, np.intp), np.array(numbers))

    def from_one(self, first: int) -> Floats:
        """From one config to all that come after it."""
        code = int(self._codes[first])
        if code not in self._from_value:
            self._from_value[code] = self._to_values(code)
        return self._from_value[code][self._codes[first + 1 :]]

    def _to_values(self, code: int) -> Floats:
        own, others = self._numbers[code], self._numbers
        size = np.abs(own) + np.abs(others)
        with np.errstate(invalid="ignore"):
            share = np.abs(own - others) / np.where(size == 0, 1, size)
        share = np.where(np.isnan(share), 1.0, share)
        share[code] = 0
        return share


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text(value: Any) -> str:
    return "" if value is MISSING else json.dumps(value, sort_keys=True, default=str)


def find_kin(condensed: Floats) -> Floats:
    """scipy's linkage, by mean distance: a line for each of the joins, the closest first."""
    from scipy.cluster.hierarchy import linkage

    return np.asarray(linkage(condensed, "average"), np.float64)
