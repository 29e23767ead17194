"""How far configs are from each other, and which are next of kin. Pure functions of flat configs.

The distance of two configs is the mean over all keys of: 0 for the same value, |a - b| / (|a| + |b|) for two numbers,
1 for anything else that differs, a missing key included. Each part is a metric, and so is their mean.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samovar.config.values import MISSING

Floats = NDArray[np.float64]

_MOST_TO_KEEP = 2048  # values of a column whose distances are all remembered: 32 MB
_MOST_ROWS = 64  # of distances to all configs: neighbours in their order mostly have the same value


def distances(configs: Sequence[Mapping[str, Any]]) -> Floats:
    """Condensed, as scipy has it: (0, 1), (0, 2), … (1, 2), … Always the same bits: keys are added in their order."""
    keys = sorted({key for config in configs for key in config})
    columns = [_read_column([config.get(key, MISSING) for config in configs]) for key in keys]
    differing = _merge_all([column for column in columns if column.num_values > 1])
    count = len(configs)
    found = np.zeros(count * (count - 1) // 2)
    start = 0
    for first in range(count - 1):
        row = found[start : start + count - 1 - first]
        for column in differing:
            row += column.from_one(first)
        start += len(row)
    found /= max(1, len(keys))  # in place: ten thousand configs have 400 MB of distances
    return found


class _Column:
    """A key, or several, of all configs: distinct values, and which of them each config has."""

    def __init__(self, codes: NDArray[np.intp], num_values: int, to_values: Callable[[int], Floats]) -> None:
        self.codes = codes
        self.num_values = num_values
        self.to_values = cache(to_values) if num_values <= _MOST_TO_KEEP else to_values
        """From the value with that code to each of them."""
        self._to_configs = lru_cache(_MOST_ROWS)(lambda code: np.take(self.to_values(code), codes))

    def from_one(self, first: int) -> Floats:
        """From one config to all that come after it."""
        return self._to_configs(int(self.codes[first]))[first + 1 :]


def _merge_all(columns: Sequence[_Column]) -> list[_Column]:
    """Neighbours with few values become one column of their pairs: a pair of configs is then looked up once."""
    merged: list[_Column] = []
    for column in columns:
        if merged and merged[-1].num_values * column.num_values <= _MOST_TO_KEEP:
            merged[-1] = _merge(merged[-1], column)
        else:
            merged.append(column)
    return merged


def _merge(one: _Column, other: _Column) -> _Column:
    pairs, codes = np.unique(one.codes * other.num_values + other.codes, return_inverse=True)
    of_one, of_other = pairs // other.num_values, pairs % other.num_values

    def to_values(code: int) -> Floats:
        sums: Floats = one.to_values(int(of_one[code]))[of_one] + other.to_values(int(of_other[code]))[of_other]
        return sums

    return _Column(codes.astype(np.intp), len(pairs), to_values)


def _read_column(values: Sequence[Any]) -> _Column:
    codes: dict[Any, int] = {}
    row: list[int] = []
    numbers: list[float] = []
    for value in values:
        number = float(value) if _is_number(value) else np.nan
        token = number if number == number else _text(value)
        if token not in codes:
            codes[token] = len(numbers)
            numbers.append(number)
        row.append(codes[token])
    return _Column(np.array(row, np.intp), len(numbers), partial(_to_values, np.array(numbers)))


def _to_values(numbers: Floats, code: int) -> Floats:
    """`numbers` are the distinct values, NaN for what is no number."""
    size = np.abs(numbers[code]) + np.abs(numbers)
    share: Floats = np.abs(numbers[code] - numbers) / np.where(size == 0, 1, size)
    share[np.isnan(share)] = 1
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
