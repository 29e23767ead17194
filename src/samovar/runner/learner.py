"""What a user's script builds: a model, and how it learns. Knows no data and no loop.

The hash embeddings of a model, as a run sees them: tables with a clock that counts URIs with data.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, runtime_checkable

import torch

from samovar.errors import BadInput
from samovar.policies import Constant, Policy
from samovar.runner.callback import Callback
from samovar.tables.record import RecordValue


@runtime_checkable
class HashTables(Protocol):
    """The face of `HashEmbedding`. Found by its shape, so that a model may wrap it."""

    def advance_clock(self) -> None: ...

    def sweep(self) -> int: ...

    def counters(self) -> Mapping[str, Any]: ...

    def count_live(self) -> Mapping[str, int]: ...


def find_hash_tables(model: torch.nn.Module) -> list[HashTables]:
    return [module for module in model.modules() if isinstance(module, HashTables)]


class Optimizer(Protocol):
    """The face of a torch optimizer, and of those of hash embeddings."""

    param_groups: list[dict[str, Any]]

    def step(self) -> Any: ...

    def zero_grad(self) -> None: ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any], /) -> None: ...


Inputs: TypeAlias = Mapping[str, RecordValue]
Loss: TypeAlias = Callable[..., torch.Tensor]
"""loss(output, targets, **policies that belong to no optimizer)"""
Predict: TypeAlias = Callable[[Any], Any]


def _as_it_is(output: Any) -> Any:
    return output


@dataclass
class Learner:
    """`model(inputs)` gives an output; `loss(output, targets)` a scalar; `predict(output)` the tensor [B] or [B, K], or
    a dict of them, that is written as the prediction."""

    model: torch.nn.Module
    optimizers: Any
    """One, a list, or a dict; a dict's names are the prefixes of policies."""
    loss: Loss
    predict: Predict = _as_it_is
    policies: Mapping[str, Policy | float] = field(default_factory=dict)
    """`lr` goes to all optimizers, `emb.lr` to the one named emb, `lr_factor` multiplies; the rest goes to the loss."""
    callbacks: Sequence[Callback] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.model, torch.nn.Module):
            raise BadInput(
                f"Learner: found a model of type {type(self.model).__name__}; expected a torch.nn.Module: return one"
            )
        for role in ("loss", "predict"):
            if not callable(getattr(self, role)):
                raise BadInput(f"Learner: {role} cannot be called; expected a function: give one")
        for name, optimizer in self.named_optimizers.items():
            if not hasattr(optimizer, "param_groups") or not hasattr(optimizer, "step"):
                raise BadInput(
                    f"Learner: optimizer {name} is of type {type(optimizer).__name__}; expected one of torch's, or of "
                    "samovar.embeddings: give one, a list, or a dict of them"
                )
        for callback in self.callbacks:
            if not isinstance(callback, Callback):
                raise BadInput(
                    f"Learner: found a callback of type {type(callback).__name__}; expected objects of a class that "
                    "derives from samovar.Callback: make it one"
                )

    @property
    def named_optimizers(self) -> dict[str, Optimizer]:
        found = self.optimizers
        if isinstance(found, Mapping):
            return {str(name): optimizer for name, optimizer in found.items()}
        several = found if isinstance(found, list | tuple) else [found]
        return {str(number): optimizer for number, optimizer in enumerate(several)}

    @property
    def named_policies(self) -> dict[str, Policy]:
        given = self.policies.items()
        return {name: each if isinstance(each, Policy) else Constant(each) for name, each in given}

    def required_features(self) -> list[str] | None:
        """What the model says that it reads; None when it does not say."""
        ask = getattr(self.model, "get_required_features_list", None)
        return None if ask is None else list(ask())
