"""Stops a run from outside, or because it diverged. How a run ends without progress is in `schedule`."""

import math
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import torch
from rich.console import Console

from samovar.errors import Diverged
from samovar.runner import Callback, Run
from samovar.signals import StopRequest

STOP_FILE = "stop"


class StopFile(Callback):
    """Stops the run after the current URI when a file named `stop` appears in its directory.

    Call `remove` once the run has stopped, so that the next start continues it.

    Args:
        folder: The directory to look in.

    Example:
        >>> from pathlib import Path
        >>> callback = StopFile(Path("model"))  # stop it with: touch model/stop
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / STOP_FILE

    def on_uri_end(self, run: Run) -> None:
        if self._path.exists():
            run.stop(f"found the file {self._path}")

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)


class Signals(Callback):
    """Stops the run after the current URI at the first SIGTERM or SIGINT, and at once at the second.

    It listens while its `with` block runs.

    Args:
        console: Where to announce the stop; None announces nothing.

    Example:
        >>> with Signals() as signals:
        ...     Runner(pool, loader, [signals]).run(run, uris)
    """

    def __init__(self, console: Console | None = None) -> None:
        self.request = StopRequest()
        """For other loops that must end at a signal, such as one that waits for data."""
        self._console = console
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._stack.enter_context(self.request.asking())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def on_batch_end(self, run: Run) -> None:
        """Announce the stop here, because a signal handler must not print."""
        if self._console is not None and self.request.count and run.uri is not None:
            self._console.print(
                f"{self.request.reason}: stopping after {run.uri.name} with a snapshot; send it again to stop at once",
                markup=False,
            )
            self._console = None

    def on_uri_end(self, run: Run) -> None:
        if self.request.count:
            run.stop(self.request.reason)


class NanGuard(Callback):
    """Fails the run when a loss or a weight is NaN or infinite, before a snapshot saves it.

    Raises:
        Diverged: At the minibatch or the URI where it happened.

    Example:
        >>> Runner(pool, loader, [NanGuard()]).run(run, uris)
    """

    def on_batch_end(self, run: Run) -> None:
        assert run.uri is not None
        if run.loss is not None and not math.isfinite(run.loss):
            raise Diverged(
                f"{run.uri.name}, minibatch {len(run.losses) - 1}: the loss is {run.loss}. Lower the learning rate or "
                "check the inputs; the last good snapshot is kept"
            )

    def on_uri_end(self, run: Run) -> None:
        assert run.uri is not None
        for name, weights in run.model.named_parameters():
            if not bool(torch.isfinite(weights).all()):
                raise Diverged(
                    f"{run.uri.name}: the weights {name!r} are not finite. Lower the learning rate or clip the "
                    "gradients; the last good snapshot is kept"
                )
