"""Curves of many runs, put together by metric: what a plot shows, before anybody draws it."""

from collections.abc import Sequence
from dataclasses import dataclass

from samovar.errors import BadInput
from samovar.runs.diff import label_all
from samovar.runs.find import Target
from samovar.runs.summary import Curve, main_metrics, match_metrics, read_curves
from samovar.runs.terminal import Line

_USUAL = "loss"


@dataclass(frozen=True)
class Panel:
    """One picture: all runs and evaluations that have a metric of that name."""

    metric: str
    lines: Sequence[Line]


@dataclass(frozen=True)
class _Run:
    label: str
    curves: dict[str, Curve]


def make_panels(targets: Sequence[Target], wanted: Sequence[str] = ()) -> list[Panel]:
    """One for each metric that is wanted; losses when none is named. Configs without a result have no curves."""
    with_results = [target for target in targets if target.directory is not None]
    if not with_results:
        raise BadInput(
            f"plot: found only configs ({', '.join(target.name for target in targets)}); expected directories of runs, "
            "which have logs: name those"
        )
    labels = label_all(with_results)
    runs = [
        _Run(label, read_curves(target.directory))
        for label, target in zip(labels, with_results, strict=True)
        if target.directory is not None
    ]
    names = list(dict.fromkeys(name for run in runs for name in run.curves))
    if not names:
        raise BadInput(
            f"plot: the logs of {', '.join(target.name for target in with_results[:3])} hold no numbers yet; expected "
            "logs/metrics.jsonl: a run has one from its first snapshot on"
        )
    return [_panel(metric, match_metrics(metric, names), runs) for metric in wanted or _usual(names)]


def _usual(names: Sequence[str]) -> list[str]:
    """Losses; or, of logs that have none, the first metric."""
    main = main_metrics(names) or list(names)
    losses = [name for name in main if name.rpartition(".")[2] == _USUAL]
    return losses or main[:1]


def _panel(metric: str, names: Sequence[str], runs: Sequence[_Run]) -> Panel:
    lines = []
    for run in runs:
        for name in names:
            if name in run.curves:
                label = run.label if len(names) == 1 else f"{run.label} {name.rpartition('.')[0]}".strip()
                lines.append(Line(label, run.curves[name].steps, run.curves[name].values))
    return Panel(names[0] if len(names) == 1 else metric, lines)
