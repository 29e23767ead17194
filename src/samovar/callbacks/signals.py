"""SIGTERM and SIGINT: the first stops after the current URI, with a snapshot; the second stops at once."""

import os
import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self

from samovar.errors import Stopped
from samovar.runner import Callback, Run

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Signals(Callback):
    """Listens between `__enter__` and `__exit__`, and only in the main thread: others get no signals."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        """Set by the first signal; who waits for data waits for this too."""
        self.reason: str | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._hear) for number in SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self.asked.is_set():
            os._exit(Stopped.exit_code)  # at once: a stuck reader or model would never let an exception through
        self.reason = signal.Signals(number).name
        self.asked.set()

    def on_uri_end(self, run: Run) -> None:
        if self.reason is not None:
            run.stop(self.reason)
