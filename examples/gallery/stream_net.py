"""A net for rows that come in the order of time: a weight per id, and a small net over the vectors of ids and the
numbers. The config lists the columns and says what is predicted:

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
from samovar.embeddings import HashAdagrad

Function = Callable[..., Any]


class StreamNet(samovar.BaseEmbeddingModel):
    def __init__(self, params: samovar.Params) -> None:
        dim, hidden = params.get("dim", 8), params.get("hidden", 128)
        self.ids, self.numbers, self.pairs = list(params.ids), list(params.numbers), list(params.get("pairs", []))
        super().__init__(dict.fromkeys(self.ids, dim), init_scale=0.01)
        self.dim = dim
        self.takes_logarithms = params.predicts == "amount"
        width = len(self.ids) * dim + len(self.numbers) + 2 * len(self.pairs)
        self.net = nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, 1))
        self.start = nn.Parameter(torch.tensor(float(params.get("start", 0.0))))

    def get_required_features_list(self) -> list[str]:
        return [*self.ids, *self.numbers, *self.pairs]

    def forward(self, inputs: Mapping[str, Any]) -> torch.Tensor:
        numbers = torch.stack([inputs[name] for name in self.numbers], 1)
        if self.takes_logarithms:
            numbers = numbers.log1p()
        vectors = self.embed(inputs)
        joined = torch.cat([*(vectors[name] for name in self.ids), numbers, *(inputs[name] for name in self.pairs)], 1)
        wide = joined[:, : len(self.ids) * self.dim : self.dim].sum(1)  # the first number of each id
        deep: torch.Tensor = self.net(joined)
        return deep.squeeze(1) + wide + self.start


def build(params: samovar.Params) -> samovar.Learner:
    model = StreamNet(params)
    optimizers = {
        "emb": HashAdagrad(model.hash_embeddings(), lr=params.get("emb_lr", 0.1)),
        "net": torch.optim.Adam(model.dense_parameters(), lr=params.get("net_lr", 0.001)),
    }
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
    return samovar.Learner(model, optimizers, loss_of, predict, metrics=metrics)


def squared_error_of_logarithms(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return functional.mse_loss(output, target.log1p())


def rmse_of_logarithms(predictions: Any, targets: Mapping[str, Any], keys: Mapping[str, Any]) -> float:
    (target,) = targets.values()
    return float(np.sqrt(np.mean((np.log1p(predictions.clip(0)) - np.log1p(target)) ** 2)))
