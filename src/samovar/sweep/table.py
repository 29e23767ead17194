"""One table of all parts: the keys that differ, and one number per metric; as CSV and as a picture. Runs nothing.

A column names a metric, with all shifts of an evaluation together, and may say which value counts: `loss`,
`ahead.auc:max`. The default is the mean over all examples for evaluations of hours, and the last value for everything
else.
"""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from samovar.config import flat_diff, format_csv
from samovar.config.diff import make_frame
from samovar.config.identity import without_parent
from samovar.errors import NotAResult
from samovar.results import open_directory
from samovar.results.code import name_code
from samovar.runs.metrics import Series, find_metrics, match_metric, read_series, split_reduction
from samovar.store import read_config_at
from samovar.sweep.parts import Part

if TYPE_CHECKING:
    import pandas

_DEFAULT_METRICS = ("loss", "auc", "log_loss", "macro_f1", "rmse", "mrr")


@dataclass(frozen=True)
class Row:
    """One part of an experiment.

    Attributes:
        name: Its number.
        state: Of its job: waiting, running, done, failed or cancelled.
        code: The short name of its code, the same for the same code; None if it is not started or has no script.
        values: By key in which parts differ; `samovar.config.MISSING` where the part has no such key.
        metrics: Its numbers by column; None where it has none.

    Example:
        >>> from samovar.sweep import run_experiment
        >>> print(*(row.name for row in run_experiment("counts.json").table.rows))
        0 1
    """

    name: str
    state: str
    code: str | None
    values: Mapping[str, Any]
    metrics: Mapping[str, float | None]


@dataclass(frozen=True)
class Table:
    """All parts of an experiment.

    Attributes:
        rows: One per part.
        changed: The keys in which parts differ.
        metrics: The columns of numbers.

    Example:
        >>> from samovar.sweep import run_experiment
        >>> run_experiment("counts.json").table.changed
        ['count']
    """

    rows: Sequence[Row]
    changed: Sequence[str]
    metrics: Sequence[str]

    @property
    def columns(self) -> list[str]:
        """The names of the columns; `code` is one of them if a part has code."""
        return [*self._facts, *self.changed, *self.metrics]

    @property
    def _facts(self) -> list[str]:
        return ["part", "state", "code"] if any(row.code is not None for row in self.rows) else ["part", "state"]

    def facts_of(self, row: Row) -> list[str]:
        """The first columns of a row: its number, its state and its code.

        Args:
            row: One of its rows.
        """
        return [row.name, row.state, row.code or ""][: len(self._facts)]

    def to_frame(self) -> "pandas.DataFrame":
        """One row per part: its number, its state, its code, the keys that differ and its metrics."""
        rows = [
            [*self.facts_of(row), *(row.values[key] for key in self.changed), *(row.metrics[m] for m in self.metrics)]
            for row in self.rows
        ]
        return make_frame(self.columns, rows)

    def to_csv(self) -> str:
        """The same as CSV."""
        lines = []
        for row in self.rows:
            measured = (row.metrics[name] for name in self.metrics)
            shown = ("" if value is None else repr(value) for value in measured)
            lines.append([*self.facts_of(row), *(row.values[key] for key in self.changed), *shown])
        return format_csv(self.columns, lines)

    def to_png(self) -> bytes:
        """One panel per metric, one point per part."""
        from matplotlib.figure import Figure  # here, because it is slow to import

        names = [row.name for row in self.rows]
        count = max(1, len(self.metrics))
        figure = Figure(figsize=(max(6.0, min(0.3 * len(names), 30.0)), 2.5 * count), layout="constrained")
        panels = figure.subplots(count, 1, sharex=True, squeeze=False)[:, 0]
        for panel, metric in zip(panels, self.metrics, strict=False):
            known = [(place, row.metrics[metric]) for place, row in enumerate(self.rows)]
            points = [(place, value) for place, value in known if value is not None]
            panel.plot([place for place, _ in points], [value for _, value in points], "o")
            panel.set_ylabel(metric)
            panel.grid(alpha=0.3)
        step = max(1, len(names) // 40)
        panels[-1].set_xticks(range(0, len(names), step), names[::step])
        panels[-1].set_xlabel("part")
        data = io.BytesIO()
        figure.savefig(data, format="png", dpi=100)
        return data.getvalue()


def collect(parts: Sequence[Part], states: Mapping[str, str], metrics: Sequence[str] | None) -> Table:
    """`states` is by part; a part that is not finished shows what its snapshots hold."""
    runs = [_read_series(part) for part in parts]
    columns = _choose_columns(runs, metrics, is_complete=all(state == "done" for state in states.values()))
    diff = flat_diff({part.name: without_parent(read_config_at(part.config)) for part in parts})
    rows = [
        Row(
            part.name,
            states[part.name],
            _read_code(part),
            {key: values[place] for key, values in diff.rows.items()},
            {column: _reduce(run, *chosen) for column, chosen in columns.items()},
        )
        for place, (part, run) in enumerate(zip(parts, runs, strict=True))
    ]
    return Table(rows, list(diff.rows), list(columns))


def _read_series(part: Part) -> dict[str, Series]:
    try:
        return read_series(open_directory(part.out), has_shifts=False)
    except NotAResult:
        return {}  # not started


def _read_code(part: Part) -> str | None:
    try:
        return name_code(open_directory(part.out).code)
    except NotAResult:
        return None  # not started


def _choose_columns(
    runs: Sequence[Mapping[str, Series]], asked: Sequence[str] | None, is_complete: bool
) -> dict[str, tuple[str, str]]:
    """By column: the metric, and how its values become one."""
    known = list(dict.fromkeys(metric for run in runs for metric in run))
    if asked is None:
        asked = [metric for metric in known if metric.rpartition(".")[2] in _DEFAULT_METRICS]
    return {column: _choose(column, runs, known, is_complete) for column in asked}


def _choose(
    column: str, runs: Sequence[Mapping[str, Series]], known: Sequence[str], is_complete: bool
) -> tuple[str, str]:
    name, reduction = split_reduction(column)
    if is_complete and known:
        metric = match_metric(name, known)
    else:  # runs may still log more: a column that matches none, or several, stays empty
        found = find_metrics(name, known)
        metric = found[0] if len(found) == 1 else name
    is_hourly = any(run[metric].is_hourly for run in runs if metric in run)
    return metric, reduction or ("mean" if is_hourly else "last")


def _reduce(run: Mapping[str, Series], metric: str, reduction: str) -> float | None:
    return run[metric].reduce(reduction, metric) if metric in run else None
