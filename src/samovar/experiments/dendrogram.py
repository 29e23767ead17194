"""The tree of kinship of configs, cut to as many leaves as can be looked at, with a row and a height for all of it.
Knows no characters and no colours."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from samovar.config.diff import diff_flat
from samovar.config.parent import read_parent
from samovar.errors import BadInput
from samovar.experiments.collector import collector_at_rest
from samovar.experiments.identities import read_identities
from samovar.experiments.labels import label_group
from samovar.experiments.measures import match_one
from samovar.experiments.phylogeny import Floats, distances, find_kin
from samovar.experiments.readings import answers, read_metrics
from samovar.experiments.targets import Target


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


@collector_at_rest()
def grow(targets: Sequence[Target], most_leaves: int, metric: str | None = None) -> Dendrogram:
    """The order of the targets does not matter. Without results there is no metric."""
    if len(targets) < 2:
        raise BadInput(f"tree: found {len(targets)} config; expected two or more: name another config or directory")
    flat = dict(zip((target.name for target in targets), read_identities(targets), strict=True))
    ordered = sorted(targets, key=lambda each: (json.dumps(flat[each.name], sort_keys=True), each.name))
    kin = find_kin(distances([flat[target.name] for target in ordered]))
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
