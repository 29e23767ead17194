"""Ends a run in order when there was no progress for too long."""

from samovar.callbacks.plateau import Plateau
from samovar.policies import EarlyStopping
from samovar.runner import Callback, Run


class EarlyStop(Callback):
    """Comes after the `Plateau` that it listens to."""

    def __init__(self, plateau: Plateau) -> None:
        self._plateau = plateau

    def on_uri_end(self, run: Run) -> None:
        if self._plateau.verdict == "stop":
            raise EarlyStopping(f"no progress for {self._plateau.countdown.patience} epochs")
