"""Runs as a table for `samovar ls`: one row per run, filtered, sorted, with columns by name. Knows nothing of how the
table is shown.

    directories ─▶ summaries (facts, last metrics, config) ─▶ --where ─▶ --sort ─▶ --columns
"""

import fnmatch
import json
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from samovar.config.diff import flatten, show_value
from samovar.config.identity import without_parent
from samovar.config.values import MISSING, nearest, same, split
from samovar.errors import BadInput, SamovarError
from samovar.runs.index import Reply, read_configs, read_facts, read_metrics
from samovar.runs.metrics import find_metrics, main_metrics
from samovar.runs.parallel import paused_gc

FACTS = ("name", "state", "kind", "age", "position", "error")
"""What every run has; a config key of the same name is reached as `config.name`."""
UNREADABLE = "unreadable"


@dataclass(frozen=True)
class Listing:
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    """`MISSING` where a run has no such value."""
    unreadable: Sequence[str]
    """What is wrong with each run that could not be read."""


@paused_gc()
def list_runs(
    directories: Sequence[Path],
    now: datetime,
    where: Sequence[str] = (),
    sort: Sequence[str] = (),
    columns: Sequence[str] = (),
) -> Listing:
    """List runs as rows of a table.

    Args:
        directories: Result directories.
        now: The time from which ages are counted.
        where: Conditions such as `lr>0.01`; a run must meet all of them.
        sort: Columns, the most important first; `-auc` sorts from high to low. Runs without the value come last.
        columns: Facts, config keys and metrics, by full or short name; facts and metrics if empty.

    Raises:
        BadInput: A condition cannot be parsed, or a column is unknown or ambiguous.
    """
    conditions = [parse_condition(text) for text in where]
    runs = summarize_runs(directories, now)
    known = Columns.of(runs)
    for condition in conditions:
        column = known.find(condition.column)
        runs = [run for run in runs if condition.holds(run.get(column))]
    for name in reversed(sort):
        runs = _sort(runs, known.find(name.removeprefix("-")), is_descending=name.startswith("-"))
    shown = [known.find(name) for name in columns] or Columns.of(runs).default()
    if "name" not in shown:
        shown = ["name", *shown]
    unreadable = [str(run.facts["error"]) for run in runs if run.facts["state"] == UNREADABLE]
    return Listing(shown, [[run.get(column) for column in shown] for run in runs], unreadable)


def _sort(runs: Sequence["RunSummary"], column: str, is_descending: bool) -> list["RunSummary"]:
    present = [run for run in runs if run.get(column) is not MISSING]
    missing = [run for run in runs if run.get(column) is MISSING]
    return sorted(present, key=lambda run: _sort_key(run.get(column)), reverse=is_descending) + missing


def _sort_key(value: Any) -> tuple[bool, float, str]:
    """Numbers come first; everything else is sorted as text."""
    return (False, value, "") if _is_number(value) else (True, 0.0, str(value))


@dataclass(frozen=True)
class RunSummary:
    """A run in one line."""

    facts: Mapping[str, Any]
    """By the names in `FACTS`; `age` is in seconds since the run's last heartbeat."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """The last values."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """Flat."""

    def get(self, column: str) -> Any:
        """The value of a column as `Columns` names it; `MISSING` if this run has none."""
        section, _, name = column.partition(".")
        if section == "config":
            return self.config.get(name, MISSING)
        return self.metrics.get(name, MISSING) if section == "metric" else self.facts.get(column, MISSING)


def summarize_runs(folders: Sequence[Path], now: datetime) -> list[RunSummary]:
    """A damaged run becomes a line that says so, and does not hide the others."""
    replies = zip(folders, read_configs(folders), read_facts(folders), read_metrics(folders), strict=True)
    return [_summarize(folder, config, facts, metrics, now) for folder, config, facts, metrics in replies]


def _summarize(folder: Path, config: Reply, facts: Reply, metrics: Reply, now: datetime) -> RunSummary:
    if isinstance(config, SamovarError) or isinstance(facts, SamovarError) or isinstance(metrics, SamovarError):
        error = next(str(reply) for reply in (config, facts, metrics) if isinstance(reply, SamovarError))
        return RunSummary({"name": str(folder), "state": UNREADABLE, "error": error})
    heartbeat = facts["heartbeat"]
    values = {
        "name": str(folder),
        "state": facts["state"],
        "kind": facts["kind"],
        "age": None if heartbeat is None else max(0.0, (now - datetime.fromisoformat(heartbeat)).total_seconds()),
        "position": facts["position"],
        "error": facts["error"],
    }
    known = {name: MISSING if value is None else value for name, value in values.items()}
    return RunSummary(known, metrics, flatten(without_parent(config)))


@dataclass(frozen=True)
class Columns:
    """All columns that at least one run has: facts, `config.<key>`, `metric.<name>`."""

    keys: Sequence[str]
    metrics: Sequence[str]

    @classmethod
    def of(cls, runs: Iterable[RunSummary]) -> "Columns":
        keys: dict[str, None] = {}
        metrics: dict[str, None] = {}
        for run in runs:
            keys |= dict.fromkeys(run.config)
            metrics |= dict.fromkeys(run.metrics)
        return cls(sorted(keys), list(metrics))

    def find(self, name: str) -> str:
        """The one column of that full or short name: `state`, `config.model.lr`, `metric.next_hour+1h.auc`."""
        if name in FACTS:
            return name
        full = [f"config.{key}" for key in self.keys] + [f"metric.{metric}" for metric in self.metrics]
        if name in full:
            return name
        found = next(filter(None, self._candidates(name)), [])
        if len(found) > 1:
            raise BadInput(f"column {name!r} is ambiguous: {', '.join(found)}. Use the full name")
        if found:
            return found[0]
        short = {column.rpartition(".")[2] for column in full}
        best = nearest(name, {*FACTS, *short, *(column.partition(".")[2] for column in full)})
        guess = f" Did you mean {best!r}?" if best else f" Available: {', '.join([*FACTS, *full])}"
        raise BadInput(f"no run has a column {name!r}.{guess}")

    def _candidates(self, name: str) -> Iterator[list[str]]:
        """Groups of columns that the name may mean; the first group that is not empty counts."""
        main = main_metrics(self.metrics)
        yield _full([key for key in self.keys if key == name], [metric for metric in main if metric == name])
        yield _full([key for key in self.keys if str(split(key)[-1]) == name], find_metrics(name, main))
        yield _full([], find_metrics(name, self.metrics))

    def default(self) -> list[str]:
        """What is shown if nothing is asked for."""
        return ["name", "state", "kind", "age", *(f"metric.{metric}" for metric in main_metrics(self.metrics))]


def _full(keys: Iterable[str], metrics: Iterable[str]) -> list[str]:
    return [f"config.{key}" for key in keys] + [f"metric.{metric}" for metric in metrics]


_CONDITION = re.compile(r"\s*(?P<column>[^=!<>~]+?)\s*(?P<sign>==|!=|<=|>=|=|<|>|~)\s*(?P<value>.*?)\s*")
_ORDERS: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True)
class Condition:
    """One `--where`: a column, a sign and a value."""

    column: str
    sign: str
    value: Any
    """Parsed as JSON; a string if it is not JSON."""
    text: str

    def holds(self, found: Any) -> bool:
        """Whether a value meets the condition; `MISSING` meets only `!=`."""
        if self.sign == "!=":
            return not self._is_equal(found)
        if found is MISSING:
            return False
        if self.sign == "~":
            return fnmatch.fnmatchcase(show_value(found), self.text)
        if self.sign in _ORDERS:
            return self._is_ordered(found)
        return self._is_equal(found)

    def _is_equal(self, found: Any) -> bool:
        return same(found, self.value) or (isinstance(found, str) and found == self.text)

    def _is_ordered(self, found: Any) -> bool:
        if _is_number(found) and _is_number(self.value):
            return _ORDERS[self.sign](found, self.value)
        # dates and names can be ordered too, but not against numbers
        return isinstance(found, str) and not _is_number(self.value) and _ORDERS[self.sign](found, self.text)


def parse_condition(text: str) -> Condition:
    form = _CONDITION.fullmatch(text)
    if form is None or not form["value"]:
        raise BadInput(
            f"--where {text!r}: a condition is a column, one of = != < <= > >= ~, and a value, "
            """for example "lr>0.01", state=finished or "name~*/click_*" """.rstrip()
        )
    try:
        value = json.loads(form["value"])
    except ValueError:
        value = form["value"]
    return Condition(form["column"], form["sign"], value, form["value"])


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
