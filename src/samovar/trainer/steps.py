"""A data set, a net and a criterion as the loop takes them: the stream, the learner, the steps that validate and
predict. Knows no epochs.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from samovar.notebook import can_draw
from samovar.runner import (
    Callback,
    Learner,
    Loader,
    MinibatchRecord,
    MinibatchWorkerPool,
    Run,
    Runner,
    Stream,
    Uri,
)
from samovar.runner.step import PredictStep, frozen
from samovar.runner.stream import Minibatches
from samovar.runner.uri import UriList
from samovar.seeds import torch_generator
from samovar.trainer.inputs import InputScales, check_finite


@dataclass(frozen=True, eq=False)
class DatasetStream(Stream):
    """The minibatches of a data set, made in this process or by workers."""

    maker: BatchMaker
    order: torch.Tensor
    """Indices of the examples, one after another."""
    batch_size: int
    first_number: int
    """The number of its first minibatch in the whole run."""
    n_workers: int
    device: torch.device
    num_ahead: int = 1
    """How many minibatches to make at once. More than one only if the model does not change what is made."""

    @property
    def num_batches(self) -> int:
        return -(-len(self.order) // self.batch_size)

    def open(self, first: int) -> Minibatches:
        # Slicing an array is faster than sending it between processes.
        is_local = self.n_workers == 0 or self.maker.is_array
        batches = self._make_here(first) if is_local else self._make_in_workers(first)
        for number, batch in enumerate(batches, first):
            yield self._record(batch, number)

    def _make_here(self, first: int) -> Iterator[Batch]:
        for number in range(first, self.num_batches, self.num_ahead):
            several = range(number, min(number + self.num_ahead, self.num_batches))
            yield from self.maker.make_several(self.first_number + number, [self.indices(each) for each in several])

    def make(self, number: int) -> Batch:
        return self.maker.make(self.first_number + number, self.indices(number))

    def indices(self, number: int) -> torch.Tensor:
        return self.order[number * self.batch_size : (number + 1) * self.batch_size]

    def _make_in_workers(self, first: int) -> Iterator[Batch]:
        loader: DataLoader[Any] = DataLoader(
            _BatchesByNumber(self),
            batch_size=None,
            sampler=range(first, self.num_batches),
            num_workers=self.n_workers,
            collate_fn=_identity,
            generator=torch_generator(self.maker.seed, "workers"),  # the default is the generator that the model uses
        )
        yield from loader

    def _record(self, batch: Batch, number: int) -> MinibatchRecord:
        inputs = {str(place): _move(value, self.device) for place, value in enumerate(batch.inputs)}
        targets = {"target": _move(batch.targets, self.device), "weights": _move(batch.weights, self.device)}
        return MinibatchRecord(inputs, targets, num_examples=batch.num_examples, number=number)


class _BatchesByNumber(Dataset[Any]):
    """A data set for workers whose items are whole minibatches."""

    def __init__(self, stream: DatasetStream) -> None:
        self._stream = stream

    def __getitem__(self, number: int) -> Batch:
        return self._stream.make(number)


def _identity(batch: Any) -> Any:
    return batch


def _move(value: Any, device: torch.device) -> Any:
    if isinstance(value, torch.Tensor):
        return value if value.device == device else value.to(device)
    if isinstance(value, dict):
        return {name: _move(each, device) for name, each in value.items()}
    return value


class PositionalNet(torch.nn.Module):
    """Calls a net with the scaled inputs as positional arguments. Snapshots hold its weights by the names `net.…`."""

    def __init__(self, net: torch.nn.Module, scales: InputScales | None = None) -> None:
        super().__init__()
        self.net = net
        self.scales = InputScales() if scales is None else scales

    def forward(self, inputs: Mapping[str, Any]) -> Any:
        values = self.scales.apply(list(inputs.values()))
        try:
            return self.net(*values)
        except torch.OutOfMemoryError:
            raise
        except (RuntimeError, TypeError) as error:
            raise BadInput(f"net: cannot take {_describe(values)}: {error}") from error


def _describe(values: Sequence[Any]) -> str:
    """Inputs by type and shape."""
    tensors = [
        f"{str(each.dtype).removeprefix('torch.')} {list(each.shape)}"
        if isinstance(each, torch.Tensor)
        else type(each).__name__
        for each in values
    ]
    return f"{'an input' if len(tensors) == 1 else 'inputs'} of {' and '.join(tensors)}"


class CriterionLoss:
    """A criterion as the loss of a learner. Its state, if it has one, goes into snapshots."""

    def __init__(self, criterion: Any) -> None:
        self.criterion = criterion
        self.comparable = 0.0
        """The last loss in the units that nets are compared in."""

    def __call__(self, output: Any, targets: Mapping[str, Any], unscaled: bool = False) -> torch.Tensor:
        loss = self._measure(output, targets, unscaled)
        if not unscaled and isinstance(loss, torch.Tensor) and loss.numel() == 1:
            self.comparable = loss.item()
            if getattr(self.criterion, "has_scale", True):
                with torch.no_grad():
                    self.comparable = self._measure(output, targets, unscaled=True).item()
        return loss

    def _measure(self, output: Any, targets: Mapping[str, Any], unscaled: bool) -> torch.Tensor:
        loss: torch.Tensor = self.criterion(output, targets["target"], weights=targets["weights"], unscaled=unscaled)
        return loss

    def state_dict(self) -> dict[str, Any]:
        get_state = getattr(self.criterion, "state_dict", None)
        return {} if get_state is None else dict(get_state())

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if state:
            self.criterion.load_state_dict(state)


class TrainStep(MinibatchWorkerPool):
    """Trains with the scaled loss, and reports the one that validation measures: both have the same units."""

    def run(self, record: MinibatchRecord) -> float:
        super().run(record)
        loss = self.learner.loss
        assert isinstance(loss, CriterionLoss)
        return loss.comparable


class FiniteInputs(Callback):
    """When a loss is not finite, names the example that is to blame, if one is."""

    def on_batch_end(self, run: Run) -> None:
        if run.loss is None or math.isfinite(run.loss) or run.record is None or run.uri is None:
            return
        stream = run.uri.stream
        assert isinstance(stream, DatasetStream)
        indices = stream.indices(run.record.number)
        for name, value in run.record.inputs.items():
            if isinstance(value, torch.Tensor):
                check_finite(value, f"input {name}", indices)


class ValidationStep:
    """Measures the unscaled loss of each minibatch without training."""

    def __init__(self, learner: Learner) -> None:
        self._learner = learner

    def begin(self, uri: Uri) -> None:
        """Nothing to prepare: the net is frozen."""

    def run(self, record: MinibatchRecord) -> float:
        with torch.no_grad():
            output = self._learner.model(record.inputs)
            return float(self._learner.loss(output, record.targets, unscaled=True))

    def drain(self) -> None:
        """A step is complete when it returns."""


class Validation(Callback):
    """Measures the loss of the validation part after each epoch, in the same loop with another step."""

    def __init__(self, learner: Learner, stream_of: Callable[[int], Stream], seed: int) -> None:
        self._learner = learner
        self._stream_of = stream_of
        self._seed = seed
        self.loss: float | None = None
        """The loss after the last epoch."""

    def on_uri_end(self, run: Run) -> None:
        assert run.uri is not None
        self.loss = self.measure(run.uri.epoch)
        is_finite = self.loss is not None and self.loss - self.loss == 0
        run.metrics["evaluation"] = [{"name": "valid", "loss": self.loss if is_finite else None}]

    def measure(self, epoch: int) -> float | None:
        stream = self._stream_of(epoch)
        validation = Run(self._learner, {})
        uri = Uri(0, f"validation of epoch {epoch}", stream, 0, stream.num_batches, 0)
        with frozen(self._learner.model, seeds.derive(self._seed, "validation", epoch)), Loader() as loader:
            Runner(ValidationStep(self._learner), loader).run(validation, UriList([uri]))
        return validation.mean_loss


class _CollectPredictions(Callback):
    def __init__(self, step: PredictStep) -> None:
        self._step = step
        self.predictions: list[np.ndarray[Any, Any]] = []

    def on_batch_end(self, run: Run) -> None:
        self.predictions.append(to_numpy(self._step.prediction))


def predict_stream(
    net: PositionalNet, postproc: Callable[[Any], Any], stream: Stream, verbose: bool
) -> np.ndarray[Any, Any]:
    """Predict all minibatches of a stream, in the same loop with another step."""
    learner = Learner(net, [], lambda output, targets: output, predict=postproc)
    step = PredictStep(learner)
    collect = _CollectPredictions(step)
    uri = Uri(0, "prediction", stream, 0, stream.num_batches, 0)
    with ExitStack() as stack:
        progress: list[Callback] = []
        console = Console(stderr=True, highlight=False)
        if verbose and can_draw(console):
            progress = [stack.enter_context(Progress(1, console=console))]
        stack.enter_context(frozen(net, 0))
        loader = stack.enter_context(Loader())
        Runner(step, loader, [collect, *progress]).run(Run(learner, {}), UriList([uri]))
    return np.concatenate(collect.predictions)


def to_numpy(prediction: Any) -> np.ndarray[Any, Any]:
    if isinstance(prediction, torch.Tensor):
        array: np.ndarray[Any, Any] = prediction.detach().cpu().numpy()
        return array
    if isinstance(prediction, np.ndarray):
        return prediction
    raise BadInput(f"postproc must return a tensor or an array, got {type(prediction).__name__}")
