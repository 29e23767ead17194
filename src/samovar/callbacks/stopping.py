"""Stops a run from outside, or because it diverged. How a run ends without progress is in `schedule`."""

import logging
import math
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import torch

from samovar.errors import Diverged
from samovar.runner import Callback, Run
from samovar.signals import StopRequest

logger = logging.getLogger(__name__)

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
        """Remove the file, so that the run can continue."""
        self._path.unlink(missing_ok=True)


class Signals(Callback):
    """Stops the run after the current URI at the first SIGTERM or SIGINT, and at once at the second.

    It listens while its `with` block runs, and logs that the run will stop.

    Example:
        >>> with Signals() as signals:
        ...     Runner(pool, loader, [signals]).run(run, uris)
    """

    def __init__(self) -> None:
        self.request = StopRequest()
        """For other loops that must end at a signal, such as one that waits for data."""
        self._is_announced = False
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
        if self.request.count and not self._is_announced and run.uri is not None:
            self._is_announced = True
            logger.warning(
                "%s: stopping after %s with a snapshot; send it again to stop at once",
                self.request.reason,
                run.uri.name,
            )

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
                f"{run.uri.name}, minibatch {len(run.losses) - 1}: the loss is {run.loss}. {_find_reason(run)}; the "
                "last good snapshot is kept"
            )

    def on_uri_end(self, run: Run) -> None:
        assert run.uri is not None
        for name, weights in run.model.named_parameters():
            if not bool(torch.isfinite(weights).all()):
                raise Diverged(
                    f"{run.uri.name}: the weights {name!r} are not finite. Lower the learning rate or clip the "
                    "gradients; the last good snapshot is kept"
                )


def _find_reason(run: Run) -> str:
    """The first value of the minibatch that is not finite, with its place; else what helps in general."""
    assert run.uri is not None
    assert run.record is not None
    place = run.uri.stream.place_of(run.uri.first + len(run.losses) - 1)
    for what, columns in (("input", run.record.inputs), ("target", run.record.targets)):
        for name, values in columns.items():
            if not isinstance(values, torch.Tensor) or not values.is_floating_point():
                continue
            rows = (~torch.isfinite(values)).reshape(len(values), -1).any(1).nonzero()
            if len(rows):
                row = int(rows[0])
                bad = next(value for value in values[row].reshape(-1).tolist() if not math.isfinite(value))
                return f"The {what} {name!r} is {bad} in row {row} of {place}. Correct it in the source and brew again"
    return "Lower the learning rate or clip the gradients"
