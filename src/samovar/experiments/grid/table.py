"""One table of all parts: what differs, and what came out; as CSV and as a picture. Runs nothing."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from samovar.config import flat_diff, read_config
from samovar.config.diff import show_value
from samovar.config.parent import without_parent
from samovar.errors import NotOurs
from samovar.experiments.grid.metrics import Series, choose_metrics, read_series, reduce_run
from samovar.experiments.grid.parts import Part
from samovar.results import open_directory


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
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["part", "state", *self.changed, *self.metrics])
        for row in self.rows:
            measured = (row.metrics[name] for name in self.metrics)
            shown = ("" if value is None else repr(value) for value in measured)
            writer.writerow([row.name, row.state, *(show_value(row.values[key]) for key in self.changed), *shown])
        return text.getvalue()

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
    except NotOurs:
        return {}  # it has not begun
