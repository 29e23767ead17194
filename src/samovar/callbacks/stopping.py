"""How long there was no progress, and what follows from it. Pure counting: knows no runs.

progress   reference - loss > 0.005 · |reference|; the reference is the loss at the last progress
           the first finite loss is progress, NaN never
p          epochs of patience; s = epochs since progress. The first that holds:
           s = p ─▶ stop     s = ⌈p/5⌉ ─▶ restart     s a multiple of ⌈p/3⌉ ─▶ cut the rate

Cuts the learning rate by the golden ratio when there is no progress. The first of the three that share a countdown:
it looks at the loss, `Restarts` and `EarlyStop` come after it.

Restarts: the initial rate and a fresh optimizer, when the countdown says so.

Ends a run in order when there was no progress for too long.

Stops a run in order when somebody puts a file named `stop` into its directory.

Stops a run whose loss or weights are no finite numbers any more, before a snapshot keeps them.

SIGTERM and SIGINT: the first stops after the current URI, with a snapshot; the second stops at once.
"""

import math
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias

import torch
from rich.console import Console

from samovar.errors import Diverged
from samovar.policies import EarlyStopping, Policy
from samovar.runner import Callback, Run
from samovar.signals import StopRequest

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


GOLDEN = 0.618


class RateFactor(Policy):
    """Multiplies the rate: give it to the learner as the policy `lr_factor`."""

    def __init__(self) -> None:
        self.value = 1.0


class Plateau(Callback):
    """`measure(run)` gives the loss that progress is judged by: the train loss unless told otherwise."""

    def __init__(
        self, countdown: Countdown, factor: RateFactor, measure: Callable[[Run], float | None] | None = None
    ) -> None:
        self.countdown = countdown
        self.factor = factor
        self.verdict: Verdict = "wait"
        self._measure = measure or (lambda run: run.mean_loss)

    def on_uri_end(self, run: Run) -> None:
        loss = self._measure(run)
        if loss is None and not run.losses:  # an hour without rows says nothing
            self.verdict = "wait"
            return
        self.verdict = self.countdown.see(math.nan if loss is None else loss)
        if self.verdict == "cut":
            self.factor.value *= GOLDEN

    def state_dict(self) -> Mapping[str, Any]:
        return self.countdown.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.countdown.load_state_dict(dict(state))


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


class EarlyStop(Callback):
    """Comes after the `Plateau` that it listens to."""

    def __init__(self, plateau: Plateau) -> None:
        self._plateau = plateau

    def on_uri_end(self, run: Run) -> None:
        if self._plateau.verdict == "stop":
            raise EarlyStopping(f"no progress for {self._plateau.countdown.patience} epochs")


STOP_FILE = "stop"


class StopFile(Callback):
    """The file is removed when it was obeyed, after the snapshot, so that the next start goes on."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / STOP_FILE

    def on_uri_end(self, run: Run) -> None:
        if self._path.exists():
            run.stop(f"there was a file {self._path}")

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)


class NanGuard(Callback):
    def on_batch_end(self, run: Run) -> None:
        assert run.uri is not None
        if run.loss is not None and not math.isfinite(run.loss):
            raise Diverged(
                f"{run.uri.name}, minibatch {len(run.losses) - 1}: the loss is {run.loss}; expected a finite number: "
                "lower the learning rate or look at the inputs; the last good snapshot is kept"
            )

    def on_uri_end(self, run: Run) -> None:
        assert run.uri is not None
        for name, weights in run.model.named_parameters():
            if not bool(torch.isfinite(weights).all()):
                raise Diverged(
                    f"{run.uri.name}: the weights {name!r} are not finite; expected finite numbers: lower the learning "
                    "rate or clip gradients; the last good snapshot is kept"
                )


class Signals(Callback):
    """Listens between `__enter__` and `__exit__`."""

    def __init__(self, console: Console | None = None) -> None:
        self.request = StopRequest()
        """Who waits for data looks at this too."""
        self._console = console
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._stack.enter_context(self.request.asking())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def on_batch_end(self, run: Run) -> None:
        """Tells it here: in the midst of a signal nothing may be printed."""
        if self._console is not None and self.request.count and run.uri is not None:
            self._console.print(
                f"{self.request.reason}: stops after {run.uri.name}, with a snapshot; once more stops at once",
                markup=False,
            )
            self._console = None

    def on_uri_end(self, run: Run) -> None:
        if self.request.count:
            run.stop(self.request.reason)
