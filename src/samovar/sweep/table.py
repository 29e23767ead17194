"""One table of all parts: what differs, and what came out; as CSV and as a picture. Runs nothing.

One number a run and metric, from `logs/metrics.jsonl`. Knows no experiments.

A name is that of measures.py, but for shifts, which count together: `loss`, `ahead.auc`; `:last`, `:mean`, `:min`,
`:max` say which of its values counts. Evaluations are means over all examples, all else is the last value.
"""

import io
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from samovar.config import flat_diff, format_csv, read_config
from samovar.config.identity import without_parent
from samovar.errors import BadInput, NotAResult
from samovar.results import ResultDirectory, open_directory, read_log
from samovar.results.artifacts import METRICS_LOG
from samovar.runs.summary import metrics_of
from samovar.sweep.parts import Part

_SHOWN = ("loss", "auc", "log_loss")
_HOW = ("last", "mean", "min", "max")


@dataclass
class Series:
    """The values of one metric in one run."""

    is_evaluation: bool
    values: list[float] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)

    def reduce(self, how: str) -> float:
        if how == "min":
            return min(self.values)
        if how == "max":
            return max(self.values)
        total = sum(self.weights)
        if how == "mean" and total > 0:
            return sum(value * weight for value, weight in zip(self.values, self.weights, strict=True)) / total
        return self.values[-1]


def read_series(directory: ResultDirectory) -> dict[str, Series]:
    found: dict[str, Series] = {}
    for line in read_log(directory.store, METRICS_LOG):
        is_evaluation = line.get("kind") == "evaluation"
        for name, value in metrics_of(line, has_shifts=False):
            series = found.setdefault(name, Series(is_evaluation))
            series.values.append(value)
            series.weights.append(float(line.get("num_examples", 1)))
    return found


def split_column(column: str) -> tuple[str, str]:
    """A name, and which of its values is meant; nothing where the column does not say it."""
    name, _, how = column.partition(":")
    if how and how not in _HOW:
        raise BadInput(f"{column!r}: found {how!r} after the colon; expected one of {', '.join(_HOW)}: mend it")
    return name, how


def choose_metrics(
    runs: Sequence[Mapping[str, Series]], asked: Sequence[str] | None, is_complete: bool
) -> dict[str, tuple[str, str]]:
    """Column to (name of a series, how its values become one). While runs may still say more, a column that fits none,
    or more than one, stays empty."""
    known = list(dict.fromkeys(name for run in runs for name in run))
    if asked is None:
        asked = [name for name in known if name.rpartition(".")[2] in _SHOWN]
    return {column: _find(column, runs, known, is_complete) for column in asked}


def _find(
    column: str, runs: Sequence[Mapping[str, Series]], known: Sequence[str], is_complete: bool
) -> tuple[str, str]:
    name, how = split_column(column)
    fitting = [name] if name in known else [each for each in known if each.endswith(f".{name}")]
    if len(fitting) > 1 and is_complete:
        raise BadInput(f"metrics: {column!r} may be {' or '.join(fitting)}; expected one of them: write its whole name")
    if not fitting and is_complete and known:
        raise BadInput(f"metrics: no run has {column!r}; they have {', '.join(known)}: mend the name")
    if len(fitting) != 1:
        return name, how or "last"
    is_evaluation = any(run[fitting[0]].is_evaluation for run in runs if fitting[0] in run)
    return fitting[0], how or ("mean" if is_evaluation else "last")


def reduce_run(run: Mapping[str, Series], chosen: Mapping[str, tuple[str, str]]) -> dict[str, float | None]:
    values: dict[str, float | None] = defaultdict(lambda: None)
    for column, (name, how) in chosen.items():
        values[column] = run[name].reduce(how) if name in run else None
    return dict(values)


@dataclass(frozen=True)
class Row:
    name: str
    state: str
    values: Mapping[str, Any]
    """Of the keys in which parts differ; `MISSING` where the part has no such key."""
    metrics: Mapping[str, float | None]


@dataclass(frozen=True)
class Table:
    rows: Sequence[Row]
    changed: Sequence[str]
    metrics: Sequence[str]

    def to_csv(self) -> str:
        lines = []
        for row in self.rows:
            measured = (row.metrics[name] for name in self.metrics)
            shown = ("" if value is None else repr(value) for value in measured)
            lines.append([row.name, row.state, *(row.values[key] for key in self.changed), *shown])
        return format_csv(["part", "state", *self.changed, *self.metrics], lines)

    def to_png(self) -> bytes:
        """A panel a metric, a point a part."""
        from matplotlib.figure import Figure  # only who draws waits for it

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
    """`states` by name; a part that is not through shows what its snapshots hold."""
    runs = [_series(part) for part in parts]
    chosen = choose_metrics(runs, metrics, is_complete=all(state == "done" for state in states.values()))
    found = flat_diff({part.name: without_parent(read_config(part.config)) for part in parts})
    rows = [
        Row(
            part.name,
            states[part.name],
            {key: values[place] for key, values in found.rows.items()},
            reduce_run(run, chosen),
        )
        for place, (part, run) in enumerate(zip(parts, runs, strict=True))
    ]
    return Table(rows, list(found.rows), list(chosen))


def _series(part: Part) -> dict[str, Series]:
    try:
        return read_series(open_directory(part.out))
    except NotAResult:
        return {}  # it has not begun
