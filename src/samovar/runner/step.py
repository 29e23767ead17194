"""What the loop does with one minibatch: train on it, or predict. Knows no callbacks and no files.

A step is complete when `run` returns, so nothing is in flight when callbacks run. Reading ahead is the loader's work.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

import torch

from samovar import seeds
from samovar.config.values import nearest
from samovar.errors import BadInput
from samovar.policies import Policy
from samovar.runner.learner import Learner, Optimizer, find_hash_tables
from samovar.runner.uri import Uri
from samovar.tables.record import MinibatchRecord


class Step(Protocol):
    """What the loop needs: `MinibatchWorkerPool` trains, `PredictStep` predicts."""

    def begin(self, uri: Uri) -> None:
        """A URI begins."""

    def run(self, record: MinibatchRecord) -> float | None:
        """Process one minibatch. Returns its loss, if there is one."""

    def drain(self) -> None:
        """The URI ends. A step that works in the background must finish here."""


class MinibatchWorkerPool:
    """The step that trains: forward, loss, backward, update.

    Args:
        learner: What to train. Its policies are written into its optimizers before each minibatch. Create the pool
            before you restore a state: `lr_factor` multiplies the rate that the optimizer was built with.

    Example:
        >>> import torch
        >>> from samovar import Learner, MinibatchRecord, MinibatchWorkerPool
        >>> class Model(torch.nn.Linear):
        ...     def forward(self, inputs):
        ...         return super().forward(inputs["x"]).squeeze(1)
        >>> model = Model(3, 1)
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> learner = Learner(model, optimizer, lambda output, targets: (output - targets["y"]).square().mean())
        >>> pool = MinibatchWorkerPool(learner)
        >>> minibatch = MinibatchRecord({"x": torch.ones(8, 3)}, {"y": torch.ones(8)}, num_examples=8)
        >>> first, second = pool.run(minibatch), pool.run(minibatch)
        >>> second < first
        True
    """

    def __init__(self, learner: Learner) -> None:
        self.learner = learner
        self.settings = PolicySettings(learner.named_policies, learner.named_optimizers)
        self._optimizers = list(learner.named_optimizers.values())
        self._hash_tables = find_hash_tables(learner.model)

    def begin(self, uri: Uri) -> None:
        """Advance the clocks of hash tables, which count URIs with data."""
        if uri.num_batches > 0:
            for tables in self._hash_tables:
                tables.advance_clock()

    def run(self, record: MinibatchRecord) -> float:
        """Train on one minibatch.

        Returns:
            The loss before the update.

        Raises:
            BadInput: The loss is not a tensor with one number.
        """
        arguments = self.settings.apply()
        for optimizer in self._optimizers:
            optimizer.zero_grad()
        output = self.learner.model(record.inputs)
        loss = self.learner.loss(output, record.targets, **arguments)
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
            raise BadInput(f"loss must return a tensor with one number, got {_describe(loss)}")
        loss.backward()  # type: ignore[no-untyped-call]  # torch gives it no types
        for optimizer in self._optimizers:
            optimizer.step()
        return float(loss.item())

    def drain(self) -> None:
        """Free the gradients of the last minibatch."""
        for optimizer in self._optimizers:
            optimizer.zero_grad()


class PredictStep:
    """The step that predicts. Run it inside `frozen`."""

    def __init__(self, learner: Learner) -> None:
        self.learner = learner
        self.prediction: Any = None
        """Of the last minibatch."""

    def begin(self, uri: Uri) -> None:
        """Predicting does not advance clocks."""

    def run(self, record: MinibatchRecord) -> float | None:
        with torch.no_grad():
            self.prediction = self.learner.predict(self.learner.model(record.inputs))
        return None

    def drain(self) -> None:
        self.prediction = None


@contextmanager
def frozen(model: torch.nn.Module, seed: int) -> Iterator[None]:
    """Switch to evaluation mode and to random generators seeded with `seed`; restore both afterwards."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        with seeds.seeded(seed):
            yield
    finally:
        for module, is_training in modes.items():
            module.training = is_training


_FACTOR = "_factor"


class PolicySettings:
    """Writes the values of policies into the optimizers before each step.

        lr           `lr` of every optimizer; `emb.lr` only of the optimizer named emb, where it wins over `lr`
        lr_factor    multiplies the policy's value, or the value that the optimizer was built with
        margin       no optimizer has this setting: it becomes an argument of the loss

    Create it before a state is restored: a restored optimizer no longer has the values that it was built with.
    """

    def __init__(self, policies: Mapping[str, Policy], optimizers: Mapping[str, Optimizer]) -> None:
        self.policies = dict(policies)
        self._optimizers = dict(optimizers)
        self._written: dict[tuple[str, int, str], tuple[Any, list[Policy]]] = {}
        """By optimizer, group and key: a policy or the value it was built with, and the factors."""
        used: set[str] = set()
        for name, optimizer in self._optimizers.items():
            for number, group in enumerate(optimizer.param_groups):
                for key in sorted(group.keys() - {"params"}):
                    used |= self._assign(name, number, key, group[key])
        self._loss_arguments = {name: policy for name, policy in self.policies.items() if name not in used}
        for name in self._loss_arguments:
            self._check_argument(name)

    def _assign(self, optimizer: str, group: int, key: str, built: Any) -> set[str]:
        """Find the policies of one setting; returns the names of those that concern it."""
        own, shared = f"{optimizer}.{key}", key
        chosen = own if own in self.policies else shared if shared in self.policies else None
        factors = [name for name in (f"{own}{_FACTOR}", f"{shared}{_FACTOR}") if name in self.policies]
        if chosen is not None or factors:
            base = self.policies[chosen] if chosen is not None else built
            self._written[optimizer, group, key] = (base, [self.policies[name] for name in factors])
        return {name for name in (own, shared, *factors) if name in self.policies}

    def _check_argument(self, name: str) -> None:
        if name.isidentifier():
            return
        known = sorted(
            {
                f"{optimizer}.{key}"
                for optimizer, each in self._optimizers.items()
                for group in each.param_groups
                for key in group.keys() - {"params"}
            }
        )
        guess = nearest(name, known)
        hint = f" Did you mean {guess!r}?" if guess else ""
        raise BadInput(f"policy {name!r}: no optimizer has this setting.{hint} Available: {', '.join(known)}")

    def apply(self) -> dict[str, Any]:
        """Write the values into the optimizers. Returns the arguments of the loss."""
        for (name, group, key), (base, factors) in self._written.items():
            value = base.value if isinstance(base, Policy) else base  # type: ignore[attr-defined]  # policies of settings have one
            for factor in factors:
                value = value * factor.value  # type: ignore[attr-defined]  # factors too
            self._optimizers[name].param_groups[group][key] = value
        return {name: policy.value for name, policy in self._loss_arguments.items() if hasattr(policy, "value")}


def _describe(value: object) -> str:
    return f"a tensor of shape {list(value.shape)}" if isinstance(value, torch.Tensor) else type(value).__name__
