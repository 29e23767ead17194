"""TensorBoard's file in `log_path`: losses, values of policies and metrics, a step an epoch.

A run with checkpoints has one file. Its length belongs to the checkpoint, and what was written after that is cut off.
"""

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from samovar.callbacks.event_file import scalar_record, version_record
from samovar.runner import Callback, Run

NAME = "events.tfevents"


class EventLog(Callback):
    def __init__(self, folder: Path, is_resumable: bool, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._folder = folder
        self._is_resumable = is_resumable
        self._path = folder / NAME
        self._size = 0

    def on_run_begin(self, run: Run) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        if not self._is_resumable:
            number = 1
            while self._path.exists():  # of an earlier run: it is kept
                self._path, number = self._folder / f"events.{number}.tfevents", number + 1
        self._path.touch()
        if self._path.stat().st_size < self._size:  # it was removed: the curve begins anew here
            self._size = 0
        os.truncate(self._path, self._size)
        if self._size == 0:
            self._append(version_record())

    def on_uri_end(self, run: Run) -> None:
        assert run.uri is not None
        losses = {"train/loss": run.mean_loss}
        values = {f"policies/{name}": getattr(each, "value", None) for name, each in run.policies.items()}
        metrics = {f"metrics/{name}": value for name, value in run.metrics.items()}
        records = [
            scalar_record(tag, run.uri.epoch, float(value), self._clock())
            for tag, value in {**losses, **values, **metrics}.items()
            if _is_number(value)
        ]
        self._append(b"".join(records))

    def _append(self, data: bytes) -> None:
        with self._path.open("ab") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        self._size += len(data)

    def state_dict(self) -> dict[str, Any]:
        return {"size": self._size}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._size = state["size"]


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True
