"""A folder for mistakes: a log, a table, a finished model, configs, and what a user could confuse with them."""

import json
from pathlib import Path

import numpy as np
import pandas as pd

import samovar

SCRIPT = """
import torch

import samovar


class Net(torch.nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.ads = torch.nn.EmbeddingBag(50, dim, mode="sum")
        self.top = torch.nn.Linear(dim + 1, 1)

    def get_required_features_list(self):
        return ["user", "price"]

    def forward(self, inputs):
        bag = inputs["user"]
        lengths = bag.data_len.long()
        users = self.ads(bag.data.remainder(50), lengths.cumsum(0) - lengths)
        return self.top(torch.cat([users, inputs["price"].unsqueeze(1)], 1)).squeeze(1)


def loss(output, targets):
    return torch.nn.functional.binary_cross_entropy_with_logits(output, targets["clicked"])


def build(params):
    model = Net(params.get("dim", 4))
    return samovar.Learner(model, torch.optim.SGD(model.parameters(), lr=params.get("lr", 0.1)), loss, torch.sigmoid)
"""
COLUMNS = {"user": "id", "ad": "hash", "price": "number", "clicked": "number", "hit": "key"}
RECIPE = {"source": "log.csv", "result": "new_clicks", "time_field": "time", "columns": COLUMNS, "batch_size": 64}
TRAIN_DATA = {"table": "clicks", "targets": ["clicked"], "epoch_count": 1}
OFFLINE = {
    "pipeline": "offline",
    "model_dir": "click",
    "num_threads": 1,
    "model": {"lr": 0.1},
    "train_data": TRAIN_DATA,
    "evaluation": {"eval_confs": [{"name": "seen", "table": "clicks", "keys": ["hit"]}]},
}
ONLINE = {"pipeline": "online", "num_threads": 1, "train_data": {"table": "clicks", "targets": ["clicked"]}}
EXPERIMENT = {"base": "offline.json", "script": "model.py", "grid": {"model.lr": [0.1, 0.2]}}


def make_log(count: int = 200) -> pd.DataFrame:
    random = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "time": pd.Timestamp("2024-05-01") + pd.to_timedelta(np.arange(count) * 60, "s"),
            "user": random.integers(0, 20, count),
            "ad": [f"ad{number}" for number in random.integers(0, 5, count)],
            "price": random.random(count).round(3),
            "clicked": random.integers(0, 2, count),
            "hit": np.arange(count),
        }
    )


def fill() -> None:
    """Write everything into the current folder."""
    log = make_log()
    log.to_csv("log.csv", index=False)
    words = log.astype({"clicked": object})
    words.loc[120, "clicked"] = "yes"
    words.to_csv("yes.csv", index=False)
    files = {
        "recipe.json": RECIPE,
        "offline.json": OFFLINE,
        "online.json": ONLINE,
        "experiment.json": EXPERIMENT,
        "yes.json": {**RECIPE, "source": "yes.csv"},
        "hdfs.json": {**RECIPE, "source": "hdfs://bucket/log.parquet"},
        "missing.json": {**RECIPE, "source": "logs.csv"},
        "txt.json": {**RECIPE, "columns": {"user": "id", "ad": {"txt": {"words": 2}}}},
        "role.json": {**RECIPE, "columns": {"user": "idd"}},
        "column.json": {**RECIPE, "columns": {"users": "id"}},
        "kind.json": {**RECIPE, "columns": {"ad": "number"}},
        "time.json": {**RECIPE, "time_field": "when"},
        "zero.json": {**RECIPE, "batch_size": 0},
        "quoted.json": {**RECIPE, "batch_size": "64"},
        "typo.json": {**RECIPE, "bath_size": 64},
        "lrr.json": {**OFFLINE, "model": {"lrr": 0.1}, "model_dir": "typo"},
        "stage.json": {"count": 3},
    }
    for name, tree in files.items():
        Path(name).write_text(json.dumps(tree))
    Path("model.py").write_text(SCRIPT)
    Path("shape.py").write_text(SCRIPT.replace(".squeeze(1)", ""))
    Path("vector.py").write_text(SCRIPT.replace('targets["clicked"])', 'targets["clicked"], reduction="none")'))
    Path("nothing.py").write_text("x = 1\n")
    Path("syntax.py").write_text("def build(params)\n    pass\n")
    Path("returns.py").write_text("def build(params):\n    return 3\n")
    Path("exits.py").write_text("import sys\nsys.exit(0)\n")
    Path("stage.py").write_text("def main(params, out):\n    return params.number\n")
    Path("broken.json").write_text('{"seed": 1,\n "model": }')
    Path("list.json").write_text("[1, 2]")
    Path("twice.json").write_text('{"seed": 1, "seed": 2}')
    Path("rows.xlsx").write_bytes(b"PK")
    Path("empty.csv").write_text("")
    samovar.brew("log.csv", "clicks", time="time", columns=COLUMNS, batch_size=64, progress=False)
    samovar.train("model.py", config="offline.json", progress=False)
