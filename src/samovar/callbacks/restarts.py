"""Restarts: the initial rate and a fresh optimizer, when the countdown says so."""

from samovar.callbacks.plateau import Plateau
from samovar.runner import Callback, Run


class Restarts(Callback):
    """Comes after the `Plateau` that it listens to. Hash tables keep the state of their rows: it lives with the ids."""

    def __init__(self, plateau: Plateau) -> None:
        self._plateau = plateau

    def on_uri_end(self, run: Run) -> None:
        if self._plateau.verdict != "restart":
            return
        self._plateau.factor.value = 1.0
        for optimizer in run.optimizers.values():
            reset = getattr(optimizer, "reset", None)
            if reset is not None:
                reset()
            elif hasattr(optimizer, "state"):
                optimizer.state.clear()
