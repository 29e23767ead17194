"""The net for streams of `samovar.nets`, for rows that come in the order of time. The config lists the columns and says
what is predicted:

    yes_or_no   0 or 1
    number      any number
    amount      a positive number of any size, by its logarithm
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

import samovar
from samovar.nets import StreamModel, stream_learner

Function = Callable[..., Any]


class StreamNet(StreamModel):
    """`StreamModel` with what it leaves to others: logarithms, columns of two numbers, a usual target to start at."""

    def __init__(self, params: samovar.Params) -> None:
        self.singles, self.pairs = list(params.numbers), list(params.get("pairs", []))
        parts = [f"{name} {place}" for name in self.pairs for place in (0, 1)]
        super().__init__(list(params.ids), [*self.singles, *parts])
        self.takes_logarithms = params.predicts == "amount"
        self.start = nn.Parameter(torch.tensor(float(params.get("start", 0.0))))

    def get_required_features_list(self) -> list[str]:
        return [*self.ids, *self.singles, *self.pairs]

    def forward(self, inputs: Mapping[str, Any]) -> torch.Tensor:
        parts = {f"{name} {place}": inputs[name][:, place] for name in self.pairs for place in (0, 1)}
        singles = {name: inputs[name] for name in self.singles}
        if self.takes_logarithms:
            singles = {name: value.log1p() for name, value in singles.items()}
        return super().forward({**inputs, **singles, **parts}) + self.start


def build(params: samovar.Params) -> samovar.Learner:
    model = StreamNet(params)
    losses: dict[str, tuple[Function, Function]] = {
        "yes_or_no": (functional.binary_cross_entropy_with_logits, torch.sigmoid),
        "number": (functional.mse_loss, nn.Identity()),
        "amount": (squared_error_of_logarithms, torch.expm1),
    }
    loss, predict = losses[params.predicts]

    def loss_of(output: torch.Tensor, targets: Mapping[str, torch.Tensor]) -> torch.Tensor:
        (target,) = targets.values()
        found: torch.Tensor = loss(output, target)
        return found

    metrics = {"rmse_of_logarithms": rmse_of_logarithms} if params.predicts == "amount" else {}
    optimizers = stream_learner(model, target="any").optimizers  # its loss is for yes or no
    return samovar.Learner(model, optimizers, loss_of, predict, metrics=metrics)


def squared_error_of_logarithms(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return functional.mse_loss(output, target.log1p())


def rmse_of_logarithms(predictions: Any, targets: Mapping[str, Any], keys: Mapping[str, Any]) -> float:
    (target,) = targets.values()
    return float(np.sqrt(np.mean((np.log1p(predictions.clip(0)) - np.log1p(target)) ** 2)))
