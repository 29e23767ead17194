"""What a brew reports: how far it is while it runs, and what it counted. Draws nothing.

copying rows: rows, if they are in memory ─▶ scanning sources: bytes ─▶ sorting: percent, or rows ─▶ writing: rows
"""

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

Phase = Literal["starting", "copying rows", "scanning sources", "sorting", "writing"]
Unit = Literal["bytes", "rows", "percent"]


@dataclass(frozen=True)
class State:
    phase: Phase = "starting"
    done: float = 0
    total: float | None = None
    """None if it is not known."""
    unit: Unit = "rows"


class Progress:
    """The state of one brew. The working thread writes it, another one reads and shows it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._state = State()
        self._ask: Callable[[], float] | None = None

    def begin(
        self,
        phase: Phase,
        total: float | None = None,
        unit: Unit = "rows",
        ask: Callable[[], float] | None = None,
    ) -> None:
        """Enter a phase. `ask` returns how much is done if something else counts it; a negative number means that it is
        not known yet. It is not called after the next `begin` or `stop_asking`."""
        with self._lock:
            self._state, self._ask = State(phase, 0, total, unit), ask

    def stop_asking(self) -> None:
        with self._lock:
            self._ask = None

    def reach(self, done: float) -> None:
        with self._lock:
            self._state = State(self._state.phase, done, self._state.total, self._state.unit)

    def advance(self, more: float) -> None:
        self.reach(self._state.done + more)

    @property
    def state(self) -> State:
        with self._lock:
            if self._ask is None:
                return self._state
            return State(self._state.phase, max(0, self._ask()), self._state.total, self._state.unit)


@dataclass
class BrewCounts:
    """What a brew counted."""

    num_rows: int = 0
    num_batches: int = 0
    num_short_batches: int = 0
    """Minibatches with fewer rows than `batch_size`."""
    num_spanning_pivots: int = 0
    """Groups whose pivot also occurs in the granule before: rows of one pivot that are not kept together."""
    num_zeroed: Counter[str] = field(default_factory=Counter)
    """Nulls that became zeros, per real-valued column."""
