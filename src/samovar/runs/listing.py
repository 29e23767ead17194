"""Runs as a table: which of them, in which order, with which columns. Knows nothing of how it is shown.

Which column a user means by a name: a fact, a config key or a metric, in full or by its last part.

`--where "lr>0.01"`: conditions on one column each. Knows values, and not where they come from.
"""

import fnmatch
import json
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from samovar.config.diff import show_value
from samovar.config.values import MISSING, nearest, same, split
from samovar.errors import BadInput
from samovar.runs.index import paused_gc
from samovar.runs.summary import FACTS, UNREADABLE, RunSummary, main_metrics, summarize_runs


@dataclass(frozen=True)
class Columns:
    """All columns that some run has."""

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
        """The one column of that name: `state`, `config.model.lr`, `metric.next_hour+1h.auc`."""
        if name in FACTS:
            return name
        full = [f"config.{key}" for key in self.keys] + [f"metric.{metric}" for metric in self.metrics]
        if name in full:
            return name
        found = next(filter(None, self._candidates(name)), [])
        if len(found) > 1:
            raise BadInput(f"column {name!r}: found {', '.join(found)}; expected one: name it in full")
        if found:
            return found[0]
        short = {column.rpartition(".")[2] for column in full}
        best = nearest(name, {*FACTS, *short, *(column.partition(".")[2] for column in full)})
        guess = f"did you mean {best!r}?" if best else f"the facts are {', '.join(FACTS)}"
        raise BadInput(f"column {name!r}: no run has it; expected a fact, a config key or a metric: {guess}")

    def _candidates(self, name: str) -> Iterator[list[str]]:
        """Of the groups that may be meant the first that has somebody in it."""
        main, keys = main_metrics(self.metrics), [key for key in self.keys if str(split(key)[-1]) == name]
        yield [f"config.{key}" for key in self.keys if key == name] + [f"metric.{m}" for m in main if m == name]
        yield [f"config.{key}" for key in keys] + [f"metric.{m}" for m in main if m.rpartition(".")[2] == name]
        yield [f"metric.{m}" for m in self.metrics if m == name or m.rpartition(".")[2] == name]

    def usual(self) -> list[str]:
        """What is shown when nothing was asked for."""
        return ["name", "state", "kind", "age", *(f"metric.{metric}" for metric in main_metrics(self.metrics))]


_FORM = re.compile(r"\s*(?P<column>[^=!<>~]+?)\s*(?P<sign>==|!=|<=|>=|=|<|>|~)\s*(?P<value>.*?)\s*")
_ORDERS: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True)
class Condition:
    column: str
    sign: str
    value: Any
    """As JSON reads it; what is no JSON is a string."""
    text: str

    def holds(self, found: Any) -> bool:
        """A run that has no such value fulfils no condition but `!=`."""
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
        # dates and names have an order too, but none with numbers
        return isinstance(found, str) and not _is_number(self.value) and _ORDERS[self.sign](found, self.text)


def parse_condition(text: str) -> Condition:
    form = _FORM.fullmatch(text)
    if form is None or not form["value"]:
        raise BadInput(
            f"--where {text!r}: expected a column, one of = != < <= > >= ~ and a value: "
            """write, for example, --where "lr>0.01", --where state=finished, --where "name~*/click_*" """.rstrip()
        )
    try:
        value = json.loads(form["value"])
    except ValueError:
        value = form["value"]
    return Condition(form["column"], form["sign"], value, form["value"])


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@dataclass(frozen=True)
class Listing:
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    """`MISSING` where a run has no such value."""
    unreadable: Sequence[str]
    """What is wrong with the runs that could not be read."""


@paused_gc()
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
