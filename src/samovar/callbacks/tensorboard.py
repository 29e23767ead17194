"""`logs/tensorboard/events.tfevents`: the numbers of the metrics log as TensorBoard draws them, a step a URI.

Until the finish it is a segment a snapshot, in `logs/tensorboard/events/`: `tensorboard --logdir DIR/logs` shows both.
"""

import time
from collections.abc import Callable
from typing import Any

from samovar.callbacks.event_file import scalar_record, version_record
from samovar.callbacks.metrics_log import evaluations_of, metrics_of
from samovar.results import OpenResult
from samovar.runner import Callback, Run

LOG = "tensorboard/events.tfevents"
_QUALITIES = ("loss", "auc", "log_loss", "calibration")


class TensorBoard(Callback):
    def __init__(self, result: OpenResult, clock: Callable[[], float] = time.time) -> None:
        self._result = result
        self._clock = clock

    def on_run_begin(self, run: Run) -> None:
        if run.next_uri == 0:
            self._result.append_bytes(LOG, version_record())

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
            self._result.append_bytes(LOG, scalar_record(tag, step, float(value), self._clock()))
