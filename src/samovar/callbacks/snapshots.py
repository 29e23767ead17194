"""Saves snapshots at the ends of URIs. Knows neither what is in a state nor how a result directory keeps it."""

import time
from collections.abc import Callable
from typing import Any

from samovar.results import OpenResult
from samovar.runner import Callback, Run

DEFAULT_SECONDS = 600.0


class Snapshotter(Callback):
    """Saves a snapshot at the end of a URI if enough time has passed, and whenever the run stops or ends early.

    Put it after all callbacks whose state it saves; only a publication may follow. How often it saves does not change
    the result.

    Args:
        result: The open result directory.
        every_seconds: The least time between two snapshots; 0 saves after every URI.
        clock: Seconds that only increase.
        state: What to save; by default the whole state of the run.

    Example:
        >>> snapshotter = Snapshotter(result, every_seconds=60)
        >>> snapshot = result.restore()
        >>> if snapshot is not None:
        ...     run.load_state_dict(snapshot.tree)
        >>> Runner(pool, loader, [snapshotter]).run(run, uris)
    """

    def __init__(
        self,
        result: OpenResult,
        every_seconds: float = DEFAULT_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        state: Callable[[Run], Any] = Run.state_dict,
    ) -> None:
        self._result = result
        self._every_seconds = every_seconds
        self._clock = clock
        self._state = state
        self._saved_at = clock()
        self._saved_uri: int | None = None

    @property
    def age_seconds(self) -> float:
        """How old the newest snapshot is; before the first one, the time since the run began."""
        return self._clock() - self._saved_at

    def on_run_begin(self, run: Run) -> None:
        self._saved_at = self._clock()

    def on_uri_end(self, run: Run) -> None:
        is_last = run.stop_reason is not None or run.end_reason is not None
        if is_last or self.age_seconds >= self._every_seconds:
            self.save(run)

    def save(self, run: Run) -> None:
        """Save now, unless this state is already saved.

        Args:
            run: The live state of the loop.
        """
        if self._saved_uri == run.next_uri:
            return
        self._result.save(self._state(run), run.position)
        self._saved_uri = run.next_uri
        self._saved_at = self._clock()
