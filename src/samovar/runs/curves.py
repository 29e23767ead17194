"""Curves of many runs, grouped by metric: what a plot shows. How it is drawn is in drawing.py."""

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from samovar.config.diff import format_csv, make_frame
from samovar.errors import BadInput
from samovar.runs.comparison import label_all
from samovar.runs.find import Named, Target, find_targets
from samovar.runs.metrics import LiveSeries, main_metrics, match_metrics, read_live_series, read_series

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

_DEFAULT_METRIC = "loss"


@dataclass(frozen=True)
class Line:
    """One curve: a metric of a run."""

    label: str
    steps: Sequence[float]
    values: Sequence[float]
    run: str = ""
    """The name of the run."""
    num_open: int = 0
    """How many of the last points no snapshot has yet."""


@dataclass(frozen=True)
class Panel:
    """One picture: all runs and evaluations that have a metric of that name."""

    metric: str
    lines: Sequence[Line]


@dataclass(frozen=True)
class Plot:
    """Curves of runs: what `plot` returns. A notebook shows its figure.

    Attributes:
        panels: One per metric, each with its lines.

    Example:
        >>> len(plot("models/*", "loss").to_frame()) > 0
        True
    """

    panels: Sequence[Panel]
    metrics: Sequence[str] = ()
    """All metrics that one of the runs has."""

    @property
    def columns(self) -> tuple[str, ...]:
        """What each of the points says: run, metric, step and value."""
        return "run", "metric", "step", "value"

    @property
    def points(self) -> list[tuple[str, str, float, float]]:
        """All points, as run, metric, step and value."""
        return [
            (line.label, panel.metric, step, value)
            for panel in self.panels
            for line in panel.lines
            for step, value in zip(line.steps, line.values, strict=True)
        ]

    def to_csv(self) -> str:
        """One line per point, below the names run, metric, step and value."""
        return format_csv(self.columns, self.points)

    def to_frame(self) -> "pandas.DataFrame":
        """One row per point, with the columns run, metric, step and value."""
        return make_frame(self.columns, self.points)

    def figure(self) -> "Figure":
        """The curves as a figure of matplotlib, one row per panel."""
        from samovar.runs.drawing import draw_panels  # matplotlib takes a second to import

        return draw_panels(self.panels)

    def save(self, path: Path | str, format: str | None = None) -> None:
        """Draw the curves into a file.

        Args:
            path: The file.
            format: "png" or "svg", by default the suffix of the path.

        Raises:
            BadInput: The file cannot be written.
        """
        from samovar.store.reports import save_figure

        save_figure(self.figure(), path, format)

    def to_text(self, width: int = 72) -> "Text":
        """The curves in characters, for a terminal.

        Args:
            width: How many characters wide a frame is.
        """
        from samovar.runs.drawing import draw_lines

        return Text("").join(draw_lines(panel.metric, panel.lines, width) for panel in self.panels)

    def _repr_png_(self) -> bytes:
        """For notebooks."""
        picture = io.BytesIO()
        self.figure().savefig(picture, format="png", dpi=80)
        return picture.getvalue()


def plot(runs: Named | Iterable[Named], metrics: str | Sequence[str] = (), *, live: bool = False) -> Plot:
    """Collect the curves of many runs, finished or not.

    Args:
        runs: Result directories, folders or glob patterns. Config files have no curves and are left out.
        metrics: Metrics by full name or last part, one panel each; one panel per loss if there are none.
        live: Also show what runs have written since their newest snapshots.

    Returns:
        The curves. A label says only in what the config of a run differs from the others.

    Raises:
        BadInput: There is no result among the runs, or no run has one of the metrics.

    Example:
        >>> curves = plot("models/*", "loss")
        >>> curves.to_frame()
              run metric  step  value
        0  lr=0.1   loss   0.0   1.00
        1  lr=0.1   loss   1.0   0.25
        2  lr=0.2   loss   0.0   1.00
        3  lr=0.2   loss   1.0   0.50
        >>> curves.save("loss.png")
    """
    return _make_plot(find_targets(runs), [metrics] if isinstance(metrics, str) else metrics, live)


def _make_plot(targets: Sequence[Target], metrics: Sequence[str], live: bool) -> Plot:
    """One panel per metric, given by full or short name; one per loss if none is named."""
    results = {target.name: target.directory for target in targets if target.directory is not None}
    if not results:
        names = ", ".join(target.name for target in targets)
        raise BadInput(f"plot: only result directories have curves, got only configs: {names}")
    labels = label_all([target for target in targets if target.directory is not None])
    read = read_live_series if live else lambda directory: LiveSeries(read_series(directory), {})
    runs = [(name, label, read(directory)) for label, (name, directory) in zip(labels, results.items(), strict=True)]
    known = list(dict.fromkeys(metric for _, _, live in runs for metric in live.series))
    if not known:
        names = ", ".join(list(results)[:3])
        raise BadInput(f"plot: no numbers yet in the logs of {names}. A run writes them with its first snapshot")
    wanted = metrics or _default_metrics(known)
    return Plot([_make_panel(metric, match_metrics(metric, known), runs) for metric in wanted], known)


def _default_metrics(known: Sequence[str]) -> list[str]:
    """All losses; the first metric if there are none."""
    main = main_metrics(known) or list(known)
    losses = [metric for metric in main if metric.rpartition(".")[2] == _DEFAULT_METRIC]
    return losses or main[:1]


def _make_panel(name: str, metrics: Sequence[str], runs: Sequence[tuple[str, str, LiveSeries]]) -> Panel:
    lines = []
    for run, run_label, live in runs:
        for metric in metrics:
            if metric in live.series:
                label = run_label if len(metrics) == 1 else f"{run_label} {metric.rpartition('.')[0]}".strip()
                found = live.series[metric]
                lines.append(Line(label, found.steps, found.values, run, live.num_open.get(metric, 0)))
    return Panel(metrics[0] if len(metrics) == 1 else name, lines)
