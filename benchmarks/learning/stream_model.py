"""The net of examples/flights for any columns: a weight per id, and a small net over the ids' vectors and numbers."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

import samovar
from samovar.embeddings import HashAdagrad


class WideAndDeep(samovar.BaseEmbeddingModel):
    def __init__(self, ids: list[str], numbers: list[str], dim: int, hidden: int) -> None:
        super().__init__(dict.fromkeys(ids, dim))
        self.ids, self.numbers, self.dim = ids, numbers, dim
        self.top = nn.Sequential(nn.Linear(len(ids) * dim + len(numbers), hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def get_required_features_list(self) -> list[str]:
        return [*self.ids, *self.numbers]

    def forward(self, inputs: Mapping[str, Any]) -> torch.Tensor:
        numbers = [inputs[name] for name in self.numbers]
        if not self.ids:
            output: torch.Tensor = self.top(torch.stack(numbers, 1))
            return output.squeeze(1)
        joined = self.embedding.concat({name: inputs[name] for name in self.ids}, numbers)
        wide = joined[:, : len(self.ids) * self.dim : self.dim].sum(1)  # the first number of each id
        deep: torch.Tensor = self.top(joined)
        return deep.squeeze(1) + wide


def build(params: samovar.Params) -> samovar.Learner:
    ids, numbers = list(params.ids), list(params.numbers)
    model = WideAndDeep(ids, numbers, params.get("dim", 8), params.get("hidden", 32))
    optimizers: dict[str, Any] = {"top": torch.optim.Adam(model.dense_parameters(), lr=params.get("top_lr", 0.001))}
    emb_lr = params.get("emb_lr", 0.05)
    if ids:
        optimizers["emb"] = HashAdagrad(model.hash_embeddings(), lr=emb_lr)
    return samovar.Learner(model, optimizers, loss, predict=torch.sigmoid)


def loss(output: torch.Tensor, targets: Mapping[str, torch.Tensor]) -> torch.Tensor:
    return nn.functional.binary_cross_entropy_with_logits(output, targets["target"])
