"""Will the flight arrive more than 15 minutes late? A sum of one weight per id, and a small net over all of them."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

import samovar
from samovar.embeddings import HashAdagrad

IDS = ("carrier", "tailnum", "origin", "dest", "flight", "origin_day", "dest_day", "carrier_day", "weekday")
REAL = ("hour", "month", "distance", "visibility", "rain", "wind", "temperature", "pressure")


class Flights(samovar.BaseEmbeddingModel):
    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__(dict.fromkeys(IDS, dim))
        self.dim = dim
        self.top = nn.Sequential(nn.Linear(len(IDS) * dim + len(REAL), hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def get_required_features_list(self) -> list[str]:
        return [*IDS, *REAL]

    def forward(self, inputs: Mapping[str, Any]) -> torch.Tensor:
        joined = self.embedding.concat({name: inputs[name] for name in IDS}, [inputs[name] for name in REAL])
        said = joined[:, : len(IDS) * self.dim : self.dim].sum(1)  # the first number of each id
        output: torch.Tensor = self.top(joined)
        return output.squeeze(1) + said


def build(params: samovar.Params) -> samovar.Learner:
    model = Flights(params.get("dim", 8), params.get("hidden", 32))
    optimizers = {
        # Hours with flights, about nineteen per day: an id that is not seen for four weeks is forgotten.
        "emb": HashAdagrad(model.hash_embeddings(), lr=params.get("emb_lr", 0.05), ttl=params.get("ttl", 500)),
        "top": torch.optim.Adam(model.dense_parameters(), lr=params.get("top_lr", 0.001)),
    }
    return samovar.Learner(model, optimizers, loss, predict=torch.sigmoid)


def loss(output: torch.Tensor, targets: Mapping[str, torch.Tensor]) -> torch.Tensor:
    return nn.functional.binary_cross_entropy_with_logits(output, targets["late"])
