"""The pool that eats minibatches: forward, loss, backward, update. Knows no URIs and no callbacks.

A step is done when `train` returns: nothing is ever in flight when callbacks run. Reading ahead is the loader's work.
"""

from typing import Any

import torch

from samovar.errors import BadInput
from samovar.runner.hash_tables import find_hash_tables
from samovar.runner.learner import Learner
from samovar.runner.record import MinibatchRecord
from samovar.runner.settings import Settings
from samovar.runner.uri import Uri


class MinibatchWorkerPool:
    """Trains a learner, minibatch by minibatch."""

    def __init__(self, learner: Learner) -> None:
        self.learner = learner
        self.settings = Settings(learner.named_policies, learner.named_optimizers)
        self._optimizers = list(learner.named_optimizers.values())
        self._hash_tables = find_hash_tables(learner.model)

    def begin(self, uri: Uri) -> None:
        """The clocks of hash tables count the URIs that have data."""
        if uri.num_batches > 0:
            for tables in self._hash_tables:
                tables.advance_clock()

    def train(self, record: MinibatchRecord) -> float:
        """One step; gives the loss."""
        arguments = self.settings.apply()
        for optimizer in self._optimizers:
            optimizer.zero_grad()
        output = self.learner.model(record.inputs)
        loss = self.learner.loss(output, record.targets, **arguments)
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
            raise BadInput(
                f"loss: gave {_describe(loss)}; expected a tensor with one number: take its mean or sum in the loss"
            )
        loss.backward()  # type: ignore[no-untyped-call]  # torch gives it no types
        for optimizer in self._optimizers:
            optimizer.step()
        return float(loss.item())

    def drain(self) -> None:
        """Wait until nothing is in flight. Gradients of the last step are given back."""
        for optimizer in self._optimizers:
            optimizer.zero_grad()


class PredictionPool:
    """Applies a frozen learner: the same loop with another step."""

    def __init__(self, learner: Learner) -> None:
        self.learner = learner
        self.prediction: Any = None
        """Of the last minibatch."""

    def begin(self, uri: Uri) -> None:
        """A frozen model does not count."""

    def train(self, record: MinibatchRecord) -> float | None:
        with torch.no_grad():
            self.prediction = self.learner.predict(self.learner.model(record.inputs))
        return None

    def drain(self) -> None:
        self.prediction = None


def _describe(value: object) -> str:
    return f"a tensor of shape {list(value.shape)}" if isinstance(value, torch.Tensor) else type(value).__name__
