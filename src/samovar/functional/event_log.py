"""The TensorBoard file in the `log_path` of `train_model`: loss, policies and metrics, one step per epoch.

A run with checkpoints has one file, named after its checkpoint folder. The checkpoint holds its length, and anything
written after that is cut off. Files of other runs are never touched.
"""

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from samovar.callbacks.logs import run_scalars
from samovar.native import hash_bytes
from samovar.results.event_file import ScalarWriter
from samovar.runner import Callback, Run

FILE_NAME = "events.tfevents"


class EventLog(Callback):
    """Checkpoints hold the state of this callback by the name of the class."""

    def __init__(self, folder: Path, checkpoints: Path | None, clock: Callable[[], float] = time.time) -> None:
        self._folder = folder
        self._is_resumable = checkpoints is not None
        self._name = FILE_NAME if checkpoints is None else _file_name_for(checkpoints, folder)
        self._size_bytes = 0
        self._writer = ScalarWriter(self._append, clock)

    @property
    def _path(self) -> Path:
        return self._folder / self._name

    def on_run_begin(self, run: Run) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        if not self._is_resumable:
            number = 1
            while self._path.exists():  # it belongs to an earlier run
                self._name, number = f"events.{number}.tfevents", number + 1
        self._path.touch()
        if self._path.stat().st_size < self._size_bytes:  # the file was removed: start a new one
            self._size_bytes = 0
        os.truncate(self._path, self._size_bytes)
        if self._size_bytes == 0:
            self._writer.begin()

    def on_uri_end(self, run: Run) -> None:
        assert run.uri is not None
        self._writer.write(run.uri.epoch, [(tag, _as_float(value)) for tag, value in run_scalars(run, run.metrics)])

    def _append(self, data: bytes) -> None:
        with self._path.open("ab") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        self._size_bytes += len(data)

    def state_dict(self) -> dict[str, Any]:
        return {"name": self._name, "size": self._size_bytes}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._name, self._size_bytes = state["name"], state["size"]


def _file_name_for(checkpoints: Path, folder: Path) -> str:
    """One name per checkpoint folder, known before the first checkpoint. It depends on the relative path only, so that
    a run writes the same files anywhere."""
    relative = os.path.relpath(checkpoints.resolve(), folder.resolve())
    return f"events.{hash_bytes(relative.encode()):016x}.tfevents"


def _as_float(value: Any) -> float | None:
    """A tensor or a numpy number counts too."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return None
