"""Tells policies when an epoch starts and ends: an epoch offline, an hour with data online. A policy that serves
several settings is told once.

Frees the rows of hash tables that have expired, every few URIs. How often changes no bit of the result: an expired
row is reset at its next use, swept or not.

Snapshots by the clock: at the end of a URI, when so many seconds have passed. Last of all callbacks.
"""

import time
from collections.abc import Callable, Iterable
from typing import Any

from samovar.policies import EarlyStopping, Policy
from samovar.results import OpenResult
from samovar.runner import Callback, Run


class PolicyClock(Callback):
    def on_uri_begin(self, run: Run) -> None:
        uri = run.uri
        assert uri is not None
        if uri.is_epoch_begin:
            _tell_all(run.policies.values(), lambda policy: policy.epoch_started(uri.epoch))

    def on_uri_end(self, run: Run) -> None:
        uri = run.uri
        assert uri is not None
        if not uri.is_epoch_end:
            return
        losses, run.epoch_losses = run.epoch_losses, []
        if losses:
            _tell_all(
                run.policies.values(),
                lambda policy: policy.epoch_finished(uri.epoch, train_losses=losses, metrics=run.metrics),
            )


def _tell_all(policies: Iterable[Policy], tell: Callable[[Policy], None]) -> None:
    """Who wants to stop the run does not keep the others from hearing of it."""
    stopping: EarlyStopping | None = None
    for policy in {id(each): each for each in policies}.values():
        try:
            tell(policy)
        except EarlyStopping as wish:
            stopping = stopping or wish
    if stopping is not None:
        raise stopping


class TtlFilter(Callback):
    def __init__(self, frequency: int = 1) -> None:
        self._frequency = frequency

    def on_uri_end(self, run: Run) -> None:
        if run.next_uri % self._frequency == 0:
            sweep(run)

    def on_run_end(self, run: Run) -> None:
        sweep(run)  # the final model holds no expired row


def sweep(run: Run) -> int:
    """Gives the number of rows that were freed."""
    return sum(tables.sweep() for tables in run.hash_tables)


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
