"""Runs that differ only in some keys, such as the seed, joined into one row each: `ls --group seed`. Their metrics
become a mean and a spread. Reads nothing itself.
"""

import json
import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from samovar.config.diff import diff_flat
from samovar.config.identity import without_free_keys
from samovar.config.values import MISSING, covers, split
from samovar.errors import BadInput
from samovar.runs.comparison import shorten_keys
from samovar.runs.listing import Listing, RunSummary, Selection

SPREAD = ":std"
"""The end of the name of a column: how far the values of a metric are apart in a group."""


@dataclass(frozen=True)
class Group:
    """Runs of one config, but for the keys that they were grouped over.

    Attributes:
        label: The keys in which it differs from the other groups, such as `lr=0.1 dim=8`.
        members: Its runs, in the order of the list.
    """

    label: str
    members: Sequence[RunSummary]


@dataclass(frozen=True)
class GroupListing:
    """Groups as a table: one row per group.

    Attributes:
        listing: Label, number of runs, states, and of each metric the mean and the sample standard deviation.
        groups: The groups in the order of the rows.
    """

    listing: Listing
    groups: Sequence[Group]


def group_runs(selection: Selection, keys: Sequence[str]) -> GroupListing:
    """Join runs whose configs differ only in some keys, and in what cannot change a result.

    Args:
        selection: The runs, and the columns to show.
        keys: Config keys by full name or last part.

    Returns:
        One row per group, in the order of the first run of each. The deviation of a single run is missing.

    Raises:
        BadInput: No run has one of the keys.

    Example:
        >>> runs = summarize_runs(find_directories("models"))
        >>> chosen = ListingRequest(columns=["loss"]).select(runs, Columns.of(runs), now=0.0)
        >>> group_runs(chosen, ["lr"]).listing.to_frame()
            group  runs     state  loss  loss:std
        0  models     2  finished 0.375  0.176777
    """
    wanted = set(keys)
    found: set[str] = set()
    members: dict[str, list[RunSummary]] = {}
    shared: dict[str, Mapping[str, Any]] = {}
    for run in selection.runs:
        mine = {}
        for key, value in without_free_keys(run.config, str(run.facts.get("kind", ""))).items():
            if key in wanted or str(split(key)[-1]) in wanted:
                found |= {key, str(split(key)[-1])}
            else:
                mine[key] = value
        name = json.dumps([run.facts.get("kind"), mine], sort_keys=True, default=str)
        members.setdefault(name, []).append(run)
        shared[name] = mine
    for key in keys:
        if selection.runs and key not in found:
            raise BadInput(f"--group {key}: no run has a config key of that name")
    labels = _label(list(shared.values()))
    groups = [Group(label, runs) for label, runs in zip(labels, members.values(), strict=True)]
    metrics = [column for column in selection.columns if column.startswith("metric.")]
    columns = ["group", "runs", "state", *(name for each in metrics for name in (each, f"{each}{SPREAD}"))]
    rows = [
        [group.label, len(group.members), _states(group.members), *_numbers(group.members, metrics, selection.now)]
        for group in groups
    ]
    return GroupListing(Listing(columns, rows, []), groups)


def _numbers(runs: Sequence[RunSummary], metrics: Sequence[str], now: float) -> Iterable[Any]:
    for metric in metrics:
        values = [value for run in runs if isinstance(value := run.get(metric, now), int | float)]
        yield math.fsum(values) / len(values) if values else MISSING
        yield statistics.stdev(values) if len(values) > 1 else MISSING


def _states(runs: Sequence[RunSummary]) -> str:
    counts = Counter(str(run.facts["state"]) for run in runs)
    return ", ".join(counts) if len(counts) == 1 else ", ".join(f"{count} {state}" for state, count in counts.items())


def _label(configs: Sequence[Mapping[str, Any]]) -> list[str]:
    """By the keys in which the groups differ, without sections that others of them contain."""
    rows = diff_flat({str(number): dict(config) for number, config in enumerate(configs)}).rows
    keys = [key for key in rows if not any(covers(key, other) and key != other for other in rows)]
    short = shorten_keys(keys)
    return [
        " ".join(f"{short[key]}={_show(config[key])}" for key in keys if key in config) or "all" for config in configs
    ]


def _show(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else value if isinstance(value, str) else json.dumps(value)
