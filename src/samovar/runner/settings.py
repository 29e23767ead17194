"""Policies at work: before each step their values go where their names say. Knows no loop.

lr           "lr" of every optimizer's groups; `emb.lr` only of the optimizer named emb, and it wins there
lr_factor    multiplies what stands there: the policy's value, or what the optimizer was built with
anything     else is handed to the loss by its name
"""

from collections.abc import Mapping
from typing import Any

from samovar.errors import BadInput
from samovar.policies import Policy
from samovar.runner.learner import Optimizer

_FACTOR = "_factor"


class Settings:
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
