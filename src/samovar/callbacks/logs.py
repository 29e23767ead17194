"""`logs/metrics.jsonl`: what was learned and how good it is, a line a URI and a line an evaluation. No clock here:
a run that was killed writes the same bytes.

{"kind": "train", "uri": 3, "name": "2021-01-01T03:00", "num_batches": …, "num_examples": …, "loss": …, "policies": {…}}
{"kind": "evaluation", "uri": 3, "name": …, "hour": …, "shift": …, "model_hour": …, "auc": …, "log_loss": …, …}
    with "output" where a model has several, a line each

Numbers that a callback put into `run.metrics` stand in the line of their URI, as "metrics": {…}.

`logs/timing.jsonl`: when and how fast, and what depends on when expired rows are freed. Never compared.

`logs/tensorboard/events.tfevents`: the numbers of the metrics log as TensorBoard draws them, a step a URI.

Until the finish it is a segment a snapshot, in `logs/tensorboard/events/`: `tensorboard --logdir DIR/logs` shows both.
"""

import math
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from samovar.hours import show_hour
from samovar.results import OpenResult
from samovar.results.artifacts import EVENTS_LOG, METRICS_LOG, TIMING_LOG
from samovar.results.event_file import scalar_record, version_record
from samovar.runner import Callback, Run


class MetricsLog(Callback):
    def __init__(self, result: OpenResult, has_training: bool = True) -> None:
        self._result = result
        self._has_training = has_training
        self._ids_before: dict[str, int] = {}

    def on_uri_begin(self, run: Run) -> None:
        self._ids_before = count_new_ids(run)

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
            line["hour"] = show_hour(uri.hour)
        line |= {"num_batches": len(run.losses), "num_examples": sum(run.uri_examples), "loss": _plain(run.mean_loss)}
        values = {name: _plain(each.value) for name, each in run.policies.items() if hasattr(each, "value")}
        if values:
            line["policies"] = values
        if metrics := metrics_of(run):
            line["metrics"] = metrics
        if run.hash_tables:
            new = count_new_ids(run)
            line["new_ids"] = {name: count - self._ids_before.get(name, 0) for name, count in new.items()}
            live: Counter[str] = Counter()
            for tables in run.hash_tables:
                live.update(tables.count_live())
            line["live_ids"] = dict(live)
        return line

    def _append_evaluations(self, run: Run) -> None:
        for measured in evaluations_of(run):
            self._result.append(METRICS_LOG, {"kind": "evaluation", "uri": run.next_uri - 1, **measured})


def evaluations_of(run: Run) -> list[dict[str, Any]]:
    """What an evaluation has left for the logs; a callback's number may have that name too."""
    measurements = run.metrics.get("evaluation")
    return measurements if isinstance(measurements, list) else []


def metrics_of(run: Run) -> dict[str, int | float]:
    """The numbers that callbacks have left."""
    return {name: number for name, value in run.metrics.items() if (number := _plain(value)) is not None}


def count_new_ids(run: Run) -> dict[str, int]:
    """New and revived ids so far: together they do not depend on when expired rows are freed. Tables of one name, of
    several embeddings, count together."""
    counts: Counter[str] = Counter()
    for tables in run.hash_tables:
        for name, counters in tables.counters().items():
            counts[name] += counters.inserted + counters.reset
    return dict(counts)


def _plain(number: Any) -> Any:
    """A number as JSON can hold it; None for what is no finite number."""
    if isinstance(number, bool | int):
        return number
    try:
        plain = float(number)
    except (TypeError, ValueError):
        return None
    return plain if math.isfinite(plain) else None


class TimingLog(Callback):
    def __init__(self, result: OpenResult, clock: Callable[[], float] = time.time) -> None:
        self._result = result
        self._clock = clock
        self._begun = clock()
        self._trained = self._begun

    def on_uri_begin(self, run: Run) -> None:
        self._begun = self._trained = self._clock()

    def on_batch_end(self, run: Run) -> None:
        self._trained = self._clock()

    def on_uri_end(self, run: Run) -> None:
        assert run.uri is not None
        now = self._clock()
        examples, train_seconds = sum(run.uri_examples), self._trained - self._begun
        line: dict[str, Any] = {
            "uri": run.uri.number,
            "name": run.uri.name,
            "time": datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds"),
            "train_seconds": round(train_seconds, 6),
            "callback_seconds": round(now - self._trained, 6),
            "examples_per_second": round(examples / train_seconds, 1) if train_seconds > 0 else None,
        }
        for tables in run.hash_tables:
            for name, counters in tables.counters().items():
                sums = line.setdefault("hash_tables", {}).setdefault(name, Counter())
                sums.update(rows=counters.rows, freed=counters.freed, bytes=counters.bytes)
        self._result.append(TIMING_LOG, line)


_QUALITIES = ("loss", "auc", "log_loss", "calibration")


class TensorBoard(Callback):
    def __init__(self, result: OpenResult, clock: Callable[[], float] = time.time) -> None:
        self._result = result
        self._clock = clock

    def on_run_begin(self, run: Run) -> None:
        if run.next_uri == 0:
            self._result.append_bytes(EVENTS_LOG, version_record())

    def on_uri_end(self, run: Run) -> None:
        assert run.uri is not None
        step = run.uri.number
        self._scalar("train/loss", step, run.mean_loss)
        for name, policy in run.policies.items():
            self._scalar(f"policies/{name}", step, getattr(policy, "value", None))
        for name, value in metrics_of(run).items():
            self._scalar(f"metrics/{name}", step, value)
        self._evaluations(run, step)

    def on_run_end(self, run: Run) -> None:
        self._evaluations(run, max(run.next_uri - 1, 0))

    def _evaluations(self, run: Run, step: int) -> None:
        for measured in evaluations_of(run):
            output = f" {measured['output']}" if "output" in measured else ""
            lag = f" +{measured['shift']}h" if "shift" in measured else ""
            for quality in _QUALITIES:
                self._scalar(f"{quality}/{measured['name']}{output}{lag}", step, measured.get(quality))

    def _scalar(self, tag: str, step: int, value: Any) -> None:
        if isinstance(value, int | float):
            self._result.append_bytes(EVENTS_LOG, scalar_record(tag, step, float(value), self._clock()))
