"""How values over time reach the optimizers: policies, and torch's own schedulers of learning rates. The pool says when
a step begins or ends.
"""

import copy
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from torch.optim.lr_scheduler import ReduceLROnPlateau

from samovar.config.values import suggest
from samovar.errors import BadInput, Conflict
from samovar.policies import Policy
from samovar.runner.learner import Learner, Optimizer

_FACTOR = "_factor"


class PolicySettings:
    """Writes the values of policies into the optimizers before each step.

        lr           `lr` of every optimizer; `emb.lr` only of the optimizer named emb, where it wins over `lr`
        lr_factor    multiplies the policy's value, or the value that the optimizer was built with
        margin       no optimizer has this setting: it becomes an argument of the loss

    Create it before a state is restored: a restored optimizer no longer has the values that it was built with.
    """

    def __init__(
        self, policies: Mapping[str, Policy], optimizers: Mapping[str, Optimizer], schedulers: Iterable[Any] = ()
    ) -> None:
        self.policies = dict(policies)
        self._optimizers = dict(optimizers)
        self._scheduled = {id(each.optimizer) for each in schedulers}
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
            if key == "lr" and id(self._optimizers[optimizer]) in self._scheduled:
                raise BadInput(
                    f"lr of the optimizer {optimizer!r} is set by the policy {(chosen or factors[0])!r} and by a "
                    "scheduler. Remove one of them"
                )
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
        raise BadInput(f"policy {name!r}: no optimizer has this setting{suggest(name, known)}")

    def begin_step(self) -> dict[str, Any]:
        """Let policies move on by a step, then `apply` them."""
        start_step(self.policies.values())
        return self.apply()

    def apply(self) -> dict[str, Any]:
        """Write the values into the optimizers. Returns the arguments of the loss."""
        for (name, group, key), (base, factors) in self._written.items():
            value = base.value if isinstance(base, Policy) else base  # type: ignore[attr-defined]  # policies of settings have one
            for factor in factors:
                value = value * factor.value  # type: ignore[attr-defined]  # factors too
            self._optimizers[name].param_groups[group][key] = value
        return {name: policy.value for name, policy in self._loss_arguments.items() if hasattr(policy, "value")}


def start_step(policies: Iterable[Policy]) -> None:
    """Tell each policy that a step starts; one under several names is told once."""
    for policy in {id(each): each for each in policies}.values():
        policy.step_started()


# torch's schedulers


def advance(scheduler: Any, loss: float) -> None:
    """One step of a scheduler; `ReduceLROnPlateau` judges the loss."""
    if isinstance(scheduler, ReduceLROnPlateau):
        scheduler.step(loss)
    else:
        scheduler.step()


def scheduled_rates(learner: Learner) -> dict[str, float]:
    """The rates that schedulers set: `lr`, or `emb.lr` if there are several optimizers."""
    optimizers = learner.named_optimizers
    scheduled = {id(each.optimizer) for each in learner.all_schedulers}
    return {
        "lr" if len(optimizers) == 1 else f"{name}.lr": float(optimizer.param_groups[0]["lr"])
        for name, optimizer in optimizers.items()
        if id(optimizer) in scheduled
    }


def schedulers_state(learner: Learner) -> dict[str, list[Any]]:
    """The states by unit, as plain values."""
    return {
        unit: [_plain(scheduler.state_dict()) for scheduler in several]
        for unit, several in learner.named_schedulers.items()
    }


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):  # a MultiStepLR has a Counter
        return {key: _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list) else value


def load_schedulers(learner: Learner, saved: Mapping[str, Sequence[Any]]) -> None:
    """Restore what `schedulers_state` returned, and the rates that the schedulers had set.

    Raises:
        Conflict: The learner has other schedulers.
    """
    found = learner.named_schedulers
    if {unit: len(each) for unit, each in saved.items()} != {unit: len(each) for unit, each in found.items()}:
        raise Conflict(
            f"the saved state has {_count(saved)}, but the script builds {_count(found)}. Restore the script that "
            "saved it, or start a new directory"
        )
    for unit, several in found.items():
        for scheduler, state in zip(several, saved[unit], strict=True):
            state = copy.deepcopy(dict(state))
            if isinstance(getattr(scheduler, "milestones", None), Counter):
                state["milestones"] = Counter(state["milestones"])
            scheduler.load_state_dict(state)
            for group, rate in zip(scheduler.optimizer.param_groups, scheduler.get_last_lr(), strict=True):
                group["lr"] = rate


def _count(schedulers: Mapping[str, Sequence[Any]]) -> str:
    counts = [f"{len(several)} by {unit}" for unit, several in schedulers.items()]
    return f"schedulers ({', '.join(counts)})" if counts else "no schedulers"
