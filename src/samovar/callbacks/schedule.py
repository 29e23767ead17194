"""How rates change during a run: policies by the epoch, and what happens when the loss no longer improves.

A `Countdown` counts epochs without progress; it knows no runs. The callbacks act on its verdict:

    progress   reference - loss > 0.005 · |reference|, where reference is the loss at the last progress;
               the first finite loss is progress, NaN never is
    p          epochs of patience; s = epochs since progress. The first line that holds is the verdict:

               s = p                    stop       EarlyStop ends the run
               s = ⌈p/5⌉                restart    Restarts resets the rate and the optimizers
               s a multiple of ⌈p/3⌉    cut        Plateau multiplies the rate by 0.618
"""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeAlias

from samovar.policies import EarlyStopping, Policy
from samovar.runner import Callback, Run
from samovar.runner.schedules import advance

PROGRESS = 0.005
GOLDEN = 0.618

Verdict: TypeAlias = Literal["progress", "stop", "restart", "cut", "wait"]


class PolicyClock(Callback):
    """Calls `epoch_started` and `epoch_finished` of every policy of the run, and moves on the schedulers by epoch.

    An epoch is an epoch offline, and an hour with data online. A policy under several names is called once.

    Example:
        >>> from samovar.policies import Exponential
        >>> lr = Exponential(0.1, multiplier=0.5)
        >>> Runner(pool, loader, [PolicyClock()]).run(Run(learner, {"lr": lr}), uris)
        >>> lr.value  # 0.1 in epoch 0, halved in each of the epochs 1 to 4
        0.00625
    """

    def on_uri_begin(self, run: Run) -> None:
        uri = run.uri
        assert uri is not None
        if uri.is_epoch_begin:
            _notify_all(run.policies.values(), lambda policy: policy.epoch_started(uri.epoch))

    def on_uri_end(self, run: Run) -> None:
        uri = run.uri
        assert uri is not None
        if not uri.is_epoch_end:
            return
        losses, run.epoch_losses = run.epoch_losses, []
        if losses:
            for scheduler in run.learner.named_schedulers.get("epoch", ()):
                advance(scheduler, sum(losses) / len(losses))
            _notify_all(
                run.policies.values(),
                lambda policy: policy.epoch_finished(uri.epoch, train_losses=losses, metrics=run.metrics),
            )


def _notify_all(policies: Iterable[Policy], notify: Callable[[Policy], None]) -> None:
    """Notify every policy, even if one of them stops the run."""
    stopping: EarlyStopping | None = None
    for policy in {id(each): each for each in policies}.values():
        try:
            notify(policy)
        except EarlyStopping as error:
            stopping = stopping or error
    if stopping is not None:
        raise stopping


class Countdown:
    """Counts epochs without progress and says what follows from them.

    Args:
        patience: Epochs without progress after which to stop.
        with_restarts: Whether to restart when a fifth of the patience has passed.
        least: The part of the reference by which a loss must be lower to be progress.

    Example:
        >>> countdown = Countdown(patience=3, with_restarts=False)
        >>> for loss in (1.0, 0.9, 0.9, 0.9):
        ...     print(loss, countdown.see(loss))
        1.0 progress
        0.9 progress
        0.9 cut
        0.9 cut
        >>> countdown.see(0.9)
        'stop'
    """

    def __init__(self, patience: int, with_restarts: bool = True, least: float = PROGRESS) -> None:
        self.patience = patience
        self.with_restarts = with_restarts
        self.least = least
        self.reference: float | None = None
        """The loss at the last progress."""
        self.since_progress = 0
        """Epochs since then."""

    def see(self, loss: float) -> Verdict:
        """What follows from the loss of one more epoch.

        Args:
            loss: The loss.
        """
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
        return self.reference is None or self.reference - loss > self.least * abs(self.reference)

    def state_dict(self) -> dict[str, Any]:
        """How far it has counted."""
        return {"reference": self.reference, "since_progress": self.since_progress}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state.

        Args:
            state: What `state_dict` returned.
        """
        self.reference, self.since_progress = state["reference"], state["since_progress"]


def default_patience(num_epochs: int) -> int:
    """15 % of the epochs, rounded up, and at least 3: one epoch without progress is no reason to stop."""
    return max(3, -(-15 * num_epochs // 100))


class RateFactor(Policy):
    """A policy that multiplies the rate. Give it to the learner as `lr_factor`; a `Plateau` changes its value.

    Attributes:
        value: The factor, 1 at first.

    Example:
        >>> factor = RateFactor()
        >>> learner = Learner(model, optimizer, loss, policies={"lr_factor": factor})
        >>> factor.value
        1.0
    """

    def __init__(self) -> None:
        self.value = 1.0


class Plateau(Callback):
    """Cuts the learning rate by the golden ratio when the loss no longer improves.

    Add `Restarts` and `EarlyStop` after it if you want them: they act on its verdict.

    Args:
        countdown: Judges the loss of each URI.
        factor: The policy that multiplies the rate.
        measure: Returns the loss to judge; by default the train loss of the URI.

    Example:
        >>> factor, countdown = RateFactor(), Countdown(patience=8)
        >>> plateau = Plateau(countdown, factor)
        >>> learner = Learner(
        ...     model, optimizer, loss, policies={"lr_factor": factor},
        ...     callbacks=[plateau, Restarts(plateau), EarlyStop(plateau)],
        ... )
    """

    def __init__(
        self, countdown: Countdown, factor: RateFactor, measure: Callable[[Run], float | None] | None = None
    ) -> None:
        self.countdown = countdown
        self.factor = factor
        self.verdict: Verdict = "wait"
        """On the last URI."""
        self._measure = measure or (lambda run: run.mean_loss)

    def on_uri_end(self, run: Run) -> None:
        loss = self._measure(run)
        if loss is None and not run.losses:  # an hour without data
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
    """Returns to the initial rate and to fresh optimizers when the countdown of a `Plateau` says so.

    Hash tables keep the optimizer state of their embedding rows, because it lives with the ids.

    Args:
        plateau: The callback that judges the loss; it must come earlier in the list.

    Example:
        >>> plateau = Plateau(Countdown(patience=8), RateFactor())
        >>> callbacks = [plateau, Restarts(plateau)]
    """

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
    """Ends the run when the countdown of a `Plateau` says so.

    Args:
        plateau: The callback that judges the loss; it must come earlier in the list.

    Example:
        >>> plateau = Plateau(Countdown(patience=8), RateFactor())
        >>> callbacks = [plateau, EarlyStop(plateau)]
    """

    def __init__(self, plateau: Plateau) -> None:
        self._plateau = plateau

    def on_uri_end(self, run: Run) -> None:
        if self._plateau.verdict == "stop":
            raise EarlyStopping(f"no progress for {self._plateau.countdown.patience} epochs")
