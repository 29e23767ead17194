"""The logs of a run. They read the run and change nothing.

logs/metrics.jsonl                 what was learned and how good it is: one line per URI and one per evaluation.
                                   It contains no times, so a run that was killed writes the same bytes

    {"kind": "train", "uri": 3, "name": "2021-01-01T03:00", "loss": …, "policies": {…}, "metrics": {…}}
    {"kind": "evaluation", "uri": 3, "name": …, "hour": …, "shift": …, "model_hour": …, "auc": …, "log_loss": …, …}
                                   one line per output, with "output", if a model has several
    {"kind": "best", "uri": 3, "epoch": …, "trained": …, "metric": "valid.log_loss", "value": …}   at the end, offline

logs/timing.jsonl                  times and speeds, and the memory of hash tables, which depends on when expired
                                   embedding rows are freed. It is never compared
logs/tensorboard/events.tfevents   the numbers of the metrics log, one step per URI. Until the run is finished they are
                                   in logs/tensorboard/events/, one segment per snapshot; TensorBoard shows both

To log a number of your own, put it into `run.metrics` in a callback: `run.metrics["weight_norm"] = 1.5`. NaN and
infinity are left out, because JSON has neither.
"""

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

from samovar.callbacks.watching import evaluations_of
from samovar.results import OpenResult
from samovar.results.artifacts import EVENTS_LOG, METRICS_LOG, TIMING_LOG
from samovar.results.event_file import ScalarWriter
from samovar.runner import Callback, Run
from samovar.runner.schedules import scheduled_rates
from samovar.scoring.metric_names import lag_of, metrics_of


class MetricsLog(Callback):
    """Writes `logs/metrics.jsonl`: one line per URI and one per evaluation.

    Args:
        result: The open result directory.
        has_training: Whether to write a line per URI; a prediction has only evaluations.

    Example:
        >>> Runner(pool, loader, [MetricsLog(result)]).run(run, uris)
    """

    def __init__(self, result: OpenResult, has_training: bool = True) -> None:
        self._result = result
        self._has_training = has_training
        self._new_ids: dict[str, int] = {}
        """Until the end of the last URI."""

    def on_run_begin(self, run: Run) -> None:
        self._new_ids = _count_new_ids(run)

    def on_uri_end(self, run: Run) -> None:
        if self._has_training:
            self._result.append(METRICS_LOG, self._train_line(run))
        self._append_evaluations(run)

    def on_run_end(self, run: Run) -> None:
        self._append_evaluations(run)
        if run.end_reason is not None:
            self._result.append(METRICS_LOG, {"kind": "end", "uri": run.next_uri - 1, "reason": run.end_reason})

    def _train_line(self, run: Run) -> dict[str, Any]:
        uri = run.uri
        assert uri is not None
        line: dict[str, Any] = {"kind": "train", "uri": uri.number, "name": uri.name, "epoch": uri.epoch}
        if uri.hour is not None:
            line["hour"] = uri.period.show(uri.hour)
        line |= {"num_batches": len(run.losses), "num_examples": sum(run.uri_examples), "loss": _plain(run.mean_loss)}
        if values := {name: _plain(value) for name, value in _rates(run)}:
            line["policies"] = values
        if metrics := _metrics_of(run):
            line["metrics"] = metrics
        if run.hash_tables:
            before, self._new_ids = self._new_ids, _count_new_ids(run)
            line["new_ids"] = {name: count - before.get(name, 0) for name, count in self._new_ids.items()}
            live: Counter[str] = Counter()
            for tables in run.hash_tables:
                live.update(tables.count_live())
            line["live_ids"] = dict(live)
        return line

    def _append_evaluations(self, run: Run) -> None:
        for measured in evaluations_of(run):
            self._result.append(METRICS_LOG, {"kind": "evaluation", "uri": run.next_uri - 1, **measured})


def _metrics_of(run: Run) -> dict[str, int | float]:
    """The numbers that callbacks left for the logs."""
    return {name: number for name, value in run.metrics.items() if (number := _plain(value)) is not None}


def _count_new_ids(run: Run) -> dict[str, int]:
    """New and revived ids so far, by table. Their sum does not depend on when expired embedding rows are freed.

    Tables of the same name in several embeddings are counted together.
    """
    counts: Counter[str] = Counter()
    for tables in run.hash_tables:
        for name, counters in tables.counters().items():
            counts[name] += counters.inserted + counters.reset
    return dict(counts)


def _plain(number: Any) -> Any:
    """A number that JSON can hold; None for anything else, NaN and infinity included."""
    if isinstance(number, bool | int):
        return number
    try:
        plain = float(number)
    except (TypeError, ValueError):
        return None
    return plain if math.isfinite(plain) else None


class TimingLog(Callback):
    """Writes `logs/timing.jsonl`: one line per URI.

    Args:
        result: The open result directory.
        num_uris: How many URIs the run has, for those who look how far it is; None if it has no last one.
        clock: Seconds since 1970.

    Example:
        >>> Runner(pool, loader, [TimingLog(result)]).run(run, uris)
    """

    def __init__(self, result: OpenResult, num_uris: int | None = None, clock: Callable[[], float] = time.time) -> None:
        self._result = result
        self._num_uris = num_uris
        self._clock = clock
        self._began_at = self._trained_at = clock()

    def on_uri_begin(self, run: Run) -> None:
        self._began_at = self._trained_at = self._clock()

    def on_batch_end(self, run: Run) -> None:
        self._trained_at = self._clock()

    def on_uri_end(self, run: Run) -> None:
        assert run.uri is not None
        now = self._clock()
        examples, train_seconds = sum(run.uri_examples), self._trained_at - self._began_at
        line: dict[str, Any] = {
            "uri": run.uri.number,
            "num_uris": self._num_uris,
            "name": run.uri.name,
            "time": datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds"),
            "train_seconds": round(train_seconds, 6),
            "callback_seconds": round(now - self._trained_at, 6),
            "examples_per_second": round(examples / train_seconds, 1) if train_seconds > 0 else None,
        }
        for tables in run.hash_tables:
            for name, counters in tables.counters().items():
                sums = line.setdefault("hash_tables", {}).setdefault(name, Counter())
                sums.update(rows=counters.rows, freed=counters.freed, bytes=counters.bytes)
        self._result.append(TIMING_LOG, line)


class TensorBoard(Callback):
    """Writes the numbers of the metrics log for TensorBoard: `tensorboard --logdir MODEL/logs`.

    Args:
        result: The open result directory.
        clock: Seconds since 1970.

    Example:
        >>> Runner(pool, loader, [TensorBoard(result)]).run(run, uris)
    """

    def __init__(self, result: OpenResult, clock: Callable[[], float] = time.time) -> None:
        self._writer = ScalarWriter(partial(result.append_bytes, EVENTS_LOG), clock)

    def on_run_begin(self, run: Run) -> None:
        if run.next_uri == 0:
            self._writer.begin()

    def on_uri_end(self, run: Run) -> None:
        assert run.uri is not None
        self._writer.write(run.uri.number, [*run_scalars(run, _metrics_of(run)), *_evaluation_scalars(run)])

    def on_run_end(self, run: Run) -> None:
        self._writer.write(max(run.next_uri - 1, 0), _evaluation_scalars(run))


def run_scalars(run: Run, metrics: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The curves that every run has, as (tag, value)."""
    yield "train/loss", run.mean_loss
    for name, value in _rates(run):
        yield f"policies/{name}", value
    for name, value in metrics.items():
        yield f"metrics/{name}", value


def _rates(run: Run) -> Iterator[tuple[str, Any]]:
    """The values of policies, and the rates that schedulers set."""
    yield from ((name, policy.value) for name, policy in run.policies.items() if hasattr(policy, "value"))
    yield from scheduled_rates(run.learner).items()


def _evaluation_scalars(run: Run) -> Iterator[tuple[str, Any]]:
    for measured in evaluations_of(run):
        output = f" {measured['output']}" if "output" in measured else ""
        lag = f" +{lag_of(measured)}" if "shift" in measured else ""
        for metric, value in metrics_of(measured).items():
            yield f"{metric}/{measured['name']}{output}{lag}", value
