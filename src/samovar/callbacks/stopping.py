"""Stops a run from outside, or because it diverged. How a run ends without progress is in `schedule`."""

import logging
import math
import time
from contextlib import ExitStack
from types import TracebackType
from typing import Self

import torch

from samovar.config.places import PathLike
from samovar.errors import Diverged
from samovar.runner import Callback, Run
from samovar.signals import StopRequest
from samovar.store import open_store

logger = logging.getLogger(__name__)

_REMOTE_SECONDS = 10.0
STOP_FILE = "stop"


class StopFile(Callback):
    """Stops the run after the current URI when a file named `stop` appears in its directory.

    Call `remove` once the run has stopped, so that the next start continues it.

    Args:
        place: The path or URL of the directory to look in. An object store is asked every ten seconds.

    Example:
        >>> callback = StopFile("model")  # stop it with: touch model/stop
    """

    def __init__(self, place: PathLike) -> None:
        self._store = open_store(place)
        self.name = f"{self._store.name}/{STOP_FILE}"
        self._seconds = 0.0 if self._store.can_map else _REMOTE_SECONDS
        self._next_look = 0.0

    def on_uri_end(self, run: Run) -> None:
        if self.is_there():
            run.stop(f"found the file {self.name}")

    def is_there(self) -> bool:
        """Whether the file is there, as far as is known."""
        now = time.monotonic()
        if now < self._next_look:
            return False
        self._next_look = now + self._seconds
        return self._store.size(STOP_FILE) is not None

    def remove(self) -> None:
        """Remove the file, so that the run can continue."""
        self._store.remove(STOP_FILE)


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
            # A sum that is finite shows it in a fifth of the time; one that is not may only be a large number.
            if not math.isfinite(float(weights.detach().sum())) and not bool(torch.isfinite(weights).all()):
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
