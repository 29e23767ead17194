"""The live state of a loop, and all of it as one tree. Knows what belongs to a state, not where it is saved.

model       weights, buffers, hash tables         policies    by name
optimizers  by name                               schedulers  of torch, by what moves them on, if there are any
                                                  callbacks   by class name, those that have a state
loss        if it has a state                     random      every global generator
run         next URI, counts, losses of the epoch so far, why it ended
"""

import copy
import math
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from pydantic import InstanceOf

from samovar import seeds
from samovar.config.records import STUMBLES, Natural, Text, check_state
from samovar.embeddings import final_state
from samovar.errors import Conflict, CorruptData, SamovarError
from samovar.policies import Policy
from samovar.runner.callback import Callback
from samovar.runner.learner import HashModule, Learner, Loss, Optimizer, find_hash_tables
from samovar.runner.schedules import load_schedulers, schedulers_state
from samovar.runner.uri import Uri
from samovar.tables.record import MinibatchRecord

FORMAT = 1


class Run:
    """The live state of a loop: what callbacks see.

    Callbacks may read everything, add to `metrics`, and call `stop`; to end the run they raise `EarlyStopping`.

    Args:
        learner: What is trained or applied.
        policies: Those that the step uses (`pool.settings.policies`); by default the learner's.
        callbacks: Those whose state belongs to the run.
    """

    def __init__(
        self, learner: Learner, policies: Mapping[str, Policy] | None = None, callbacks: Sequence[Callback] = ()
    ) -> None:
        self.learner = learner
        self.policies = dict(learner.named_policies if policies is None else policies)
        self.callbacks = list(callbacks)
        self.uri: Uri | None = None
        """The current URI; after the run, the last one."""
        self.record: MinibatchRecord | None = None
        """The last minibatch of this URI; None outside of `on_batch_end`."""
        self.loss: float | None = None
        """The loss of the last minibatch."""
        self.losses: list[float] = []
        """The loss of each minibatch of this URI."""
        self.uri_examples: list[int] = []
        """The number of examples of each minibatch in `losses`."""
        self.epoch_losses: list[float] = []
        """The loss of each minibatch of this epoch, which may have several URIs."""
        self.metrics: dict[str, Any] = {}
        """What callbacks measured at the end of this URI. Numbers are logged."""
        self.next_uri = 0
        """The number of the first URI that is not done."""
        self.trained: str | None = None
        """The name of the last URI that is done."""
        self.num_batches = 0
        self.num_examples = 0
        self.end_reason: str | None = None
        """Why the run ended before its last URI; None otherwise."""
        self.stop_reason: str | None = None
        """Why the run stops after this URI, to continue later; None otherwise."""

    @property
    def model(self) -> torch.nn.Module:
        return self.learner.model

    @cached_property
    def hash_tables(self) -> list[HashModule]:
        return find_hash_tables(self.model)

    @property
    def optimizers(self) -> dict[str, Optimizer]:
        return self.learner.named_optimizers

    @property
    def loss_function(self) -> Loss:
        return self.learner.loss

    @property
    def position(self) -> dict[str, Any]:
        """How far the run is, as status and snapshots record it."""
        return {"next_uri": self.next_uri, "trained": self.trained}

    @property
    def mean_loss(self) -> float | None:
        """The mean loss of this URI, weighted by examples; None if it has no losses."""
        if not self.losses:
            return None
        weighted = [loss * count for loss, count in zip(self.losses, self.uri_examples, strict=True)]
        total = sum(self.uri_examples)
        return _sum(weighted) / total if total else _sum(self.losses) / len(self.losses)

    def stop(self, reason: str) -> None:
        """Stop after this URI with a snapshot, to continue later. The first reason counts."""
        self.stop_reason = self.stop_reason or reason

    def end_early(self, stopping: BaseException) -> None:
        """End the run after this URI as if it were the last. The first reason counts."""
        self.end_reason = self.end_reason or str(stopping) or type(stopping).__name__

    # Called by the loop

    def begin_uri(self, uri: Uri) -> None:
        self.uri = uri
        self.losses, self.uri_examples, self.metrics = [], [], {}

    def add_batch(self, record: MinibatchRecord, loss: float | None) -> None:
        self.record, self.loss = record, loss
        self.num_batches += 1
        self.num_examples += record.num_examples
        if loss is not None:
            self.losses.append(loss)
            self.epoch_losses.append(loss)
            self.uri_examples.append(record.num_examples)

    def end_uri(self, uri: Uri) -> None:
        self.record = None
        self.next_uri, self.trained = uri.number + 1, uri.name

    # The state

    def state_dict(self, is_final: bool = False) -> dict[str, Any]:
        """Everything that a run needs to continue.

        Args:
            is_final: Sort hash tables, so that the state does not depend on when expired rows were freed. Takes longer.
        """
        weights = final_state(self.model) if is_final else self.model.state_dict()
        metadata = getattr(weights, "_metadata", {})
        callbacks = {
            name: dict(each.state_dict())
            for name, each in _name_callbacks(self.callbacks, self.learner.callbacks).items()
        }
        return {
            "format": FORMAT,
            "model": {"weights": dict(weights), "metadata": {name: dict(each) for name, each in metadata.items()}},
            "optimizers": {name: optimizer.state_dict() for name, optimizer in self.optimizers.items()},
            "loss": _state_of(self.learner.loss),
            "policies": {name: policy.state_dict() for name, policy in self.policies.items()},
            **({"schedulers": schedulers_state(self.learner)} if self.learner.all_schedulers else {}),
            "callbacks": {name: state for name, state in callbacks.items() if state},
            "random": seeds.global_state(),
            "run": {
                "next_uri": self.next_uri,
                "trained": self.trained,
                "num_batches": self.num_batches,
                "num_examples": self.num_examples,
                "epoch_losses": np.array(self.epoch_losses, np.float64),
                "end_reason": self.end_reason,
            },
        }

    def load_state_dict(self, tree: Mapping[str, Any], *, with_settings: bool = True) -> None:
        """Continue exactly where the state was taken.

        Args:
            tree: What `state_dict` returned.
            with_settings: Restore the optimizers' settings too. Without them the optimizers keep the rates that the
                script gives them now: for a script that has changed.

        Raises:
            Conflict: The state belongs to another model, or to other optimizers, policies or callbacks.
        """
        state = check_tree(tree)
        self._load_learned(tree) if with_settings else self.load_model(tree)
        for name, policy in _paired("policy", self.policies, state.policies):
            with _fitting(f"the policy {name!r}"):
                policy.load_state_dict(state.policies[name])
        with _fitting("the schedulers"):
            load_schedulers(self.learner, state.schedulers)
        named = _name_callbacks(self.callbacks, self.learner.callbacks)
        for name, callback in _paired("callback", named, state.callbacks, may_be_new=True):
            if name in state.callbacks:
                with _fitting(f"the callback {name!r}"):
                    callback.load_state_dict(copy.deepcopy(state.callbacks[name]))  # the snapshot is a mapped file
        with _fitting("the random generators"):
            seeds.set_global_state(state.random)
        run = state.run
        self.next_uri, self.trained, self.end_reason = run.next_uri, run.trained, run.end_reason
        self.num_batches, self.num_examples = run.num_batches, run.num_examples
        self.epoch_losses = run.epoch_losses.tolist()

    def load_model(self, tree: Mapping[str, Any]) -> None:
        """Load only what was learned: weights, optimizers, loss. The run starts at its first URI, with the rates that
        the script gives its optimizers now.

        Raises:
            Conflict: The state belongs to another model, or to other optimizers.
        """
        settings = {name: _settings_of(optimizer) for name, optimizer in self.optimizers.items()}
        self._load_learned(tree)
        for name, groups in settings.items():
            for group, values in zip(self.optimizers[name].param_groups, groups, strict=True):
                group.update(values)

    def _load_learned(self, tree: Mapping[str, Any]) -> None:
        try:
            weights: OrderedDict[str, Any] = OrderedDict(tree["model"]["weights"])
            weights._metadata = tree["model"]["metadata"]  # type: ignore[attr-defined]  # torch keeps module versions there
            self.model.load_state_dict(weights)
            for name, optimizer in _paired("optimizer", self.optimizers, tree["optimizers"]):
                _load_optimizer(optimizer, copy.deepcopy(tree["optimizers"][name]))
            if tree["loss"] is not None:
                self.learner.loss.load_state_dict(tree["loss"])  # type: ignore[attr-defined]  # it has a state_dict
        except STUMBLES as error:
            if isinstance(error, SamovarError):
                raise
            raise Conflict(
                f"the saved state does not fit the model and optimizers that the script builds: {error}. {_CURE}"
            ) from error


_CURE = "Restore the script that saved it, or start a new directory"


@dataclass(frozen=True)
class _Progress:
    """How far a run is, in a state."""

    next_uri: Natural
    trained: Text | None
    num_batches: Natural
    num_examples: Natural
    epoch_losses: InstanceOf[np.ndarray]
    end_reason: Text | None


@dataclass(frozen=True)
class _State:
    """The parts of a state."""

    format: Natural
    model: dict[Text, Any]
    optimizers: dict[Text, Any]
    loss: Any
    policies: dict[Text, Any]
    callbacks: dict[Text, Any]
    random: dict[Text, Any]
    run: _Progress
    schedulers: dict[Text, Any] = field(default_factory=dict)


def check_tree(tree: object) -> _State:
    """Check the parts of a state that `Run.state_dict` made, before any of it is loaded.

    Raises:
        CorruptData: A part is missing or has another type, or the state is of another format.
    """
    state = check_state(_State, tree, "the state of the run")
    if state.format != FORMAT:
        raise CorruptData(f"the state of the run: format {state.format} is of another Samovar, expected {FORMAT}")
    return state


@contextmanager
def _fitting(what: str) -> Iterator[None]:
    """What a part stumbles on when it loads its state: the script has another one by now, or the state is damaged."""
    try:
        yield
    except SamovarError:
        raise
    except STUMBLES as error:
        raise Conflict(f"the saved state does not fit {what}: {type(error).__name__}: {error}. {_CURE}") from error


def _load_optimizer(optimizer: Optimizer, saved: dict[str, Any]) -> None:
    optimizer.load_state_dict(saved)
    if not isinstance(optimizer, torch.optim.Optimizer) or not saved.keys() >= {"state", "param_groups"}:
        return  # it has a layout of its own
    numbers = [number for group in saved["param_groups"] for number in group["params"]]
    weights = [each for group in optimizer.param_groups for each in group["params"]]
    for number, weight in zip(numbers, weights, strict=False):
        loaded = optimizer.state.get(weight, {})
        for key, value in saved["state"].get(number, {}).items():
            # torch casts the state to the type of the weights; a run that was not resumed kept another, such as
            # float32 for weights of bfloat16.
            found = loaded.get(key)
            if isinstance(value, torch.Tensor) and isinstance(found, torch.Tensor) and found.dtype != value.dtype:
                loaded[key] = value.to(found.device)


def _settings_of(optimizer: Optimizer) -> list[dict[str, Any]]:
    """Everything in its groups except the weights."""
    return [{key: value for key, value in group.items() if key != "params"} for group in optimizer.param_groups]


def _state_of(loss: object) -> Any:
    ask = getattr(loss, "state_dict", None)
    return None if ask is None else dict(ask())


def _name_callbacks(callbacks: Sequence[Callback], users: Sequence[Callback]) -> dict[str, Callback]:
    """Name each callback by its class, numbered if there are several. The names are the keys of their saved states.

    The user's come first. Ours come and go with the config, which must not change the names of the user's.
    """
    named: dict[str, Callback] = {}
    for callback in [*users, *(each for each in callbacks if not any(each is one for one in users))]:
        name, number = type(callback).__name__, 1
        while name in named:
            number += 1
            name = f"{type(callback).__name__} {number}"
        named[name] = callback
    return named


def _paired(kind: str, built: Mapping[str, Any], saved: Mapping[str, Any], may_be_new: bool = False) -> Any:
    """The items of `built`, after checking that the saved state has the same names."""
    lost = saved.keys() - built.keys()
    new = built.keys() - saved.keys() if not may_be_new else set()
    if lost:
        raise Conflict(f"the saved state has the {kind} {_quote(lost)}, which the script does not build. {_CURE}")
    if new:
        raise Conflict(f"the script builds the {kind} {_quote(new)}, which the saved state does not have. {_CURE}")
    return built.items()


def _quote(names: Iterable[str]) -> str:
    return ", ".join(map(repr, sorted(names)))


def _sum(numbers: list[float]) -> float:
    try:
        return math.fsum(numbers)  # exact, so the order does not matter
    except (OverflowError, ValueError):
        return math.nan
