"""What a brew reports: how far it is while it runs, and what it counted. Draws nothing.

copying rows: rows, if they are in memory ─▶ scanning sources: bytes ─▶ counting rows, for several parts: rows
    ─▶ sorting: percent, or rows ─▶ writing: rows                    on Spark: scanning and sorting in tasks
"""

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Phase = Literal["starting", "copying rows", "scanning sources", "counting rows", "sorting", "writing"]
Unit = Literal["bytes", "rows", "percent", "tasks"]


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


_NO_PIVOTS = np.zeros(0, np.uint64)


@dataclass
class BrewCounts:
    """What a brew counted.

    Example:
        >>> from samovar.brewing import brew_recipe
        >>> recipe = {"source": "clicks.csv", "columns": {"user": "id"}, "batch_size": 64}
        >>> brew_recipe(recipe, "users_counted", progress=False).counts.num_rows
        200
    """

    num_rows: int = 0
    """Rows of the source that are in the table."""
    num_batches: int = 0
    """Minibatches of the table."""
    num_short_batches: int = 0
    """Minibatches with fewer rows than `batch_size`."""
    num_spanning_pivots: int = 0
    """Groups whose pivot also occurs in the granule before: rows of one pivot that are not kept together."""
    num_zeroed: Counter[str] = field(default_factory=Counter)
    """Nulls that became zeros, per real-valued column."""
    first_pivots: NDArray[np.uint64] = field(default_factory=lambda: _NO_PIVOTS, repr=False, compare=False)
    """The hashes of the pivots in the first granule, sorted."""
    last_pivots: NDArray[np.uint64] = field(default_factory=lambda: _NO_PIVOTS, repr=False, compare=False)
    """Those in the last granule."""

    def add(self, other: "BrewCounts") -> None:
        """Add what was counted in the rows that come next.

        Args:
            other: The counts of those rows.
        """
        self.num_spanning_pivots += other.num_spanning_pivots + len(
            np.intersect1d(self.last_pivots, other.first_pivots)
        )
        self.first_pivots = other.first_pivots if self.num_rows == 0 else self.first_pivots
        self.last_pivots = other.last_pivots
        self.num_rows += other.num_rows
        self.num_batches += other.num_batches
        self.num_short_batches += other.num_short_batches
        self.num_zeroed.update(other.num_zeroed)
