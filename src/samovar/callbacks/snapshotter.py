"""Snapshots by the clock: at the end of a URI, when so many seconds have passed. Last of all callbacks."""

import time
from collections.abc import Callable
from typing import Any

from samovar.results import OpenResult
from samovar.runner import Callback, Run

DEFAULT_SECONDS = 600.0


class Snapshotter(Callback):
    """How often it saves changes nothing in the result; it has no state."""

    def __init__(
        self,
        result: OpenResult,
        frequency: float = DEFAULT_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        state: Callable[[Run], Any] = Run.state_dict,
    ) -> None:
        self._result = result
        self._state = state
        self._frequency = frequency
        self._clock = clock
        self._saved_at = clock()
        self._saved_uri: int | None = None

    @property
    def age_seconds(self) -> float:
        return self._clock() - self._saved_at

    def on_run_begin(self, run: Run) -> None:
        self._saved_at = self._clock()

    def on_uri_end(self, run: Run) -> None:
        is_last = run.stop_reason is not None or run.end_reason is not None
        if is_last or self.age_seconds >= self._frequency:
            self.save(run)

    def save(self, run: Run) -> None:
        """Now, unless this very state was just saved."""
        if self._saved_uri == run.next_uri:
            return
        self._result.save(self._state(run), run.position)
        self._saved_uri = run.next_uri
        self._saved_at = self._clock()
