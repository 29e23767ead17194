"""What a user's script builds: a model and how it learns. Knows no data and no loop."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, runtime_checkable

import torch
from torch.optim.lr_scheduler import LRScheduler

from samovar.errors import BadInput
from samovar.policies import Constant, Policy
from samovar.runner.callback import Callback
from samovar.scoring.measuring import OwnMetric
from samovar.scoring.metric_names import NAMES
from samovar.tables.record import RecordValue


class Optimizer(Protocol):
    """What torch's optimizers and those of hash embeddings have in common."""

    param_groups: list[dict[str, Any]]

    def step(self) -> Any: ...

    def zero_grad(self) -> None: ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any], /) -> None: ...


Inputs: TypeAlias = Mapping[str, RecordValue]
Loss: TypeAlias = Callable[..., torch.Tensor]
Predict: TypeAlias = Callable[[Any], Any]


def _identity(output: Any) -> Any:
    return output


@dataclass
class Learner:
    """A model and everything that trains it: what `build` of your script returns.

    For each minibatch, training does

        output = model(inputs)              inputs: feature name -> tensor or Bag
        loss(output, targets).backward()    targets: target name -> tensor or Bag
        optimizer.step()                    for each optimizer

    and evaluation writes `predict(model(inputs))`. A real column is a float32 tensor, a categorical one a
    `samovar.Bag`: the ids of all examples and how many belong to each. `samovar.HashEmbedding` takes a bag as it is.

    Args:
        model: A `torch.nn.Module` that is called with the inputs. If it has `get_required_features_list()`, the config
            does not need to list `features`.
        optimizers: One optimizer, a list, or a dict by name: torch's own, or those of `samovar.embeddings`. The names
            of a dict are prefixes for policies.
        loss: `loss(output, targets)` returns a tensor with one number. If the loss has `state_dict` and
            `load_state_dict`, its state is part of every snapshot.
        predict: Turns the output into predictions: a tensor [B] or [B, K], or a dict of such tensors, each of which
            becomes a column. By default the output itself.
        policies: Values that change over time, by name: a `samovar.policies.Policy`, or a number. The name says where
            the value goes before each step:

                lr            `lr` of every optimizer
                emb.lr        `lr` of the optimizer named "emb"; wins over `lr`
                lr_factor     multiplies `lr`, whether it comes from a policy or from the optimizer's constructor
                margin        no optimizer has this setting: `loss` is called with it, `loss(output, targets, margin=…)`

        callbacks: `samovar.Callback` objects, which run at the start and end of a URI and after each minibatch.
        mixes_rows: Whether the score of a row depends on the other rows of its minibatch, as with an in-batch softmax.
            Such a model is scored by whole minibatches. By default rows are scored so that neighbours do not matter.
        schedulers: Schedulers of `torch.optim.lr_scheduler`, by what moves them on: `{"step": OneCycleLR(…)}` after
            each step, `{"epoch": StepLR(…)}` after each epoch, or hour online. A value may be a list.
            `ReduceLROnPlateau` gets the train loss. Their state is part of every snapshot.
        metrics: Metrics of your own by name: `metric(predictions, targets, keys)` returns a number for all rows of an
            evaluation. Predictions are an array [N] or [N, K], or a dict of them; targets and keys are dicts of arrays.
            An evaluation that has such metrics keeps its rows in memory.

    Raises:
        BadInput: An argument has the wrong type.

    Example:
        A script for `samovar train`. `params` is the section `model` of the config.

        >>> import torch
        >>> from samovar import Learner
        >>> from samovar.policies import Exponential
        >>>
        >>> class Model(torch.nn.Module):
        ...     def __init__(self, width):
        ...         super().__init__()
        ...         self.layers = torch.nn.Sequential(
        ...             torch.nn.Linear(2, width), torch.nn.ReLU(), torch.nn.Linear(width, 1)
        ...         )
        ...
        ...     def get_required_features_list(self):
        ...         return ["price", "age"]
        ...
        ...     def forward(self, inputs):
        ...         return self.layers(torch.stack([inputs["price"], inputs["age"]], 1)).squeeze(1)
        >>>
        >>> def loss(output, targets):
        ...     return torch.nn.functional.binary_cross_entropy_with_logits(output, targets["click"])
        >>>
        >>> def build(params):
        ...     model = Model(params.get("width", 16))
        ...     optimizer = torch.optim.Adam(model.parameters())
        ...     return Learner(model, optimizer, loss, predict=torch.sigmoid, policies={"lr": Exponential(0.01, 0.5)})
        >>>
        >>> build({}).required_features()
        ['price', 'age']
    """

    model: torch.nn.Module
    optimizers: Any
    loss: Loss
    predict: Predict = _identity
    policies: Mapping[str, Policy | float] = field(default_factory=dict)
    callbacks: Sequence[Callback] = ()
    mixes_rows: bool = False
    schedulers: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, OwnMetric] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.model, torch.nn.Module):
            raise BadInput(f"Learner: model must be a torch.nn.Module, got {_describe(self.model)}")
        for role in ("loss", "predict"):
            if not callable(getattr(self, role)):
                raise BadInput(f"Learner: {role} must be a function, got {_describe(getattr(self, role))}")
        for name, optimizer in self.named_optimizers.items():
            if not hasattr(optimizer, "param_groups") or not hasattr(optimizer, "step"):
                raise BadInput(
                    f"Learner: optimizer {name} must be one of torch or samovar.embeddings, got {_describe(optimizer)}"
                )
        self._check_schedulers()
        for name, metric in self.metrics.items():
            if not callable(metric):
                raise BadInput(f"Learner: the metric {name!r} must be a function, got {_describe(metric)}")
            if name in NAMES or name != "".join(each for each in name if each not in ".@:"):
                raise BadInput(
                    f"Learner: a metric cannot be named {name!r}. Choose a name without . @ : that is not ours"
                )
        for callback in self.callbacks:
            if not isinstance(callback, Callback):
                raise BadInput(
                    f"Learner: each callback must be an object of a subclass of samovar.Callback, got "
                    f"{_describe(callback)}"
                )

    def _check_schedulers(self) -> None:
        given = self.schedulers
        if not isinstance(given, Mapping) or not given.keys() <= {"step", "epoch"}:
            found = f"the keys {', '.join(map(repr, given))}" if isinstance(given, Mapping) else _describe(given)
            raise BadInput(
                f'Learner: schedulers must say what moves them on, {{"step": …}} or {{"epoch": …}}, got {found}'
            )
        optimizers = {id(optimizer) for optimizer in self.named_optimizers.values()}
        for scheduler in self.all_schedulers:
            if not isinstance(scheduler, LRScheduler):
                raise BadInput(
                    f"Learner: each scheduler must be one of torch.optim.lr_scheduler, got {_describe(scheduler)}"
                )
            if id(scheduler.optimizer) not in optimizers:
                raise BadInput(
                    f"Learner: {_describe(scheduler)} is a scheduler of an optimizer that is not in optimizers. Make "
                    "it with one of those"
                )

    @property
    def named_schedulers(self) -> dict[str, list[LRScheduler]]:
        """The schedulers by what moves them on: a step or an epoch."""
        given = self.schedulers.items()
        return {unit: list(each) if isinstance(each, list | tuple) else [each] for unit, each in given}

    @property
    def all_schedulers(self) -> list[LRScheduler]:
        """The schedulers, whatever moves them on."""
        return [scheduler for several in self.named_schedulers.values() for scheduler in several]

    @property
    def named_optimizers(self) -> dict[str, Optimizer]:
        """The optimizers by name; those of a list are named by their position."""
        given = self.optimizers
        if isinstance(given, Mapping):
            return {str(name): optimizer for name, optimizer in given.items()}
        several = given if isinstance(given, list | tuple) else [given]
        return {str(number): optimizer for number, optimizer in enumerate(several)}

    @property
    def named_policies(self) -> dict[str, Policy]:
        """The policies by name; a number becomes a `Constant`."""
        given = self.policies.items()
        return {name: each if isinstance(each, Policy) else Constant(each) for name, each in given}

    def required_features(self) -> list[str] | None:
        """The features that the model says it needs; None if it does not say."""
        ask = getattr(self.model, "get_required_features_list", None)
        return None if ask is None else list(ask())


def _describe(value: object) -> str:
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__


@runtime_checkable
class HashModule(Protocol):
    """What the loop needs of a `HashEmbedding`. A module counts as one by its methods, so a model may wrap it."""

    def advance_clock(self) -> None:
        """Count one more URI with data: rows expire by this clock."""

    def sweep(self) -> int: ...

    def counters(self) -> Mapping[str, Any]: ...

    def count_live(self) -> Mapping[str, int]: ...


def find_hash_tables(model: torch.nn.Module) -> list[HashModule]:
    return [module for module in model.modules() if isinstance(module, HashModule)]
