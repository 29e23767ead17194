"""`train_model`: a model with its own step, minibatches and policies, through the one loop."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from samovar import seeds
from samovar.callbacks import MetricsLog, PolicyClock
from samovar.errors import BadInput
from samovar.functional.batch_iter import BatchIter, as_batch_iter
from samovar.functional.event_log import EventLog
from samovar.functional.torch_model import TorchModel
from samovar.policies import Constant, Policy
from samovar.runner import Callback, Learner, MinibatchRecord, Run, Stream, Uri
from samovar.runner.schedules import start_step
from samovar.runner.step import frozen
from samovar.runner.stream import Minibatches
from samovar.training.facade import (
    Epochs,
    check_callbacks,
    check_count,
    kept_config,
    open_facade,
    ours_first,
    run_epochs,
)

Validate: TypeAlias = Callable[[], Mapping[str, Any]]


def train_model(
    model: TorchModel,
    batch_iter: Any,
    n_epochs: int,
    lr: Policy | float,
    log_path: str | Path | None = None,
    checkpoints_path: str | Path | None = None,
    validate: Validate | None = None,
    *,
    seed: int | None = None,
    callbacks: Sequence[Callback] = (),
    **policies: Any,
) -> None:
    """Train a model, with policies that change values between epochs.

    Each epoch goes through the minibatches of `batch_iter`, then calls `validate` and `callbacks`, writes the logs,
    tells the policies and saves a checkpoint. Training ends after `n_epochs`, or after the epoch in which a policy or a
    callback raises `EarlyStopping`.

    With `checkpoints_path`, the same call resumes after a crash and gives the same weights, bit for bit, as a run that
    was never interrupted. After the last epoch, a call with a larger `n_epochs` continues. A run that ended early is
    finished: calling again only loads its weights.

    Args:
        model: A `TorchModel`, or a subclass with its own `do_train_step`.
        batch_iter: `Infinite(…)`, another `BatchIter`, or a list of minibatches. A minibatch is a tuple of arrays or
            tensors whose last one is the target.
        n_epochs: The number of epochs, counted from the start of the run.
        lr: The learning rate: a number, or a policy such as `Exponential(0.1, 0.9)`.
        log_path: A folder for a TensorBoard file with the loss, the policies and the metrics; `~` is expanded. Several
            runs may share it.
        checkpoints_path: A folder for checkpoints and metrics, one per run; `~` is expanded. It is a result directory,
            so `samovar ls` and `samovar plot` read it.
        validate: A function without arguments that returns metrics by name. It is called after each epoch with the
            model in evaluation mode; random numbers that it draws do not affect training.
        seed: The seed of the minibatches. By default it is drawn, and kept in `checkpoints_path`. Call
            `samovar.set_seed` before you build the model to fix its first weights too.
        callbacks: `samovar.Callback` objects, for which a URI is an epoch. At its end they are called after `validate`,
            whose metrics are in `run.metrics`, and before the logs, the policies and the checkpoint. Numbers that they
            put into `run.metrics` are logged. Their state is in checkpoints: pass the same ones to resume.
        **policies: Further values for `do_train_step`, by name: policies with a `value`, numbers, or anything else,
            which is passed unchanged. A policy without a `value`, such as `LossStop`, only watches epochs.

    Raises:
        BadInput: An argument is wrong, or `do_train_step` or `validate` returns something unusable.
        Conflict: `checkpoints_path` holds a run with another seed or other policies.

    Example:
        ```python
        import numpy as np
        import torch
        from torch import nn

        import samovar
        from samovar.functional.batch_iter import Infinite, sample
        from samovar.policies import DecreasingOnPlateau, LossStop

        samovar.set_seed(0)
        x = np.random.randn(500, 3).astype(np.float32)
        y = x.sum(1, keepdims=True)
        model = samovar.TorchModel(nn.Linear(3, 1), nn.Identity(), nn.MSELoss(), torch.optim.Adam)
        samovar.train_model(
            model,
            Infinite(sample(list(zip(x, y))), batch_size=32, n_iters_per_epoch=20),
            n_epochs=10,
            lr=DecreasingOnPlateau(0.03, 0.5, patience=2),  # halve it after three epochs without progress
            log_path="logs",
            checkpoints_path="checkpoints",
            validate=lambda: {"mae": float(np.abs(model.do_inf_step(x) - y).mean())},
            stop=LossStop(3),  # end the run if the loss triples
        )
        ```
    """
    if not isinstance(model, TorchModel):
        raise BadInput(f"model must be a TorchModel, got {type(model).__name__}")
    check_count("n_epochs", n_epochs)
    batches = as_batch_iter(batch_iter)
    if batches.num_batches < 1:
        raise BadInput("batch_iter has no minibatches")
    if not isinstance(lr, Policy | type) and not hasattr(lr, "__float__"):  # a class gets its own message below
        raise BadInput(f"lr must be a number or a policy, got {lr!r}")
    named_policies = {name: _as_policy(name, each) for name, each in {"lr": lr, **policies}.items()}
    folder = _expand(checkpoints_path)
    if seed is None:
        seed = kept_config(folder).get("seed") if folder is not None else None
    run_seed = seeds.draw_seed() if seed is None else seed
    users = check_callbacks(callbacks)

    learner = Learner(model.architecture, model.optimizer, model.criterion, _predict(model))
    run = Run(learner, named_policies)
    epochs = Epochs(n_epochs, lambda epoch: BatchStream(batches, run_seed, epoch))
    logs = _expand(log_path)
    validation = [Validation(validate, run_seed)] if validate is not None else []
    writers: list[Callback] = [EventLog(logs, folder)] if logs is not None else []
    with ExitStack() as stack:
        result = None
        if folder is not None:
            kinds = {name: type(each).__name__ for name, each in named_policies.items()}
            result = stack.enter_context(open_facade(folder, "train_model", {"seed": run_seed, "policies": kinds}))
            if result.is_finished:
                run.load_model(result.directory.load_model().tree)
                return
            writers.append(MetricsLog(result))
        step = ModelStep(model, named_policies)
        ordered = [*validation, *users, *writers, PolicyClock()]
        run.callbacks = ours_first(ordered, users)
        run_epochs(run, step, epochs, ordered, result, 0)
        if result is not None and run.end_reason is not None:
            result.finish(run.state_dict(), run.position)


@dataclass(frozen=True, eq=False)
class BatchStream(Stream):
    """The minibatches of one epoch as the loop reads them."""

    batches: BatchIter
    seed: int
    epoch: int

    @property
    def num_batches(self) -> int:
        return self.batches.num_batches

    def open(self, first: int) -> Minibatches:
        batches = self.batches.open(self.seed, self.epoch)
        try:
            for number, batch in enumerate(batches):
                if number >= first:
                    yield _record(batch, number)
        finally:
            batches.close()


def _record(batch: Any, number: int) -> MinibatchRecord:
    parts = batch if isinstance(batch, list | tuple) else (batch,)
    count = getattr(batch, "num_examples", None) or (len(parts[0]) if hasattr(parts[0], "__len__") else 1)
    return MinibatchRecord({str(place): part for place, part in enumerate(parts)}, num_examples=count, number=number)


class ModelStep:
    """Passes each minibatch and the values of the policies to the model's own step."""

    def __init__(self, model: TorchModel, policies: Mapping[str, Policy]) -> None:
        self._model = model
        self._policies = policies

    def begin(self, uri: Uri) -> None:
        if not self._model.architecture.training:  # modules that the user froze stay frozen
            self._model.architecture.train()

    def run(self, record: MinibatchRecord) -> float:
        start_step(self._policies.values())
        values = {name: each.value for name, each in self._policies.items() if hasattr(each, "value")}
        loss = self._model.do_train_step(*record.inputs.values(), **values)
        try:
            return float(loss)
        except (TypeError, ValueError):
            raise BadInput(f"do_train_step must return the loss as a number, got {loss!r}") from None

    def drain(self) -> None:
        """A step is complete when it returns."""


class Validation(Callback):
    """Calls the user's function for metrics. Random numbers that it draws do not affect later steps."""

    def __init__(self, validate: Validate, seed: int) -> None:
        self._validate = validate
        self._seed = seed

    def on_uri_end(self, run: Run) -> None:
        assert run.uri is not None
        with frozen(run.model, seeds.derive(self._seed, "validate", run.uri.epoch)):
            metrics = self._validate()
        if not isinstance(metrics, Mapping):
            raise BadInput(f"validate must return a dict of metrics, got {type(metrics).__name__}")
        run.metrics.update(metrics)


class Given(Policy):
    """A value that is not a number, passed on unchanged. The config of a run holds the name of this class."""

    _settings = frozenset({"value"})

    def __init__(self, value: Any) -> None:
        self.value = value


def _as_policy(name: str, value: Any) -> Policy:
    if isinstance(value, Policy):
        return value
    if isinstance(value, type) and issubclass(value, Policy):
        raise BadInput(f"policy {name!r} must be an object, got the class {value.__name__}: write {value.__name__}(…)")
    return Constant(value) if isinstance(value, int | float) and not isinstance(value, bool) else Given(value)


def _predict(model: TorchModel) -> Callable[[Any], Any]:
    return lambda output: model.activation(output)


def _expand(path: str | Path | None) -> Path | None:
    return None if path is None else Path(path).expanduser()
