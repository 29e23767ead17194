"""`train_model`: a model with its own step, minibatches and policies, through the one loop.

The minibatches of an epoch as the loop reads them.
"""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from samovar import seeds
from samovar.callbacks import MetricsLog, PolicyClock
from samovar.errors import BadInput
from samovar.functional.batch_iter import BatchIter, as_batch_iter
from samovar.functional.event_log import EventLog
from samovar.functional.torch_model import TorchModel
from samovar.policies import Constant, Policy
from samovar.runner import Callback, Learner, MinibatchRecord, Run, Stream, Uri
from samovar.runner.step import frozen
from samovar.runner.stream import Minibatches
from samovar.training.facade import Epochs, check_count, kept_config, open_facade, run_epochs


@dataclass(frozen=True, eq=False)
class BatchStream(Stream):
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
    count = len(parts[0]) if hasattr(parts[0], "__len__") else 1
    return MinibatchRecord({str(place): part for place, part in enumerate(parts)}, num_examples=count, number=number)


Validate = Callable[[], Mapping[str, Any]]


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
    **policies: Any,
) -> None:
    """Train until `n_epochs` are done or a policy raises `EarlyStopping`.

    With `checkpoints_path` a call goes on where the last one ended; one that was stopped early is finished for good.
    """
    if not isinstance(model, TorchModel):
        raise BadInput(f"train_model: found a model of type {type(model).__name__}; expected a TorchModel: wrap it")
    check_count("n_epochs", n_epochs)
    batches = as_batch_iter(batch_iter)
    if batches.num_batches < 1:
        raise BadInput("batch_iter: found no minibatches; expected at least one, else nothing is learned: fill it")
    if not isinstance(lr, Policy | type) and not hasattr(lr, "__float__"):  # of a class more is said below
        raise BadInput(f"lr: found {lr!r}; expected a number, or a policy: give one")
    named = {name: _as_policy(name, each) for name, each in {"lr": lr, **policies}.items()}
    folder = _expand(checkpoints_path)
    if seed is None:
        seed = kept_config(folder).get("seed") if folder is not None else None
    chosen = seeds.draw_seed() if seed is None else seed

    learner = Learner(model.architecture, model.optimizer, model.criterion, _predict(model))
    run = Run(learner, named)
    epochs = Epochs(n_epochs, lambda epoch: BatchStream(batches, chosen, epoch))
    logs = _expand(log_path)
    judges = [Validation(validate, chosen)] if validate is not None else []
    writers: list[Callback] = [EventLog(logs, folder)] if logs is not None else []
    with ExitStack() as stack:
        result = None
        if folder is not None:
            config = {"seed": chosen, "policies": {name: type(each).__name__ for name, each in named.items()}}
            result = stack.enter_context(open_facade(folder, "train_model", config))
            if result.is_finished:
                run.load_model(result.directory.load_model().tree)
                return
            writers.append(MetricsLog(result))
        run_epochs(run, ModelStep(model, named), epochs, [*judges, *writers, PolicyClock()], result, 0)
        if result is not None and run.end_reason is not None:
            result.finish(run.state_dict(), run.position)


class ModelStep:
    """Hands each minibatch and the values of policies to the model's own step."""

    def __init__(self, model: TorchModel, policies: Mapping[str, Policy]) -> None:
        self._model = model
        self._policies = policies

    def begin(self, uri: Uri) -> None:
        if not self._model.architecture.training:  # what the user froze inside it stays so
            self._model.architecture.train()

    def run(self, record: MinibatchRecord) -> float:
        values = {name: each.value for name, each in self._policies.items() if hasattr(each, "value")}
        loss = self._model.do_train_step(*record.inputs.values(), **values)
        try:
            return float(loss)
        except (TypeError, ValueError):
            raise BadInput(
                f"do_train_step: returned {loss!r}; expected the loss as a number: return it from your step"
            ) from None

    def drain(self) -> None:
        """Every step is done when it returns."""


class Validation(Callback):
    """Asks the user's function for metrics; whatever it draws changes no later step."""

    def __init__(self, validate: Validate, seed: int) -> None:
        self._validate = validate
        self._seed = seed

    def on_uri_end(self, run: Run) -> None:
        assert run.uri is not None
        with frozen(run.model, seeds.derive(self._seed, "validate", run.uri.epoch)):
            metrics = self._validate()
        if not isinstance(metrics, Mapping):
            raise BadInput(
                f"validate: returned {type(metrics).__name__}; expected a dict of metrics by name: return one"
            )
        run.metrics.update(metrics)


class Given(Policy):
    """A value that is no number, handed on as it is."""

    _settings = frozenset({"value"})

    def __init__(self, value: Any) -> None:
        self.value = value


def _as_policy(name: str, value: Any) -> Policy:
    if isinstance(value, Policy):
        return value
    if isinstance(value, type) and issubclass(value, Policy):
        raise BadInput(f"policy {name!r}: found the class {value.__name__}; expected an object: call the class")
    return Constant(value) if isinstance(value, int | float) and not isinstance(value, bool) else Given(value)


def _predict(model: TorchModel) -> Callable[[Any], Any]:
    return lambda output: model.activation(output)


def _expand(path: str | Path | None) -> Path | None:
    return None if path is None else Path(path).expanduser()
