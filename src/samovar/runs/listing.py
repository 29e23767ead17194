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
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from samovar.config.diff import flatten, format_csv, make_frame, show_value
from samovar.config.identity import without_parent
from samovar.config.places import Place
from samovar.config.values import MISSING, describe, did_you_mean, nearest, same, split
from samovar.errors import BadInput, SamovarError
from samovar.runs.find import find_directories
from samovar.runs.index import (
    Reply,
    read_all_reductions,
    read_codes,
    read_configs,
    read_facts,
    read_metrics,
    read_whole_metrics,
    require_answers,
)
from samovar.runs.metrics import REDUCTIONS, find_metrics, main_metrics, split_reduction
from samovar.runs.parallel import paused_gc

if TYPE_CHECKING:
    import pandas

FACTS = ("name", "state", "kind", "age", "code", "position", "error")
"""What every run has; a config key of the same name is reached as `config.name`. The same code has the same `code`."""
UNREADABLE = "unreadable"
_FROM_STATUS = ("state", "kind", "position", "error")


@dataclass(frozen=True)
class Listing:
    """Runs as a table: one row per run.

    Attributes:
        columns: Full names: `state`, `config.model.lr`, `metric.loss`.
        rows: One value per column; `samovar.config.MISSING` where a run has none.
        unreadable: What is wrong with each run that could not be read.

    Example:
        >>> list_runs("models", columns=["state"]).to_frame()["state"].tolist()
        ['finished', 'finished']
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
    group: str | Sequence[str] = (),
    now: datetime | None = None,
) -> Listing:
    """List runs as rows of a table.

    Args:
        places: Folders and glob patterns. All results at or below them are listed.
        where: Conditions such as `lr>0.01`; a run must meet all of them.
        sort: Columns, the most important first; `-auc` sorts from high to low. Runs without the value come last.
        columns: Facts, config keys and metrics, by full or short name; facts and metrics if empty. `auc:max` is another
            value of a metric than the last: `best`, `min`, `max` or `mean`.
        group: Config keys such as `seed`: runs that differ only in them become one row, with the mean and the sample
            standard deviation of each metric.
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
    request = ListingRequest(_as_list(where), _as_list(sort), columns)
    folders, moment = find_directories(places), (now or datetime.now(UTC)).timestamp()
    runs = summarize_runs(folders, with_reductions=request.has_reductions)
    known = Columns.of(runs)
    if not all(map(known.has, request.asked)):  # a metric that was not logged lately
        runs = summarize_runs(folders, read_whole_metrics, with_reductions=request.has_reductions)
        known = Columns.of(runs)
    selection = request.select(runs, known, moment)
    if group:
        from samovar.runs.grouping import group_runs  # which knows listings

        return group_runs(selection, _as_list(group)).listing
    return selection.to_listing()


@dataclass(frozen=True)
class ListingRequest:
    """What is asked of runs that were read already: which ones, in which order, and what of them.

    Raises:
        BadInput: A condition cannot be parsed.
    """

    where: Sequence[str] = ()
    sort: Sequence[str] = ()
    columns: Sequence[str] = ()

    def __post_init__(self) -> None:
        self.conditions  # noqa: B018  # parsed here, so that a mistake is found before anything is read

    @cached_property
    def conditions(self) -> "list[Condition]":
        return [parse_condition(text) for text in self.where]

    @property
    def asked(self) -> list[str]:
        """The names of all columns that it needs."""
        return [
            *(condition.column for condition in self.conditions),
            *(name.removeprefix("-") for name in self.sort),
            *self.columns,
        ]

    @property
    def has_reductions(self) -> bool:
        """Whether a column such as `auc:max` needs the whole logs."""
        return any(":" in name for name in self.asked)

    def select(self, runs: "Sequence[RunSummary]", known: "Columns", now: float) -> "Selection":
        """Filter and sort runs.

        Args:
            runs: All of them.
            known: Their columns.
            now: The time from which ages are counted, in seconds since 1970.

        Raises:
            BadInput: A column is unknown or ambiguous, or a condition compares a number with a text.
        """
        placed = [(condition, known.find(condition.column)) for condition in self.conditions]
        for condition, column in placed:
            condition.check_kind(run.get(column, now) for run in runs)
        for condition, column in placed:
            runs = [run for run in runs if condition.holds(run.get(column, now))]
        for name in reversed(self.sort):
            runs = _sort(runs, known.find(name.removeprefix("-")), now, is_descending=name.startswith("-"))
        shown = [known.find(name) for name in self.columns] or default_columns(runs)
        return Selection(shown if "name" in shown else ["name", *shown], runs, now)


@dataclass(frozen=True)
class Selection:
    """The runs that were asked for, in order, and the columns to show."""

    columns: Sequence[str]
    runs: "Sequence[RunSummary]"
    now: float

    def row(self, run: "RunSummary") -> list[Any]:
        """One value per column."""
        return [run.get(column, self.now) for column in self.columns]

    def to_listing(self) -> Listing:
        unreadable = [str(run.facts["error"]) for run in self.runs if run.facts["state"] == UNREADABLE]
        return Listing(self.columns, [self.row(run) for run in self.runs], unreadable)


def _as_list(texts: str | Sequence[str]) -> list[str]:
    return [texts] if isinstance(texts, str) else list(texts)


def _sort(runs: Sequence["RunSummary"], column: str, now: float, is_descending: bool) -> list["RunSummary"]:
    values = [(run, run.get(column, now)) for run in runs]
    present = sorted(
        (pair for pair in values if pair[1] is not MISSING),
        key=lambda pair: _sort_key(pair[1]),
        reverse=is_descending,
    )
    return [run for run, _ in present] + [run for run, value in values if value is MISSING]


def _sort_key(value: Any) -> tuple[bool, float, str]:
    """Numbers come first; everything else is sorted as text."""
    return (False, value, "") if _is_number(value) else (True, 0.0, str(value))


@dataclass(frozen=True)
class RunSummary:
    """A run in one line."""

    facts: Mapping[str, Any]
    """By the names in `FACTS`, but for `age`."""
    heartbeat: float | None = None
    """The run's last one, in seconds since 1970; `age` is the time since then."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """The last values."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """Flat."""

    reductions: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """By metric and reduction, if they were read."""

    def get(self, column: str, now: float) -> Any:
        """The value of a column as `Columns` names it; `MISSING` if this run has none."""
        section, _, name = column.partition(".")
        if section == "config":
            return self.config.get(name, MISSING)
        if section == "metric":
            if name in self.metrics:
                return self.metrics[name]
            metric, _, reduction = name.rpartition(":")
            return self.reductions.get(metric, {}).get(reduction, MISSING)
        if column == "age":
            return MISSING if self.heartbeat is None else max(0.0, now - self.heartbeat)
        return self.facts.get(column, MISSING)


def summarize_runs(
    folders: Sequence[Place],
    read_metrics: Callable[[Sequence[Place]], list[Reply]] = read_metrics,
    with_reductions: bool = False,
) -> list[RunSummary]:
    """A damaged run becomes a line that says so, and does not hide the others."""
    questions = [read_configs, read_facts, read_codes, read_metrics, *([read_all_reductions] * with_reductions)]
    replies = zip(*(read(folders) for read in questions), strict=True)
    return [_summarize(folder, answers) for folder, answers in zip(folders, replies, strict=True)]


def _summarize(folder: Place, replies: Sequence[Reply]) -> RunSummary:
    try:
        config, facts, code, metrics, *reductions = require_answers(replies)
    except SamovarError as error:
        return RunSummary({"name": str(folder), "state": UNREADABLE, "error": str(error)})
    heartbeat = facts["heartbeat"]
    values = {"name": str(folder), "code": code["code"], **{fact: facts[fact] for fact in _FROM_STATUS}}
    known = {name: MISSING if value is None else value for name, value in values.items()}
    seen_at = None if heartbeat is None else datetime.fromisoformat(heartbeat).timestamp()
    return RunSummary(known, seen_at, metrics, flatten(without_parent(config)), *reductions)


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
        """The one column of that full or short name: `state`, `config.model.lr`, `metric.next_hour+1h.auc`. A metric
        may say which of its values: `metric.next_hour+1h.auc:max`; the last if it does not."""
        if name in FACTS:
            return name
        metric, colon, reduction = name.rpartition(":")
        if colon and not self._has(name):
            if reduction not in REDUCTIONS:
                split_reduction(name)  # raises, and suggests the nearest
            column = self.find(metric)
            if not column.startswith("metric."):
                raise BadInput(f"{name!r}: only a metric has several values, and {column} is not one")
            return f"{column}:{reduction}"
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
        guess = did_you_mean(best) or f". Available: {', '.join([*FACTS, *full])}"
        raise BadInput(f"no run has a column {name!r}{guess}")

    def has(self, name: str) -> bool:
        """Whether a name means at least one column."""
        return self._has(name) or (":" in name and self._has(name.rpartition(":")[0]))

    def _has(self, name: str) -> bool:
        return name in FACTS or name.partition(".")[2] in {*self.keys, *self.metrics} or bool(self._find(name))

    def _find(self, name: str) -> list[str]:
        return next(filter(None, self._candidates(name)), [])

    def _candidates(self, name: str) -> Iterator[list[str]]:
        """Groups of columns that the name may mean; the first group that is not empty counts."""
        main = main_metrics(self.metrics)
        yield _full([key for key in self.keys if key == name], [metric for metric in main if metric == name])
        yield _full([key for key in self.keys if str(split(key)[-1]) == name], find_metrics(name, main))
        yield _full([], find_metrics(name, self.metrics))


def default_columns(runs: Iterable[RunSummary]) -> list[str]:
    """What is shown if nothing is asked for."""
    metrics: dict[str, None] = {}
    for run in runs:
        metrics.update(dict.fromkeys(run.metrics))
    return ["name", "state", "kind", "age", "code", *(f"metric.{metric}" for metric in main_metrics(metrics))]


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
        """Refuse an order between numbers and strings, which no run could meet."""
        present = [value for value in values if value is not MISSING]
        if self.sign in _ORDERS and present and not any(map(self._is_comparable, present)):
            raise BadInput(
                f"where: {self.column} {self.sign} {self.text} compares {describe(present[0])} with "
                f"{describe(self.value)}. Compare with a value of the same kind"
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
            f"where {text!r}: a condition is a column, one of = != < <= > >= ~, and a value, "
            """for example "lr>0.01", state=finished or "name~*/click_*" """.rstrip()
        )
    try:
        value = json.loads(form["value"])
    except ValueError:
        value = form["value"]
    return Condition(form["column"], form["sign"], value, form["value"])


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
