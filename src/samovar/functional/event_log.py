"""TensorBoard's file in `log_path`: losses, values of policies and metrics, a step an epoch.

A run with checkpoints has one file, named after its folder. Its length belongs to the checkpoint, and what was written
after that is cut off. Files of other runs are never touched.
"""

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from samovar.native import hash_bytes
from samovar.results.event_file import scalar_record, version_record
from samovar.runner import Callback, Run

NAME = "events.tfevents"


class EventLog(Callback):
    def __init__(self, folder: Path, checkpoints: Path | None, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._folder = folder
        self._is_resumable = checkpoints is not None
        self._name = NAME if checkpoints is None else _name_for(checkpoints, folder)
        self._size = 0

    @property
    def _path(self) -> Path:
        return self._folder / self._name

    def on_run_begin(self, run: Run) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        if not self._is_resumable:
            number = 1
            while self._path.exists():  # of an earlier run: it is kept
                self._name, number = f"events.{number}.tfevents", number + 1
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
        return {"name": self._name, "size": self._size}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._name, self._size = state["name"], state["size"]


def _name_for(checkpoints: Path, folder: Path) -> str:
    """Another one for each folder of checkpoints, and the same again for a run that was killed before its first. Where
    both lie together does not count: a run gives the same bytes anywhere."""
    way = os.path.relpath(checkpoints.resolve(), folder.resolve())
    return f"events.{hash_bytes(way.encode()):016x}.tfevents"


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True
