"""Stops a run in order when somebody puts a file named `stop` into its directory."""

from pathlib import Path

from samovar.runner import Callback, Run

NAME = "stop"


class StopFile(Callback):
    """The file is removed when it was obeyed, after the snapshot, so that the next start goes on."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME

    def on_uri_end(self, run: Run) -> None:
        if self._path.exists():
            run.stop(f"there was a file {self._path}")

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)
