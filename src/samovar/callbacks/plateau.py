"""Cuts the learning rate by the golden ratio when there is no progress. The first of the three that share a countdown:
it looks at the loss, `Restarts` and `EarlyStop` come after it."""

import math
from collections.abc import Callable, Mapping
from typing import Any

from samovar.callbacks.countdown import Countdown, Verdict
from samovar.policies import Policy
from samovar.runner import Callback, Run

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
