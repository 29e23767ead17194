"""Curves of many runs, grouped by metric: what a plot shows, before it is drawn."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from samovar.errors import BadInput
from samovar.runs.diff import label_all
from samovar.runs.find import Target
from samovar.runs.metrics import Series, main_metrics, match_metrics, read_series

_DEFAULT_METRIC = "loss"


@dataclass(frozen=True)
class Line:
    label: str
    steps: Sequence[float]
    values: Sequence[float]


@dataclass(frozen=True)
class Panel:
    """One picture: all runs and evaluations that have a metric of that name."""

    metric: str
    lines: Sequence[Line]


def make_panels(targets: Sequence[Target], metrics: Sequence[str] = ()) -> list[Panel]:
    """Make one panel per metric, given by full or short name; one per loss if none is named.

    Config files have no curves and are left out.

    Raises:
        BadInput: There is no result among the targets, or no run has one of the metrics.
    """
    results = {target.name: target.directory for target in targets if target.directory is not None}
    if not results:
        names = ", ".join(target.name for target in targets)
        raise BadInput(f"plot: only result directories have curves, got only configs: {names}")
    labels = label_all([target for target in targets if target.directory is not None])
    runs = [(label, read_series(directory)) for label, directory in zip(labels, results.values(), strict=True)]
    known = list(dict.fromkeys(metric for _, series in runs for metric in series))
    if not known:
        names = ", ".join(list(results)[:3])
        raise BadInput(f"plot: no numbers yet in the logs of {names}. A run writes them with its first snapshot")
    return [_make_panel(metric, match_metrics(metric, known), runs) for metric in metrics or _default_metrics(known)]


def _default_metrics(known: Sequence[str]) -> list[str]:
    """All losses; the first metric if there are none."""
    main = main_metrics(known) or list(known)
    losses = [metric for metric in main if metric.rpartition(".")[2] == _DEFAULT_METRIC]
    return losses or main[:1]


def _make_panel(name: str, metrics: Sequence[str], runs: Sequence[tuple[str, Mapping[str, Series]]]) -> Panel:
    lines = []
    for run, series in runs:
        for metric in metrics:
            if metric in series:
                label = run if len(metrics) == 1 else f"{run} {metric.rpartition('.')[0]}".strip()
                lines.append(Line(label, series[metric].steps, series[metric].values))
    return Panel(metrics[0] if len(metrics) == 1 else name, lines)
