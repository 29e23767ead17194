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
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from samovar.config.diff import flatten, format_csv, make_frame, show_value
from samovar.config.identity import without_parent
from samovar.config.values import MISSING, describe, nearest, same, split
from samovar.errors import BadInput, SamovarError
from samovar.runs.find import find_directories
from samovar.runs.index import (
    Reply,
    read_codes,
    read_configs,
    read_facts,
    read_metrics,
    read_whole_metrics,
    require_answers,
)
from samovar.runs.metrics import find_metrics, main_metrics
from samovar.runs.parallel import paused_gc

if TYPE_CHECKING:
    import pandas

FACTS = ("name", "state", "kind", "age", "code", "position", "error")
"""What every run has; a config key of the same name is reached as `config.name`. The same code has the same `code`."""
UNREADABLE = "unreadable"


@dataclass(frozen=True)
class Listing:
    """Runs as a table: one row per run.

    Attributes:
        columns: Full names: `state`, `config.model.lr`, `metric.loss`.
        rows: One value per column; `samovar.config.MISSING` where a run has none.
        unreadable: What is wrong with each run that could not be read.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    unreadable: Sequence[str]

    @property
    def names(self) -> list[str]:
        """The columns without `config.` and `metric.`, where the rest of the name is still unique."""
        short = [column.partition(".")[2] or column for column in self.columns]
        return [name if short.count(name) == 1 else column for name, column in zip(short, self.columns, strict=True)]

    def to_csv(self) -> str:
        """One line per run, below the names."""
        return format_csv(self.names, self.rows)

    def to_frame(self) -> "pandas.DataFrame":
        """One row per run, with columns by their short names; None where a run has no value."""
        return make_frame(self.names, self.rows)


@paused_gc()
def list_runs(
    places: str | Path | Iterable[str | Path] = ".",
    *,
    where: str | Sequence[str] = (),
    sort: str | Sequence[str] = (),
    columns: Sequence[str] = (),
    now: datetime | None = None,
) -> Listing:
    """List runs as rows of a table.

    Args:
        places: Folders and glob patterns. All results at or below them are listed.
        where: Conditions such as `lr>0.01`; a run must meet all of them.
        sort: Columns, the most important first; `-auc` sorts from high to low. Runs without the value come last.
        columns: Facts, config keys and metrics, by full or short name; facts and metrics if empty.
        now: The time from which ages are counted, by default the present.

    Returns:
        One row per run that meets the conditions.

    Raises:
        BadInput: There is no result at a place, a condition cannot be parsed or compares a number with a text, or a
            column is unknown or ambiguous.

    Example:
        >>> listing = list_runs("models", where="lr>=0.1", sort="-loss", columns=["state", "lr", "loss"])
        >>> listing.to_frame()
                     name     state  model.lr  loss
        0  models/click_2  finished       0.2  0.50
        1  models/click_1  finished       0.1  0.25
    """
    conditions = [parse_condition(text) for text in _as_list(where)]
    folders, now = find_directories(places), now or datetime.now(UTC)
    runs = summarize_runs(folders, now)
    known = Columns.of(runs)
    asked = [*(each.column for each in conditions), *(name.removeprefix("-") for name in _as_list(sort)), *columns]
    if not all(map(known.has, asked)):  # a metric that was not logged lately
        runs = summarize_runs(folders, now, read_whole_metrics)
        known = Columns.of(runs)
    placed = [(condition, known.find(condition.column)) for condition in conditions]
    for condition, column in placed:
        condition.check_kind(run.get(column) for run in runs)
    for condition, column in placed:
        runs = [run for run in runs if condition.holds(run.get(column))]
    for name in reversed(_as_list(sort)):
        runs = _sort(runs, known.find(name.removeprefix("-")), is_descending=name.startswith("-"))
    shown = [known.find(name) for name in columns] or Columns.of(runs).default()
    if "name" not in shown:
        shown = ["name", *shown]
    unreadable = [str(run.facts["error"]) for run in runs if run.facts["state"] == UNREADABLE]
    return Listing(shown, [[run.get(column) for column in shown] for run in runs], unreadable)


def _as_list(texts: str | Sequence[str]) -> list[str]:
    return [texts] if isinstance(texts, str) else list(texts)


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


def summarize_runs(
    folders: Sequence[Path], now: datetime, read_metrics: Callable[[Sequence[Path]], list[Reply]] = read_metrics
) -> list[RunSummary]:
    """A damaged run becomes a line that says so, and does not hide the others."""
    questions = (read_configs, read_facts, read_codes, read_metrics)
    replies = zip(*(read(folders) for read in questions), strict=True)
    return [_summarize(folder, answers, now) for folder, answers in zip(folders, replies, strict=True)]


def _summarize(folder: Path, replies: Sequence[Reply], now: datetime) -> RunSummary:
    try:
        config, facts, code, metrics = require_answers(replies)
    except SamovarError as error:
        return RunSummary({"name": str(folder), "state": UNREADABLE, "error": str(error)})
    heartbeat = facts["heartbeat"]
    values = {
        "name": str(folder),
        "state": facts["state"],
        "kind": facts["kind"],
        "age": None if heartbeat is None else max(0.0, (now - datetime.fromisoformat(heartbeat)).total_seconds()),
        "code": code["code"],
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
        found = self._find(name)
        if len(found) > 1:
            raise BadInput(f"column {name!r} is ambiguous: {', '.join(found)}. Use the full name")
        if found:
            return found[0]
        short = {column.rpartition(".")[2] for column in full}
        best = nearest(name, {*FACTS, *short, *(column.partition(".")[2] for column in full)})
        guess = f" Did you mean {best!r}?" if best else f" Available: {', '.join([*FACTS, *full])}"
        raise BadInput(f"no run has a column {name!r}.{guess}")

    def has(self, name: str) -> bool:
        """Whether a name means at least one column."""
        return name in FACTS or name.partition(".")[2] in {*self.keys, *self.metrics} or bool(self._find(name))

    def _find(self, name: str) -> list[str]:
        return next(filter(None, self._candidates(name)), [])

    def _candidates(self, name: str) -> Iterator[list[str]]:
        """Groups of columns that the name may mean; the first group that is not empty counts."""
        main = main_metrics(self.metrics)
        yield _full([key for key in self.keys if key == name], [metric for metric in main if metric == name])
        yield _full([key for key in self.keys if str(split(key)[-1]) == name], find_metrics(name, main))
        yield _full([], find_metrics(name, self.metrics))

    def default(self) -> list[str]:
        """What is shown if nothing is asked for."""
        return ["name", "state", "kind", "age", "code", *(f"metric.{metric}" for metric in main_metrics(self.metrics))]


def _full(keys: Iterable[str], metrics: Iterable[str]) -> list[str]:
    return [f"config.{key}" for key in keys] + [f"metric.{metric}" for metric in metrics]


_CONDITION = re.compile(r"\s*(?P<column>[^=!<>~]+?)\s*(?P<sign>==|!=|<=|>=|=|<|>|~)\s*(?P<value>(?![=<>!~]).*?)\s*")
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

    def check_kind(self, values: Iterable[Any]) -> None:
        """Refuse an order between numbers and texts, which no run could meet."""
        present = [value for value in values if value is not MISSING]
        if self.sign in _ORDERS and present and not any(map(self._is_comparable, present)):
            raise BadInput(
                f"--where: {self.column} {self.sign} {self.text} compares {describe(present[0])} with "
                f"{describe(self.value)}"
            )

    def _is_comparable(self, found: Any) -> bool:
        """Dates and names can be ordered too, but not against numbers."""
        return _is_number(self.value) if _is_number(found) else isinstance(found, str) and not _is_number(self.value)

    def _is_equal(self, found: Any) -> bool:
        return same(found, self.value) or (isinstance(found, str) and found == self.text)

    def _is_ordered(self, found: Any) -> bool:
        if not self._is_comparable(found):
            return False
        return _ORDERS[self.sign](found, self.value if _is_number(found) else self.text)


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
