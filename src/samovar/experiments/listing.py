"""Runs as a table: which of them, in which order, with which columns. Knows nothing of how it is shown."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from samovar.config.values import MISSING
from samovar.experiments.collector import collector_at_rest
from samovar.experiments.columns import Columns
from samovar.experiments.summary import UNREADABLE, RunSummary, summarize_runs
from samovar.experiments.where import parse_condition


@dataclass(frozen=True)
class Listing:
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    """`MISSING` where a run has no such value."""
    unreadable: Sequence[str]
    """What is wrong with the runs that could not be read."""


@collector_at_rest()
def list_runs(
    directories: Sequence[Path],
    now: datetime,
    where: Sequence[str] = (),
    sort: Sequence[str] = (),
    columns: Sequence[str] = (),
) -> Listing:
    """`sort` names columns, the most important first; `-auc` is from high to low. A run without the value is last."""
    conditions = [parse_condition(text) for text in where]
    runs = summarize_runs(directories, now)
    known = Columns.of(runs)
    for condition in conditions:
        column = known.find(condition.column)
        runs = [run for run in runs if condition.holds(run.get(column))]
    for name in reversed(sort):
        runs = _sorted(runs, known.find(name.removeprefix("-")), name.startswith("-"))
    shown = [known.find(name) for name in columns] or Columns.of(runs).usual()
    if "name" not in shown:
        shown = ["name", *shown]
    broken = [str(run.facts["error"]) for run in runs if run.facts["state"] == UNREADABLE]
    return Listing(shown, [[run.get(column) for column in shown] for run in runs], broken)


def _sorted(runs: Sequence[RunSummary], column: str, is_descending: bool) -> list[RunSummary]:
    having = [run for run in runs if run.get(column) is not MISSING]
    missing = [run for run in runs if run.get(column) is MISSING]
    return sorted(having, key=lambda run: _key(run.get(column)), reverse=is_descending) + missing


def _key(value: Any) -> tuple[bool, float, str]:
    """Numbers come before all else, which is in the order of its text."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return (False, value, "") if is_number else (True, 0.0, str(value))
