"""The numbers in a run's metrics log: series, last values, and which metric a short name means. Knows Samovar's own
lines, and takes any other line whose values are numbers.

A metric's full name is `loss` for training, `next_hour+1h.auc` for an evaluation with a shift, `valid.click.auc` for
an output with a name, `policies.lr` for a section. Its short name is any end of that after a dot: `auc`, `lr`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from samovar.config.records import as_finite
from samovar.config.values import did_you_mean, nearest, suggest
from samovar.errors import BadInput
from samovar.results import ResultDirectory
from samovar.results.artifacts import METRICS_LOG, read_live_log, read_log, read_log_end
from samovar.scoring.metric_names import COUNTS, MEANS, NAMES, badness, metric_prefix

_STEPS = ("uri", "step", "iteration", "epoch", "hour")
"""The position of a line: the first of these that it has as a number, else its number in the log."""
_COUNTS = frozenset({*_STEPS, "shift", "k", "num_batches", *COUNTS})
_SIDE_SECTIONS = ("policies.", "new_ids.", "live_ids.")
"""Sections of a line that are shown only on request."""
REDUCTIONS = ("last", "mean", "min", "max", "best")


@dataclass
class Series:
    """All values of one metric in one run."""

    is_hourly: bool
    """Whether each value is of other data: an evaluation of an hour, not one more of the same table."""
    steps: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)
    """How many examples each value was measured on."""

    def reduce(self, reduction: str, metric: str = "") -> float:
        """One of `REDUCTIONS`; the mean is over all examples. The best value of a metric whose direction is not known
        is the last."""
        if reduction == "best" and knows_direction(metric):
            return min(self.values, key=lambda value: badness_of(metric, value))
        if reduction == "min":
            return min(self.values)
        if reduction == "max":
            return max(self.values)
        total = sum(self.weights)
        if reduction == "mean" and total > 0:
            return sum(value * weight for value, weight in zip(self.values, self.weights, strict=True)) / total
        return self.values[-1]


LOSS = "loss"


def badness_of(metric: str, value: float) -> float:
    """Lower is better, for a metric by its full name. The loss of training is best when it is least."""
    name = metric.rpartition(".")[2]
    return value if name == LOSS else badness(name, value)


def knows_direction(metric: str) -> bool:
    """Whether it is known which values of a metric are better."""
    name = metric.rpartition(".")[2]
    return name == LOSS or name.partition("@")[0] in NAMES


def read_series(directory: ResultDirectory, *, has_shifts: bool = True) -> dict[str, Series]:
    """By metric. Without shifts, evaluations of any later hour are one metric: `next_hour.auc`."""
    return _collect(read_log(directory.store, METRICS_LOG), has_shifts)


@dataclass(frozen=True)
class LiveSeries:
    """What a run has measured up to this moment.

    Attributes:
        series: All values by metric.
        num_open: By metric, how many of the last values are not in a snapshot yet.
    """

    series: dict[str, Series]
    num_open: dict[str, int]


def read_live_series(directory: ResultDirectory) -> LiveSeries:
    """The series of a run with the lines that it has written since its newest snapshot.

    Example:
        >>> live = read_live_series(open_directory("models/click_1"))
        >>> live.series["loss"].values, live.num_open
        ([1.0, 0.25], {})
    """
    log = read_live_log(directory.store, METRICS_LOG)
    series = _collect([*log.sealed, *log.open], has_shifts=True)
    return LiveSeries(series, dict(Counter(metric for line in log.open for metric, _ in _metrics_of(line))))


def _collect(lines: Iterable[Mapping[str, Any]], has_shifts: bool) -> dict[str, Series]:
    found: dict[str, Series] = {}
    for number, line in enumerate(lines):
        step = next((float(line[key]) for key in _STEPS if _is_number(line.get(key))), float(number))
        weight = float(line["num_examples"]) if _is_number(line.get("num_examples")) else 1.0
        for metric, value in _metrics_of(line, has_shifts):
            series = found.setdefault(
                metric, Series(line.get("kind") == "evaluation" and not line.keys().isdisjoint({"hour", "shift"}))
            )
            series.steps.append(step)
            series.values.append(value)
            series.weights.append(weight)
    return found


def read_reductions(directory: ResultDirectory) -> dict[str, dict[str, float]]:
    """By metric, its value by each of `REDUCTIONS`; `best` only if it is known which values are better."""
    return {
        metric: {
            reduction: series.reduce(reduction, metric)
            for reduction in REDUCTIONS
            if reduction != "best" or knows_direction(metric)
        }
        for metric, series in read_series(directory).items()
    }


def read_last(directory: ResultDirectory) -> dict[str, float]:
    """The last value of each metric."""
    newest = {_shape(line): line for line in read_log_end(directory.store, METRICS_LOG)}
    return {metric: value for line in newest.values() for metric, value in _metrics_of(line)}


def _shape(line: Mapping[str, Any]) -> tuple[object, ...]:
    """Lines of the same shape have the same metrics."""
    what = (line.get("name"), line.get("shift"), line.get("output")) if line.get("kind") == "evaluation" else ()
    return (line.get("kind"), *what, *line)


def _metrics_of(line: Mapping[str, Any], has_shifts: bool = True) -> Iterator[tuple[str, float]]:
    """The numbers of a line by name."""
    kind = line.get("kind")
    if kind in ("end", "best"):
        return
    prefix = ""
    if kind == "evaluation":
        prefix = metric_prefix(line, has_shifts)
    yield from _numbers(line, prefix)


def _numbers(section: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, float]]:
    for key, value in section.items():
        if isinstance(value, dict):
            yield from _numbers(value, f"{prefix}{key}.")
        elif _is_number(value) and key not in _COUNTS:
            yield f"{prefix}{key}", float(value)


def _is_number(value: Any) -> bool:
    return as_finite(value) is not None


def main_metrics(metrics: Iterable[str]) -> list[str]:
    """Those to show if none is asked for."""
    return [
        metric for metric in metrics if not metric.startswith(_SIDE_SECTIONS) and metric.rpartition(".")[2] not in MEANS
    ]


def find_metrics(name: str, metrics: Sequence[str]) -> list[str]:
    """The metric of that full name, else all of that short name: `auc` is `next_hour+1h.auc`."""
    return [name] if name in metrics else [metric for metric in metrics if metric.endswith(f".{name}")]


def match_metrics(name: str, metrics: Sequence[str]) -> list[str]:
    """As `find_metrics`; an error if there is none."""
    found = find_metrics(name, metrics)
    if found:
        return found
    guess = did_you_mean(nearest(name, {*metrics, *(metric.rpartition(".")[2] for metric in metrics)})) or "."
    raise BadInput(f"no run has a metric {name!r}{guess} Available: {', '.join(metrics) or 'none'}")


def match_metric(name: str, metrics: Sequence[str]) -> str:
    """The one metric of that full or short name."""
    found = match_metrics(name, metrics)
    if len(found) > 1:
        raise BadInput(f"metric {name!r} is ambiguous: {', '.join(found)}. Use the full name")
    return found[0]


def split_reduction(column: str) -> tuple[str, str | None]:
    """`ahead.auc:max` is the metric `ahead.auc`, reduced by `max`; None where the column does not say."""
    name, _, reduction = column.partition(":")
    if reduction and reduction not in REDUCTIONS:
        raise BadInput(f"{column!r}: no reduction {reduction!r}{suggest(reduction, REDUCTIONS)}")
    return name, reduction or None
