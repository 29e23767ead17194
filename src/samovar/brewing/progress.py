"""How far a brewing is. Written by who works, read by a thread that shows it; draws nothing itself.

fingerprinting: bytes ─▶ learning types ─▶ sorting: percent, or rows ─▶ writing: rows
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Phase = Literal["starting", "fingerprinting sources", "learning types", "sorting", "writing"]
Unit = Literal["bytes", "rows", "percent"]


@dataclass(frozen=True)
class State:
    phase: Phase = "starting"
    done: float = 0
    total: float | None = None
    """None where it is not known."""
    unit: Unit = "rows"


class Progress:
    """The state of one brewing."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._state = State()
        self._ask: Callable[[], float] | None = None
        self.num_sorted_rows = 0
        """Rows that went into the sort through our own reader."""

    def begin(
        self,
        phase: Phase,
        total: float | None = None,
        unit: Unit = "rows",
        ask: Callable[[], float] | None = None,
    ) -> None:
        """Enter a phase. `ask` tells how much is done, where somebody else counts; negative means not known yet. It is
        never called again after another phase has begun, or `ask_no_more`."""
        with self._lock:
            self._state, self._ask = State(phase, 0, total, unit), ask

    def ask_no_more(self) -> None:
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
