"""A net and a criterion as the loop takes them: the learner, and the step that only judges.

Minibatches of a data set as the loop reads them: made here, or by other processes. Knows no epochs.

Applying a net to a stream: the same loop with another step.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from rich.console import Console
from torch.utils.data import DataLoader, Dataset

from samovar import seeds
from samovar.callbacks import Progress
from samovar.data import BatchMaker
from samovar.data.batches import Batch
from samovar.errors import BadInput
from samovar.runner import Callback, Learner, Loader, MinibatchRecord, Run, Runner, Stream, Uri
from samovar.runner.step import PredictStep, frozen
from samovar.runner.stream import Minibatches
from samovar.runner.uri import UriList
from samovar.seeds import torch_generator


@dataclass(frozen=True, eq=False)
class DatasetStream(Stream):
    maker: BatchMaker
    order: torch.Tensor
    """The examples, one after the other."""
    batch_size: int
    first_number: int
    """What its first minibatch is in the whole run."""
    n_workers: int
    device: torch.device

    @property
    def num_batches(self) -> int:
        return -(-len(self.order) // self.batch_size)

    def open(self, first: int) -> Minibatches:
        # Arrays lie in memory: to send them between processes would only cost.
        is_alone = self.n_workers == 0 or self.maker.is_array
        batches = self._made_here(first) if is_alone else self._made_elsewhere(first)
        for number, batch in enumerate(batches, first):
            yield self._record(batch, number)

    def _made_here(self, first: int) -> Iterator[Batch]:
        for number in range(first, self.num_batches):
            yield self.make(number)

    def make(self, number: int) -> Batch:
        start = number * self.batch_size
        return self.maker.make(self.first_number + number, self.order[start : start + self.batch_size])

    def _made_elsewhere(self, first: int) -> Iterator[Batch]:
        loader: DataLoader[Any] = DataLoader(
            _Numbered(self),
            batch_size=None,
            sampler=range(first, self.num_batches),
            num_workers=self.n_workers,
            collate_fn=_as_it_is,
            generator=torch_generator(self.maker.seed, "workers"),  # else it draws from the model's generator
        )
        yield from loader

    def _record(self, batch: Batch, number: int) -> MinibatchRecord:
        inputs = {str(place): _move(value, self.device) for place, value in enumerate(batch.inputs)}
        targets = {"target": _move(batch.targets, self.device), "weights": _move(batch.weights, self.device)}
        return MinibatchRecord(inputs, targets, num_examples=batch.num_examples, number=number)


class _Numbered(Dataset[Any]):
    """Its items are whole minibatches."""

    def __init__(self, stream: DatasetStream) -> None:
        self._stream = stream

    def __getitem__(self, number: int) -> Batch:
        return self._stream.make(number)


def _as_it_is(batch: Any) -> Any:
    return batch


def _move(value: Any, device: torch.device) -> Any:
    if isinstance(value, torch.Tensor):
        return value if value.device == device else value.to(device)
    if isinstance(value, dict):
        return {name: _move(each, device) for name, each in value.items()}
    return value


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


class ValidationStep:
    """The unscaled loss of each minibatch; nothing is learned."""

    def __init__(self, learner: Learner) -> None:
        self._learner = learner

    def begin(self, uri: Uri) -> None:
        """A frozen net does not count."""

    def run(self, record: MinibatchRecord) -> float:
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
        with frozen(self._learner.model, seeds.derive(self._seed, "validation", epoch)), Loader() as loader:
            Runner(ValidationStep(self._learner), loader).run(judged, UriList([uri]))
        return judged.mean_loss


class _Collect(Callback):
    def __init__(self, pool: PredictStep) -> None:
        self._pool = pool
        self.predictions: list[np.ndarray[Any, Any]] = []

    def on_batch_end(self, run: Run) -> None:
        self.predictions.append(to_numpy(self._pool.prediction))


def predict_stream(
    net: torch.nn.Module, postproc: Callable[[Any], Any], stream: Stream, verbose: bool
) -> np.ndarray[Any, Any]:
    learner = Learner(NetOfInputs(net), [], lambda output, targets: output, predict=postproc)
    pool = PredictStep(learner)
    collect = _Collect(pool)
    uri = Uri(0, "prediction", stream, 0, stream.num_batches, 0)
    with ExitStack() as stack:
        shown: list[Callback] = []
        console = Console(stderr=True, highlight=False)
        if verbose and console.is_terminal:
            shown = [stack.enter_context(Progress(1, console=console))]
        stack.enter_context(frozen(net, 0))
        loader = stack.enter_context(Loader())
        Runner(pool, loader, [collect, *shown]).run(Run(learner, {}), UriList([uri]))
    return np.concatenate(collect.predictions)


def to_numpy(prediction: Any) -> np.ndarray[Any, Any]:
    if isinstance(prediction, torch.Tensor):
        array: np.ndarray[Any, Any] = prediction.detach().cpu().numpy()
        return array
    if isinstance(prediction, np.ndarray):
        return prediction
    raise BadInput(
        f"postproc: gave {type(prediction).__name__}; expected a tensor with an axis of examples: return one"
    )
