"""How long there was no progress, and what follows from it. Pure counting: knows no runs.

progress   reference - loss > 0.005 · |reference|; the reference is the loss at the last progress
           the first finite loss is progress, NaN never
p          epochs of patience; s = epochs since progress. The first that holds:
           s = p ─▶ stop     s = ⌈p/5⌉ ─▶ restart     s a multiple of ⌈p/3⌉ ─▶ cut the rate
"""

import math
from typing import Any, Literal, TypeAlias

Verdict: TypeAlias = Literal["progress", "stop", "restart", "cut", "wait"]
PROGRESS = 0.005


class Countdown:
    def __init__(self, patience: int, with_restarts: bool = True) -> None:
        self.patience = patience
        self.with_restarts = with_restarts
        self.reference: float | None = None
        self.since_progress = 0

    def see(self, loss: float) -> Verdict:
        """What the loss of one more epoch leads to."""
        if self._is_progress(loss):
            self.reference, self.since_progress = loss, 0
            return "progress"
        self.since_progress += 1
        if self.since_progress == self.patience:
            return "stop"
        if self.with_restarts and self.since_progress == -(-self.patience // 5):
            return "restart"
        return "cut" if self.since_progress % -(-self.patience // 3) == 0 else "wait"

    def _is_progress(self, loss: float) -> bool:
        if not math.isfinite(loss):
            return False
        return self.reference is None or self.reference - loss > PROGRESS * abs(self.reference)

    def state_dict(self) -> dict[str, Any]:
        return {"reference": self.reference, "since_progress": self.since_progress}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.reference, self.since_progress = state["reference"], state["since_progress"]


def default_patience(num_epochs: int) -> int:
    """15 % of the epochs, rounded up."""
    return -(-15 * num_epochs // 100)
