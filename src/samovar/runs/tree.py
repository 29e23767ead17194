"""How far configs are from each other, and which are next of kin. Pure functions of flat configs.

The distance of two configs is the mean over all keys of: 0 for the same value, |a - b| / (|a| + |b|) for two numbers,
1 for anything else that differs, a missing key included. Each part is a metric, and so is their mean.

The tree of kinship of configs, cut to as many leaves as can be looked at, with a row and a height for all of it.
Knows no characters and no colours.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samovar.config.diff import diff_flat
from samovar.config.identity import read_parent
from samovar.config.values import MISSING
from samovar.errors import BadInput
from samovar.runs.diff import label_group, read_identities
from samovar.runs.find import Target
from samovar.runs.index import paused_gc
from samovar.runs.summary import answers, match_one, read_metrics

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


def cluster(condensed: Floats) -> Floats:
    """scipy's linkage, by mean distance: a line for each of the joins, the closest first."""
    from scipy.cluster.hierarchy import linkage

    return np.asarray(linkage(condensed, "average"), np.float64)


@dataclass(frozen=True)
class Leaf:
    """One config, or a group that is not taken apart."""

    names: Sequence[str]
    shared: str
    """What its configs have in common and others have not."""
    parent: str | None
    value: float | None
    """The metric, of a group its mean."""

    @property
    def label(self) -> str:
        name = self.names[0] if len(self.names) == 1 else f"[{len(self.names)}] {self.names[0]} …"
        value = "" if self.value is None else f"  {self.value:.5g}"
        origin = "" if self.parent is None else f"  (clone of {self.parent})"
        return f"{name}{value}  {self.shared}{origin}".rstrip()


@dataclass(frozen=True)
class Merge:
    """Two branches that meet; a row is where a branch lies, a leaf's is its number."""

    first_row: float
    second_row: float
    first_height: float
    second_height: float
    height: float


@dataclass(frozen=True)
class Dendrogram:
    leaves: Sequence[Leaf]
    merges: Sequence[Merge]

    @property
    def height(self) -> float:
        return max((merge.height for merge in self.merges), default=0.0)

    def share(self, leaf: Leaf) -> float | None:
        """Where its metric stands between the lowest, 0, and the highest, 1."""
        values = [each.value for each in self.leaves if each.value is not None]
        if leaf.value is None:
            return None
        low, high = min(values), max(values)
        return 0.5 if low == high else (leaf.value - low) / (high - low)


@paused_gc()
def grow(targets: Sequence[Target], most_leaves: int, metric: str | None = None) -> Dendrogram:
    """The order of the targets does not matter. Without results there is no metric."""
    if len(targets) < 2:
        raise BadInput(f"tree: found {len(targets)} config; expected two or more: name another config or directory")
    flat = dict(zip((target.name for target in targets), read_identities(targets), strict=True))
    ordered = sorted(targets, key=lambda each: (json.dumps(flat[each.name], sort_keys=True), each.name))
    kin = cluster(distances([flat[target.name] for target in ordered]))
    values = _read_metric(ordered, metric)
    diff = diff_flat({target.name: flat[target.name] for target in ordered})
    groups, merges = _lay_out(kin, most_leaves)
    leaves = []
    for members in groups:
        known = [value for number in members if (value := values.get(number)) is not None]
        parent = read_parent(ordered[members[0]].config) if len(members) == 1 else None
        leaves.append(
            Leaf(
                [ordered[number].name for number in members],
                label_group(diff, members),
                None if parent is None else parent.config,
                math.fsum(known) / len(known) if known else None,
            )
        )
    return Dendrogram(leaves, merges)


def _read_metric(targets: Sequence[Target], metric: str | None) -> Mapping[int, float]:
    if metric is None:
        return {}
    numbers = [number for number, target in enumerate(targets) if target.directory is not None]
    last = dict(zip(numbers, answers(read_metrics([targets[number].path for number in numbers])), strict=True))
    name = match_one(metric, list(dict.fromkeys(name for values in last.values() for name in values)))
    return {number: values[name] for number, values in last.items() if name in values}


def _lay_out(kin: Floats, most_leaves: int) -> tuple[list[list[int]], list[Merge]]:
    """The members of each leaf from top to bottom, and the joins between them. The joins come closest first, so that
    cutting the tree means to leave the first ones together."""
    count = len(kin) + 1
    num_together = max(0, count - most_leaves)
    members: dict[int, list[int]] = {number: [number] for number in range(count)}
    leaves: dict[int, list[int]] = {number: [number] for number in range(count)}
    """The nodes that are leaves of the cut tree below each node."""
    heights: dict[int, float] = {}
    for step, (one, other, height, _) in enumerate(kin.tolist()):
        first, second = sorted((int(one), int(other)), key=lambda node: members[node][0])
        node = count + step
        if step < num_together:
            members[node] = sorted(members.pop(first) + members.pop(second))
            leaves[node] = [node]
        else:
            members[node] = [min(members[first][0], members[second][0])]
            leaves[node] = leaves[first] + leaves[second]
            heights[node] = height
    order = leaves[2 * count - 2]
    rows = {leaf: float(row) for row, leaf in enumerate(order)}
    merges = []
    for node, height in heights.items():
        one, other = (int(child) for child in kin[node - count, :2])
        first, second = sorted((one, other), key=lambda child: rows[child])
        merges.append(Merge(rows[first], rows[second], heights.get(first, 0.0), heights.get(second, 0.0), height))
        rows[node] = (rows[first] + rows[second]) / 2
    return [members[leaf] for leaf in order], merges
