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
"""Tensors, and the extra state of modules."""
NEAR = 0.1
"""Nets whose loss is within this fraction of the least loss are averaged."""


@dataclass(frozen=True)
class Net:
    """The weights of a model after an epoch."""

    epoch: int
    loss: float
    weights: Weights


class BestNets(Callback):
    """Keeps copies of the nets with the least loss. They are part of every snapshot.

    Args:
        num_nets: How many to keep.
        measure: Returns the loss of a URI; None or a loss that is not finite keeps nothing.
        on_minimum: Called with each net that is better than all before.

    Raises:
        BadInput: Several nets are to be kept, but the model has state that is not a tensor and cannot be averaged.

    Example:
        >>> best = BestNets(3, measure=lambda run: run.mean_loss)
        >>> Runner(pool, loader, [best]).run(run, uris)
        >>> best.best.loss <= best.nets[-1].loss
        True
        >>> averaged = average(select_near_best(best.nets))
    """

    def __init__(
        self,
        num_nets: int,
        measure: Callable[[Run], float | None],
        on_minimum: Callable[[Net], None] = lambda net: None,
    ) -> None:
        self._num_nets = num_nets
        self._measure = measure
        self._on_minimum = on_minimum
        self.nets: list[Net] = []
        """Best first; of two with the same loss, the earlier."""

    @property
    def best(self) -> Net | None:
        """The best net so far."""
        return self.nets[0] if self.nets else None

    def on_uri_end(self, run: Run) -> None:
        loss = self._measure(run)
        if loss is None or not math.isfinite(loss):
            return
        if len(self.nets) == self._num_nets and loss >= self.nets[-1].loss:
            return
        assert run.uri is not None
        weights = {name: self._copy(name, value) for name, value in run.model.state_dict().items()}
        net = Net(run.uri.epoch, loss, weights)
        is_minimum = self.best is None or loss < self.best.loss
        self.nets = sorted([*self.nets, net], key=lambda each: (each.loss, each.epoch))[: self._num_nets]
        if is_minimum:
            self._on_minimum(net)

    def _copy(self, name: str, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value.detach().cpu().clone()
        if self._num_nets > 1:
            raise BadInput(
                f"{name}: cannot be averaged over nets, because it is not a tensor (a hash table?). Keep one net: "
                "n_best_nets=1"
            )
        return copy.deepcopy(value)

    def state_dict(self) -> Mapping[str, Any]:
        return {"nets": [{"epoch": net.epoch, "loss": net.loss, "weights": net.weights} for net in self.nets]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.nets = [Net(each["epoch"], each["loss"], dict(each["weights"])) for each in state["nets"]]


def select_near_best(nets: Sequence[Net]) -> list[Net]:
    """The nets whose loss differs from the least by at most a tenth of it."""
    least = min(net.loss for net in nets)
    return [net for net in nets if net.loss - least <= NEAR * abs(least)]


def average(nets: Sequence[Net]) -> Weights:
    """The mean of parameters and buffers; the mean of integers is rounded."""
    averaged = {}
    for name, first in nets[0].weights.items():
        mean = torch.stack([net.weights[name].double() for net in nets]).mean(0)
        averaged[name] = (mean if first.is_floating_point() else mean.round()).to(first.dtype)
    return averaged
