"""A net and a criterion as the loop takes them: the learner, and the step that only judges."""

from collections.abc import Callable, Mapping
from typing import Any

import torch

from samovar import seeds
from samovar.callbacks.evaluation import frozen
from samovar.runner import Callback, Learner, Loader, MinibatchRecord, Run, Runner, Stream, Uri
from samovar.runner.uri import UriList


class NetOfInputs(torch.nn.Module):
    """Calls a net with its inputs one after the other."""

    def __init__(self, net: torch.nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, inputs: Mapping[str, Any]) -> Any:
        return self.net(*inputs.values())


class CriterionLoss:
    """A criterion as the loss of a learner; its state goes into snapshots."""

    def __init__(self, criterion: Any) -> None:
        self.criterion = criterion

    def __call__(self, output: Any, targets: Mapping[str, Any], unscaled: bool = False) -> torch.Tensor:
        loss: torch.Tensor = self.criterion(output, targets["target"], weights=targets["weights"], unscaled=unscaled)
        return loss

    def state_dict(self) -> dict[str, Any]:
        ask = getattr(self.criterion, "state_dict", None)
        return {} if ask is None else dict(ask())

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if state:
            self.criterion.load_state_dict(state)


class JudgePool:
    """The unscaled loss of each minibatch; nothing is learned."""

    def __init__(self, learner: Learner) -> None:
        self._learner = learner

    def begin(self, uri: Uri) -> None:
        """A frozen net does not count."""

    def train(self, record: MinibatchRecord) -> float:
        with torch.no_grad():
            output = self._learner.model(record.inputs)
            return float(self._learner.loss(output, record.targets, unscaled=True))

    def drain(self) -> None:
        """Nothing is in flight."""


class Validation(Callback):
    """After each epoch, the loss of the held-out part; the same loop with another step."""

    def __init__(self, learner: Learner, stream_of: Callable[[int], Stream], seed: int) -> None:
        self._learner = learner
        self._stream_of = stream_of
        self._seed = seed
        self.loss: float | None = None
        """Of the last epoch."""

    def on_uri_end(self, run: Run) -> None:
        assert run.uri is not None
        self.loss = self.measure(run.uri.epoch)
        is_finite = self.loss is not None and self.loss - self.loss == 0
        run.metrics["evaluation"] = [{"name": "valid", "loss": self.loss if is_finite else None}]

    def measure(self, epoch: int) -> float | None:
        stream = self._stream_of(epoch)
        judged = Run(self._learner, {})
        uri = Uri(0, f"validation of epoch {epoch}", stream, 0, stream.num_batches, 0)
        with frozen(self._learner.model, seeds.derive(self._seed, "validation", epoch)), Loader([], []) as loader:
            Runner(JudgePool(self._learner), loader).run(judged, UriList([uri]))
        return judged.mean_loss
