"""A wide and deep click model on hash embeddings: each id has a weight, and a vector for interactions."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

import samovar
from samovar.embeddings import HashAdagrad

FEATURES = ("user", "segment", "ad", "campaign", "place")


class Clicks(samovar.BaseEmbeddingModel):
    def __init__(self, dim: int) -> None:
        super().__init__(dict.fromkeys(FEATURES, dim + 1))
        self.deep = nn.Sequential(nn.Linear(len(FEATURES) * dim + 2, 32), nn.ReLU(), nn.Linear(32, 1))
        self.bias = nn.Parameter(torch.tensor(-2.0))

    def forward(self, inputs: Mapping[str, Any]) -> torch.Tensor:
        x = self.embed(inputs)
        wide = torch.stack([x[name][:, 0] for name in FEATURES]).sum(0)
        deep = torch.cat([*(x[name][:, 1:] for name in FEATURES), x["sin"].unsqueeze(1), x["cos"].unsqueeze(1)], 1)
        together: torch.Tensor = self.deep(deep).squeeze(1)
        return self.bias + wide + together

    def get_required_features_list(self) -> list[str]:
        return [*FEATURES, "sin", "cos"]


def loss(output: torch.Tensor, targets: Mapping[str, torch.Tensor]) -> torch.Tensor:
    return nn.functional.binary_cross_entropy_with_logits(output, targets["clicked"])


def build(params: samovar.Params) -> samovar.Learner:
    model = Clicks(params.get("dim", 8))
    optimizers = {
        "emb": HashAdagrad(model.hash_embeddings(), lr=params.get("emb_lr", 0.4), ttl=params.get("ttl", 72)),
        "net": torch.optim.Adam(model.dense_parameters(), lr=params.get("lr", 0.002)),
    }
    return samovar.Learner(model, optimizers, loss, predict=torch.sigmoid)
