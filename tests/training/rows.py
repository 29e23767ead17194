"""Raw rows with everything that brewing knows, and a model that reads all of it."""

from typing import Any

import numpy as np
import pandas as pd

COLUMNS: dict[str, Any] = {
    "user": "id",
    "ad": "hash",
    "tags": "hash",
    "title": {"text": {"words": 2}},
    "history": "id_sequence",
    "price": "number",
    "vector": "number",
    "clicked": "number",
    "hit": "key",
}

SCRIPT = """
import torch

import samovar
from samovar.embeddings import HashAdagrad


class Net(samovar.BaseEmbeddingModel):
    def __init__(self, dim):
        super().__init__(dict.fromkeys(["user", "ad", "tags", "title", "history"], dim))
        self.top = torch.nn.Sequential(torch.nn.Linear(5 * dim + 4, 24), torch.nn.ReLU(), torch.nn.Linear(24, 1))

    def get_required_features_list(self):
        return ["user", "ad", "tags", "title", "history", "price", "vector"]

    def forward(self, inputs):
        x = self.embed(inputs)
        parts = [x["user"], x["ad"], x["tags"], x["title"], x["history"].mean(1), x["price"].unsqueeze(1), x["vector"]]
        return self.top(torch.cat(parts, 1)).squeeze(1)


def loss(output, targets):
    return torch.nn.functional.binary_cross_entropy_with_logits(output, targets["clicked"])


def build(params):
    model = Net(params.get("dim", 4))
    optimizers = [
        torch.optim.Adam(model.dense_parameters(), lr=0.01),
        HashAdagrad(model.hash_embeddings(), lr=0.1, ttl=params.get("ttl", 3)),
    ]
    return samovar.Learner(model, optimizers, loss, torch.sigmoid)
"""


def make_frame(count: int = 600, hours: int = 6, seed: int = 0) -> pd.DataFrame:
    """Ids up to 2**64 - 1, nulls in every column but the time, the target and the key."""
    random = np.random.default_rng(seed)

    def some(values: Any) -> list[Any]:
        return [None if random.random() < 0.1 else value for value in values]

    ids = random.integers(0, 2**64, 40, dtype=np.uint64)
    return pd.DataFrame(
        {
            "time": pd.Timestamp("2024-05-01") + pd.to_timedelta(np.sort(random.integers(0, hours * 3600, count)), "s"),
            "user": pd.array(some(random.choice(ids, count).tolist()), "UInt64"),
            "ad": some(random.choice(["shoes", "hat", "книга", ""], count)),
            "tags": some([random.choice(["a", "b", "c"], random.integers(0, 4)).tolist() for _ in range(count)]),
            "title": some(random.choice(["red shoes", "A blue hat", "", "many many words here"], count)),
            "history": some([random.integers(0, 50, random.integers(0, 12)).tolist() for _ in range(count)]),
            "price": some(random.standard_normal(count).tolist()),
            "vector": some([random.standard_normal(3).tolist() for _ in range(count)]),
            "clicked": (random.random(count) < 0.3).astype(int),
            "hit": np.arange(count),
        }
    )
