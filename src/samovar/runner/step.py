"""Policies at work: before each step their values go where their names say. Knows no loop.

lr           "lr" of every optimizer's groups; `emb.lr` only of the optimizer named emb, and it wins there
lr_factor    multiplies what stands there: the policy's value, or what the optimizer was built with
anything     else is handed to the loss by its name

What the loop does with one minibatch. Training is forward, loss, backward, update; a frozen learner only predicts.
Knows no URIs and no callbacks.

A step is done when `run` returns: nothing is ever in flight when callbacks run. Reading ahead is the loader's work.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from samovar import seeds
from samovar.errors import BadInput
from samovar.policies import Policy
from samovar.runner.learner import Learner, Optimizer, find_hash_tables
from samovar.runner.uri import Uri
from samovar.tables.record import MinibatchRecord

_FACTOR = "_factor"


class PolicySettings:
    """Made before a state is restored: what the optimizers were built with is what factors multiply."""

    def __init__(self, policies: Mapping[str, Policy], optimizers: Mapping[str, Optimizer]) -> None:
        self.policies = dict(policies)
        self._optimizers = dict(optimizers)
        self._places: dict[tuple[str, int, str], tuple[Any, list[Policy]]] = {}
        owned: set[str] = set()
        for name, optimizer in self._optimizers.items():
            for number, group in enumerate(optimizer.param_groups):
                for key in sorted(group.keys() - {"params"}):
                    owned |= self._enter(name, number, key, group[key])
        self._handed = {name: policy for name, policy in self.policies.items() if name not in owned}
        for name in self._handed:
            self._refuse_path(name)

    def _enter(self, optimizer: str, group: int, key: str, built: Any) -> set[str]:
        """Find the policies of one value; gives the names of those that are used."""
        own, shared = f"{optimizer}.{key}", key
        value = own if own in self.policies else shared if shared in self.policies else None
        factors = [name for name in (f"{own}{_FACTOR}", f"{shared}{_FACTOR}") if name in self.policies]
        if value is not None or factors:
            base = self.policies[value] if value is not None else built
            self._places[optimizer, group, key] = (base, [self.policies[name] for name in factors])
        return {name for name in (own, shared, *factors) if name in self.policies}

    def _refuse_path(self, name: str) -> None:
        if not name.isidentifier():
            keys = sorted({f"{place}.{key}" for place, _, key in self._all_keys()})
            raise BadInput(
                f"policy {name!r}: no optimizer has such a value; expected one of {', '.join(keys)}, or the name of "
                "an argument of the loss: mend the name"
            )

    def _all_keys(self) -> list[tuple[str, int, str]]:
        return [
            (name, number, key)
            for name, optimizer in self._optimizers.items()
            for number, group in enumerate(optimizer.param_groups)
            for key in group
            if key != "params"
        ]

    def apply(self) -> dict[str, Any]:
        """Write the values into the optimizers; gives what goes to the loss."""
        for (name, group, key), (base, factors) in self._places.items():
            value = base.value if isinstance(base, Policy) else base  # type: ignore[attr-defined]  # a policy of a value has one
            for factor in factors:
                value = value * factor.value  # type: ignore[attr-defined]  # and a factor too
            self._optimizers[name].param_groups[group][key] = value
        return {name: policy.value for name, policy in self._handed.items() if hasattr(policy, "value")}

    def values(self) -> dict[str, Any]:
        """What the policies say now, for logs."""
        return {name: policy.value for name, policy in self.policies.items() if hasattr(policy, "value")}


class MinibatchWorkerPool:
    """Trains a learner, minibatch by minibatch."""

    def __init__(self, learner: Learner) -> None:
        self.learner = learner
        self.settings = PolicySettings(learner.named_policies, learner.named_optimizers)
        self._optimizers = list(learner.named_optimizers.values())
        self._hash_tables = find_hash_tables(learner.model)

    def begin(self, uri: Uri) -> None:
        """The clocks of hash tables count the URIs that have data."""
        if uri.num_batches > 0:
            for tables in self._hash_tables:
                tables.advance_clock()

    def run(self, record: MinibatchRecord) -> float:
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


class PredictStep:
    """Applies a frozen learner: the same loop with another step."""

    def __init__(self, learner: Learner) -> None:
        self.learner = learner
        self.prediction: Any = None
        """Of the last minibatch."""

    def begin(self, uri: Uri) -> None:
        """A frozen model does not count."""

    def run(self, record: MinibatchRecord) -> float | None:
        with torch.no_grad():
            self.prediction = self.learner.predict(self.learner.model(record.inputs))
        return None

    def drain(self) -> None:
        self.prediction = None


def _describe(value: object) -> str:
    return f"a tensor of shape {list(value.shape)}" if isinstance(value, torch.Tensor) else type(value).__name__


@contextmanager
def frozen(model: torch.nn.Module, seed: int) -> Iterator[None]:
    """Evaluation mode and generators of its own; all as it was afterwards."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        with seeds.seeded(seed):
            yield
    finally:
        for module, is_training in modes.items():
            module.training = is_training
