"""Rules on the metrics of evaluations: which epoch is best, when to stop, when to lower the rate. Knows no config.

evaluation/<name>/uri000004.parquet   predictions after URI 4, until the run ends; only of the last and the best
best/000004/…                         the state after URI 4, if it is the best so far
── when the run ends ──▶
evaluation/<name>/predictions.parquet   of the last          best/…                          the best state
                                                             evaluation/<name>/best.parquet  its predictions
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from samovar.callbacks.schedule import Countdown, RateFactor
from samovar.errors import BadInput
from samovar.policies import EarlyStopping
from samovar.results import OpenResult
from samovar.results.artifacts import BEST, METRICS_LOG
from samovar.results.state import ARRAYS_FILE, TREE_FILE
from samovar.runner import Callback, Run
from samovar.scoring.metric_names import MAIN, badness, metric_prefix, metrics_of

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class WatchedMetric:
    """A metric of an evaluation that a rule looks at.

    Args:
        name: Its full name, such as `valid.auc`, `valid.click.auc` or `next_hour+1h.auc`.
        direction: Whether the least or the greatest value is best. None: it follows the metric.
        key: The config key that names it, for messages.

    Example:
        >>> run.metrics["evaluation"] = [{"name": "valid", "num_examples": 8, "auc": 0.75}]
        >>> WatchedMetric("valid.auc").read(run)
        0.75
    """

    name: str
    direction: Literal["min", "max"] | None = None
    key: str = "metric"

    def read(self, run: Run) -> float | None:
        """Its value after this URI; None if it was not measured, or is not defined.

        Args:
            run: The live state of the loop.

        Raises:
            BadInput: The evaluation does not have it: the task has other metrics.
        """
        return self.find(evaluations_of(run))

    def find(self, evaluations: Iterable[Mapping[str, Any]]) -> float | None:
        """Its value in the lines of evaluations; see `read`.

        Args:
            evaluations: Lines of the metrics log, of one epoch or hour.

        Raises:
            BadInput: The evaluations do not measure it.
        """
        lines = [line for line in evaluations if self.name.startswith(metric_prefix(line))]
        available = _by_full_name(lines)
        if self.name in available or not any(line["num_examples"] for line in lines):
            return available.get(self.name)
        raise BadInput(f"{self.key}: {self.name!r} is not measured. Available: {', '.join(available) or 'none'}")

    def is_in(self, evaluations: Iterable[Mapping[str, Any]]) -> bool:
        """Whether one of them has it, defined or not.

        Args:
            evaluations: Lines of the metrics log, of one epoch or hour.
        """
        return self.name in _by_full_name(evaluations)

    def badness(self, value: float) -> float:
        """A number that is lower the better the value is.

        Args:
            value: A value of the metric.
        """
        return badness(self.name.rpartition(".")[2], value, self.direction)


def _by_full_name(lines: Iterable[Mapping[str, Any]]) -> dict[str, float | None]:
    return {f"{metric_prefix(line)}{metric}": value for line in lines for metric, value in _shown(line)}


def _shown(line: Mapping[str, Any]) -> Sequence[tuple[str, float | None]]:
    return list(metrics_of(line).items())


def evaluations_of(run: Run) -> list[dict[str, Any]]:
    """What was evaluated after this URI. A callback of the user may use the name for a number."""
    found = run.metrics.get("evaluation")
    return found if isinstance(found, list) else []


class MetricStop(Callback):
    """Ends the run when a metric makes no more progress.

    Args:
        metric: What to look at, whenever it is measured.
        countdown: How many evaluations without progress are too many, and what progress is.

    Example:
        >>> callback = MetricStop(WatchedMetric("valid.auc"), Countdown(patience=3, with_restarts=False, least=0))
        >>> Runner(pool, loader, [callback]).run(run, uris)
    """

    def __init__(self, metric: WatchedMetric, countdown: Countdown) -> None:
        self._metric = metric
        self._countdown = countdown

    def on_uri_end(self, run: Run) -> None:
        value = self._metric.read(run)
        if value is not None and self._countdown.see(self._metric.badness(value)) == "stop":
            raise EarlyStopping(f"no progress of {self._metric.name} in {self._countdown.patience} evaluations")

    def state_dict(self) -> Mapping[str, Any]:
        return self._countdown.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._countdown.load_state_dict(dict(state))


class MetricPlateau(Callback):
    """Multiplies the learning rate when a metric makes no more progress, and counts again.

    Args:
        metric: What to look at, whenever it is measured.
        countdown: How many evaluations without progress are too many, and what progress is.
        rate: The policy `lr_factor` of the learner.
        factor: What to multiply it by.

    Example:
        >>> countdown = Countdown(patience=2, with_restarts=False, least=0)
        >>> callback = MetricPlateau(WatchedMetric("valid.rmse"), countdown, RateFactor(), factor=0.5)
        >>> Runner(pool, loader, [callback]).run(run, uris)
    """

    def __init__(self, metric: WatchedMetric, countdown: Countdown, rate: RateFactor, factor: float) -> None:
        self._metric = metric
        self._countdown = countdown
        self._rate = rate
        self._factor = factor

    def on_uri_end(self, run: Run) -> None:
        value = self._metric.read(run)
        if value is not None and self._countdown.see(self._metric.badness(value)) == "stop":
            self._rate.value *= self._factor
            self._countdown.since_progress = 0

    def state_dict(self) -> Mapping[str, Any]:
        return self._countdown.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._countdown.load_state_dict(dict(state))


@dataclass(frozen=True)
class Best:
    """The best evaluation so far."""

    uri: int
    epoch: int
    trained: str
    metric: str
    value: float


class BestEpoch(Callback):
    """Keeps the state and the predictions of the best evaluation, and the predictions of the last.

    Put it right before the snapshotter, so that the state includes what all others did.

    Args:
        result: The open result directory.
        names: Of the evaluations.
        metric: What says which is best. None: the main metric of the first evaluation, `log_loss` if it has one.
        num_uris: How many URIs the run has: if it is evaluated only after the last, there is nothing to choose.

    Example:
        >>> Runner(pool, loader, [BestEpoch(result, ["valid"], WatchedMetric("valid.auc"), 5)]).run(run, uris)
    """

    def __init__(
        self, result: OpenResult, names: Sequence[str], metric: WatchedMetric | None, num_uris: int | None
    ) -> None:
        self._result = result
        self._names = names
        self._metric = metric
        self._num_uris = num_uris
        self._num_evaluations = 0
        self._last: int | None = None
        self._best: Best | None = None

    def on_uri_end(self, run: Run) -> None:
        if evaluations_of(run):
            self._look(run, is_last=run.end_reason is not None or run.next_uri == self._num_uris)

    def _look(self, run: Run, is_last: bool) -> None:
        uri, before = run.next_uri - 1, [self._last, None if self._best is None else self._best.uri]
        self._num_evaluations += 1
        self._last = uri
        found = self._judge(run)
        if found is not None:
            self._drop_state()
            self._best = found
            if self._num_evaluations > 1 or not is_last:
                self._result.write_state(_state_folder(uri), run.state_dict(is_final=True))
        kept = (self._last, None if self._best is None else self._best.uri)
        for old in {each for each in before if each is not None and each not in kept}:
            self._drop_predictions(old)

    def _judge(self, run: Run) -> Best | None:
        """This evaluation, if it is better than all before."""
        metric = self._metric = self._metric or _main_metric(evaluations_of(run))
        value = None if metric is None else metric.read(run)
        if metric is None or value is None:
            return None
        if self._best is not None and metric.badness(value) >= metric.badness(self._best.value):
            return None
        line = evaluations_of(run)[0]
        return Best(run.next_uri - 1, line["epoch"], line["trained"], metric.name, value)

    def on_run_end(self, run: Run) -> None:
        if evaluations_of(run):  # after the last URI, which was not due
            self._look(run, is_last=True)
        best, last = self._best, self._last
        if best is not None and self._num_evaluations > 1:
            self._result.append(METRICS_LOG, {"kind": "best", **asdict(best)})
            logger.info("best: %s, %s = %.6g", best.trained, best.metric, best.value)
            for file in (TREE_FILE, ARRAYS_FILE):
                self._result.copy(f"{_state_folder(best.uri)}/{file}", f"{BEST}/{file}")
            for name in self._names:
                self._result.copy(prediction_path(name, best.uri), f"evaluation/{name}/best.parquet")
        self._drop_state()
        for name in self._names:
            if last is not None:
                self._result.copy(prediction_path(name, last), prediction_path(name, None))
        for uri in {each for each in (last, None if best is None else best.uri) if each is not None}:
            self._drop_predictions(uri)
        self._num_evaluations, self._last, self._best = 0, None, None  # the final model has no use for them

    def _drop_state(self) -> None:
        if self._best is not None:
            for file in (TREE_FILE, ARRAYS_FILE):
                self._result.drop(f"{_state_folder(self._best.uri)}/{file}")

    def _drop_predictions(self, uri: int) -> None:
        for name in self._names:
            self._result.drop(prediction_path(name, uri))

    def state_dict(self) -> Mapping[str, Any]:
        if self._last is None:
            return {}
        metric = None if self._metric is None else self._metric.name
        best = None if self._best is None else asdict(self._best)
        return {"num_evaluations": self._num_evaluations, "last": self._last, "metric": metric, "best": best}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._num_evaluations, self._last = state.get("num_evaluations", 0), state.get("last")
        if self._metric is None and state.get("metric") is not None:
            self._metric = WatchedMetric(state["metric"])
        self._best = Best(**state["best"]) if state.get("best") is not None else None


def prediction_path(name: str, uri: int | None) -> str:
    """Where the predictions after a URI are; None: those of the last, when the run has ended."""
    return f"evaluation/{name}/{'predictions' if uri is None else f'uri{uri:06d}'}.parquet"


def _state_folder(uri: int) -> str:
    return f"{BEST}/{uri:06d}"


def _main_metric(lines: Sequence[Mapping[str, Any]]) -> WatchedMetric | None:
    for line in lines:
        for main in MAIN.get(line.get("task", ""), ()):
            for metric, value in _shown(line):
                if metric.partition("@")[0] == main and value is not None:
                    return WatchedMetric(f"{metric_prefix(line)}{metric}")
    return None
