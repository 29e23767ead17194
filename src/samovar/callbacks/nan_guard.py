"""Stops a run whose loss or weights are no finite numbers any more, before a snapshot keeps them."""

import math

import torch

from samovar.errors import Diverged
from samovar.runner import Callback, Run


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
