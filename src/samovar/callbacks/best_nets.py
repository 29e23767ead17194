"""The best nets of a run: kept in its snapshots, averaged at the end. Knows no files."""

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from samovar.errors import BadInput
from samovar.runner import Callback, Run

Weights: TypeAlias = dict[str, Any]
"""Tensors, and extra state as the modules gave it."""
NEAR = 0.1
"""Nets within this part of the least loss are averaged."""


@dataclass(frozen=True)
class Net:
    epoch: int
    loss: float
    weights: Weights


class BestNets(Callback):
    """Keeps the `count` nets of the least loss; calls `on_minimum` for each new least one."""

    def __init__(
        self, count: int, measure: Callable[[Run], float | None], on_minimum: Callable[[Net], None] = lambda net: None
    ) -> None:
        self._count = count
        self._measure = measure
        self._on_minimum = on_minimum
        self.nets: list[Net] = []
        """Best first; of equal ones the earlier is the better."""

    @property
    def best(self) -> Net | None:
        return self.nets[0] if self.nets else None

    def on_uri_end(self, run: Run) -> None:
        loss = self._measure(run)
        if loss is None or not math.isfinite(loss):
            return
        if len(self.nets) == self._count and loss >= self.nets[-1].loss:
            return
        assert run.uri is not None
        weights = {name: self._copy(name, value) for name, value in run.model.state_dict().items()}
        net = Net(run.uri.epoch, loss, weights)
        is_minimum = self.best is None or loss < self.best.loss
        self.nets = sorted([*self.nets, net], key=lambda each: (each.loss, each.epoch))[: self._count]
        if is_minimum:
            self._on_minimum(net)

    def _copy(self, name: str, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value.detach().cpu().clone()
        if self._count > 1:
            raise BadInput(
                f"{name}: is no tensor (hash tables?), and has no mean over nets; expected tensors: keep one net, "
                "n_best_nets=1"
            )
        return copy.deepcopy(value)

    def state_dict(self) -> Mapping[str, Any]:
        return {"nets": [{"epoch": net.epoch, "loss": net.loss, "weights": net.weights} for net in self.nets]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.nets = [Net(each["epoch"], each["loss"], dict(each["weights"])) for each in state["nets"]]


def choose_near(nets: Sequence[Net]) -> list[Net]:
    """Those whose loss differs from the least by no more than a tenth of it."""
    least = min(net.loss for net in nets)
    return [net for net in nets if net.loss - least <= NEAR * abs(least)]


def average(nets: Sequence[Net]) -> Weights:
    """The mean of parameters and buffers; a counter's mean is rounded."""
    averaged = {}
    for name, first in nets[0].weights.items():
        mean = torch.stack([net.weights[name].double() for net in nets]).mean(0)
        averaged[name] = (mean if first.is_floating_point() else mean.round()).to(first.dtype)
    return averaged
