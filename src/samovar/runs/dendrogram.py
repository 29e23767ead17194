"""Which configs are most alike: distances between them, and a dendrogram cut to a readable number of leaves. Knows no
characters and no colours.

The distance of two configs is the mean over all keys of: 0 for equal values, |a - b| / (|a| + |b|) for two numbers, and
1 for anything else that differs, including a missing key. Each term is a metric, and so is the mean.
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from samovar.config.diff import diff_flat, format_csv, make_frame
from samovar.config.identity import read_parent
from samovar.config.records import as_finite
from samovar.config.values import MISSING
from samovar.errors import BadInput
from samovar.runs.comparison import label_group, read_identities
from samovar.runs.find import Named, Target, find_targets
from samovar.runs.index import read_metrics, require_answers
from samovar.runs.metrics import match_metric
from samovar.runs.parallel import paused_gc

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure
    from rich.text import Text

Floats = NDArray[np.float64]

MAX_LEAVES = 40
"""As many as a screen shows."""

_MAX_VALUES = 2048  # of a column whose distances are all kept: 32 MB
_MAX_ROWS = 64  # of distances to all configs: neighbours in the order mostly have the same value


def distances(configs: Sequence[Mapping[str, Any]]) -> Floats:
    """Condensed, as in scipy: (0, 1), (0, 2), … (1, 2), … Always the same bits, because keys are added in order."""
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
    """One key of all configs, or several: the distinct values, and which of them each config has."""

    def __init__(self, codes: NDArray[np.intp], num_values: int, to_values: Callable[[int], Floats]) -> None:
        self.codes = codes
        self.num_values = num_values
        self.to_values = cache(to_values) if num_values <= _MAX_VALUES else to_values
        """Distances from the value with that code to all values."""
        self._to_configs = lru_cache(_MAX_ROWS)(lambda code: np.take(self.to_values(code), codes))

    def from_one(self, first: int) -> Floats:
        """Distances from one config to all that come after it."""
        return self._to_configs(int(self.codes[first]))[first + 1 :]


def _merge_all(columns: Sequence[_Column]) -> list[_Column]:
    """Join adjacent columns with few values into one column of pairs: a pair of configs is then looked up once."""
    merged: list[_Column] = []
    for column in columns:
        if merged and merged[-1].num_values * column.num_values <= _MAX_VALUES:
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
        finite = as_finite(value)
        number, token = (np.nan, _text(value)) if finite is None else (finite, finite)
        if token not in codes:
            codes[token] = len(numbers)
            numbers.append(number)
        row.append(codes[token])
    return _Column(np.array(row, np.intp), len(numbers), partial(_to_values, np.array(numbers)))


def _to_values(numbers: Floats, code: int) -> Floats:
    """`numbers` are the distinct values; NaN where the value is not a number."""
    size = np.abs(numbers[code]) + np.abs(numbers)
    share: Floats = np.abs(numbers[code] - numbers) / np.where(size == 0, 1, size)
    share[np.isnan(share)] = 1
    share[code] = 0
    return share


def _text(value: Any) -> str:
    return "" if value is MISSING else json.dumps(value, sort_keys=True, default=str)


def cluster(condensed: Floats) -> Floats:
    """Linkage by mean distance, as scipy has it: one row per join, the closest first."""
    from scipy.cluster.hierarchy import linkage

    return np.asarray(linkage(condensed, "average"), np.float64)


@dataclass(frozen=True)
class Leaf:
    """One config, or a group of configs that the cut leaves together."""

    names: Sequence[str]
    shared: str
    """What its configs have in common, and others do not."""
    parent: str | None
    value: float | None
    """The metric; the mean of it for a group."""

    @property
    def label(self) -> str:
        name = self.names[0] if len(self.names) == 1 else f"[{len(self.names)}] {self.names[0]} …"
        value = "" if self.value is None else f"  {self.value:.5g}"
        origin = "" if self.parent is None else f"  (clone of {self.parent})"
        return f"{name}{value}  {self.shared}{origin}".rstrip()


@dataclass(frozen=True)
class Merge:
    """Two branches that join. A leaf's row is its number; a join's row is midway between its branches."""

    first_row: float
    second_row: float
    first_height: float
    second_height: float
    height: float


@dataclass(frozen=True)
class Dendrogram:
    """Configs, the most similar close together: what `tree` returns.

    Attributes:
        leaves: From top to bottom.
        merges: Where branches join.
        metric: The metric of the leaves' values.

    Example:
        >>> len(tree("models/*", metric="loss").leaves)
        2
    """

    leaves: Sequence[Leaf]
    merges: Sequence[Merge]
    metric: str | None = None

    @property
    def height(self) -> float:
        """The largest distance."""
        return max((merge.height for merge in self.merges), default=0.0)

    def share(self, leaf: Leaf) -> float | None:
        """Its metric on a scale from the lowest value, 0, to the highest, 1.

        Args:
            leaf: One of its leaves.
        """
        values = [each.value for each in self.leaves if each.value is not None]
        if leaf.value is None:
            return None
        low, high = min(values), max(values)
        return 0.5 if low == high else (leaf.value - low) / (high - low)

    @property
    def columns(self) -> tuple[str, str, str]:
        """The names of the columns of `rows`: branch, name and the metric."""
        return "branch", "name", self.metric or "metric"

    @property
    def rows(self) -> list[tuple[int, str, Any]]:
        """Branch, name and value of each config; `MISSING` where it has no value."""
        return [
            (number, name, MISSING if leaf.value is None else leaf.value)
            for number, leaf in enumerate(self.leaves)
            for name in leaf.names
        ]

    def to_csv(self) -> str:
        """One line per config: its branch, its name and its value."""
        return format_csv(self.columns, self.rows)

    def to_frame(self) -> "pandas.DataFrame":
        """One row per config: its branch, its name and its value."""
        return make_frame(self.columns, self.rows)

    def figure(self) -> "Figure":
        """The tree as a figure of matplotlib."""
        from samovar.runs.drawing import draw_tree  # matplotlib takes a second to import

        return draw_tree(self)

    def save(self, path: Path | str, format: str | None = None) -> None:
        """Draw the tree into a file.

        Args:
            path: The file.
            format: "png" or "svg", by default the suffix of the path.

        Raises:
            BadInput: The file cannot be written.
        """
        from samovar.store.reports import save_figure

        save_figure(self.figure(), path, format)

    def to_text(self, width: int = 40) -> "Text":
        """The tree in characters, for a terminal.

        Args:
            width: How many characters wide the branches are.
        """
        from samovar.runs.drawing import draw_dendrogram

        return draw_dendrogram(self, width)


@paused_gc()
def tree(configs: Named | Iterable[Named], *, metric: str | None = None, max_leaves: int = MAX_LEAVES) -> Dendrogram:
    """Cluster configs by distance: the share of keys that differ, where numbers count by their relative difference.

    Args:
        configs: Result directories, configs, folders or glob patterns that give two or more configs, in any order.
        metric: A metric of the results by full or short name; each leaf gets its last value.
        max_leaves: The closest configs are grouped so that no more leaves than this remain.

    Returns:
        The tree, to be printed, drawn or read as a frame.

    Raises:
        BadInput: There are fewer than two configs, or no run has the metric.

    Example:
        >>> found = tree("models/*", metric="loss")
        >>> print(*(leaf.value for leaf in found.leaves))
        0.25 0.5
        >>> found.save("tree.svg")
    """
    targets = find_targets(configs)
    if len(targets) < 2:
        raise BadInput(f"tree: needs at least 2 configs, got {len(targets)}")
    flat = dict(zip((target.name for target in targets), read_identities(targets), strict=True))
    ordered = sorted(targets, key=lambda each: (json.dumps(flat[each.name], sort_keys=True), each.name))
    joins = cluster(distances([flat[target.name] for target in ordered]))
    values = _read_metric(ordered, metric)
    diff = diff_flat({target.name: flat[target.name] for target in ordered})
    groups, merges = _lay_out(joins, max_leaves)
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
    return Dendrogram(leaves, merges, metric)


def _read_metric(targets: Sequence[Target], metric: str | None) -> Mapping[int, float]:
    if metric is None:
        return {}
    numbers = [number for number, target in enumerate(targets) if target.directory is not None]
    last = dict(zip(numbers, require_answers(read_metrics([targets[number].path for number in numbers])), strict=True))
    name = match_metric(metric, list(dict.fromkeys(name for values in last.values() for name in values)))
    return {number: values[name] for number, values in last.items() if name in values}


def _lay_out(joins: Floats, max_leaves: int) -> tuple[list[list[int]], list[Merge]]:
    """The members of each leaf from top to bottom, and the joins between leaves. Joins come closest first, so cutting
    the tree means keeping the members of the first joins together."""
    count = len(joins) + 1
    num_together = max(0, count - max_leaves)
    members: dict[int, list[int]] = {number: [number] for number in range(count)}
    leaves: dict[int, list[int]] = {number: [number] for number in range(count)}
    """For each node, the nodes below it that are leaves of the cut tree."""
    heights: dict[int, float] = {}
    for step, (one, other, height, _) in enumerate(joins.tolist()):
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
        one, other = (int(child) for child in joins[node - count, :2])
        first, second = sorted((one, other), key=lambda child: rows[child])
        merges.append(Merge(rows[first], rows[second], heights.get(first, 0.0), heights.get(second, 0.0), height))
        rows[node] = (rows[first] + rows[second]) / 2
    return [members[leaf] for leaf in order], merges
