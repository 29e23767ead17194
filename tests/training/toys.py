"""Small click tables, a dense model, and training runs in forked children."""

import importlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from tests.places import local
from tests.waiting import wait_until

from samovar.config import merge
from samovar.provenance.verify import Child, ChildExit, run_in_child, start_child
from samovar.results import ResultDirectory, ResultPlan, begin
from samovar.store import LocalStore
from samovar.store.disk import Disk
from samovar.tables import ColumnSchema, Ids, TableSchema, open_table
from samovar.tables.cell import Compression
from samovar.tables.manifest import Manifest, commit_manifest
from samovar.tables.schema import Minibatch
from samovar.tables.writer import write_segment
from samovar.training.request import Request, make_request
from samovar.training.session import run_training

HOUR = 3600
FIRST = 1_609_459_200  # 2021-01-01T00:00 UTC

SCHEMA = TableSchema(
    (
        ColumnSchema("ad", "categorical", 1, "int64"),
        ColumnSchema("words", "categorical", 1, "list<item: uint64>"),
        ColumnSchema("price", "real", 1, "double"),
        ColumnSchema("clicked", "real", 1, "int64"),
        ColumnSchema("hit", "key", 1, "int64"),
        ColumnSchema("user", "key", 1, "string"),
    ),
    ("hour",),
)

SCRIPT = """
import torch
from torch import nn

import samovar
from samovar.policies import Exponential


class Model(nn.Module):
    def __init__(self, buckets, dim):
        super().__init__()
        self.buckets = buckets
        self.ads = nn.EmbeddingBag(buckets, dim, mode="sum")
        self.net = nn.Sequential(nn.Linear(dim + 1, 8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 1))

    def forward(self, inputs):
        bag = inputs["ad"]
        lengths = bag.data_len.long()
        ads = self.ads(bag.data.remainder(self.buckets), lengths.cumsum(0) - lengths)
        return self.net(torch.cat([ads, inputs["price"].unsqueeze(1)], 1)).squeeze(1)

    def get_required_features_list(self):
        return ["ad", "price"]


class CountHours(samovar.Callback):
    def __init__(self):
        self.hours = 0

    def on_uri_end(self, run):
        self.hours += 1

    def state_dict(self):
        return {"hours": self.hours}

    def load_state_dict(self, state):
        self.hours = state["hours"]


def loss(output, targets, smoothing):
    wanted = targets["clicked"] * (1 - smoothing) + smoothing / 2
    return nn.functional.binary_cross_entropy_with_logits(output, wanted)


def build(params):
    model = Model(params.get("buckets", 50), params.get("dim", 4))
    optimizers = {"net": torch.optim.Adam(model.parameters(), lr=1.0)}
    policies = {"net.lr": Exponential(params.lr, 0.95), "smoothing": 0.01}
    return samovar.Learner(model, optimizers, loss, torch.sigmoid, policies, [CountHours()])
"""


def make_minibatch(number: int, hour: int | None, size: int = 32) -> Minibatch:
    """Random rows, the same for the same number. Clicks depend on the ad."""
    generator = np.random.Generator(np.random.Philox(key=number))
    ads = generator.zipf(1.5, size).astype(np.uint64) % np.uint64(1000)
    lengths = generator.integers(0, 4, size).astype(np.int32)
    clicked = (generator.random(size) < 0.1 + 0.5 * (ads % 3 == 0)).astype(np.float32)
    users = [None if index % 5 == 4 else f"user {index}" for index in range(size)]
    return Minibatch(
        hour,
        size,
        {
            "ad": Ids(ads, np.ones(size, np.int32)),
            "words": Ids(generator.integers(0, 100, int(lengths.sum()), np.uint64), lengths),
            "price": generator.standard_normal(size).astype(np.float32),
            "clicked": clicked,
            "hit": pa.array(np.arange(size) + number * 1000, pa.int64()),
            "user": pa.array(users, pa.string()),
        },
    )


def make_hours(batches: Sequence[int], first: int = FIRST, number: int = 0) -> list[Minibatch]:
    """The given number of minibatches in each hour; 0 makes an hour without rows."""
    made: list[Minibatch] = []
    for offset, count in enumerate(batches):
        for _ in range(count):
            made.append(make_minibatch(number + len(made), first + offset * HOUR))
    return made


def write_table(
    path: Path,
    minibatches: Sequence[Minibatch],
    schema: TableSchema = SCHEMA,
    complete_until: int | None = None,
    table_id: str = "clicks",
    compression: str = "zstd",
) -> Path:
    """Write a table, or add a version to an existing one."""
    store = LocalStore(path)
    before = open_table(store) if store.attributes().values.get("versions") else None
    version, first_minibatch = (before.version + 1, before.num_minibatches) if before else (1, 0)
    with begin(ResultDirectory(store), ResultPlan("table", {"id": table_id}), heartbeat_seconds=None) as result:
        result.restore()
        segment = write_segment(
            store,
            schema,
            minibatches,
            number=version,
            first_minibatch=first_minibatch,
            compression=Compression.parse(compression),
        )
        manifest = Manifest(version, table_id, schema, compression, segment, complete_until)
        commit_manifest(store, result.commit, manifest)
    return path


OFFLINE: dict[str, Any] = {
    "model": {"lr": 0.05},
    "num_threads": 1,
    "snapshotter": {"frequency": 0},
    "train_data": {"table": "clicks", "targets": ["clicked"], "epoch_count": 2, "uri_granularity": 3},
}
ONLINE: dict[str, Any] = {
    "pipeline": "online",
    "model": {"lr": 0.05},
    "num_threads": 1,
    "snapshotter": {"frequency": 0},
    "train_data": {"table": "clicks", "targets": ["clicked"]},
    "evaluation": {"eval_confs": [{"name": "log", "keys": ["hit", "user"], "table": "clicks", "shifts": [1, 2]}]},
}


def make_toy(
    folder: Path, config: Mapping[str, Any], change: Mapping[str, Any] | None = None, script: str = SCRIPT
) -> Request:
    """A request in a folder, next to the table `clicks`."""
    (folder / "config.json").write_text(json.dumps(merge(config, change or {})))
    (folder / "script.py").write_text(script)
    return make_request(folder / "config.json", folder / "script.py", out=folder / "model")


def changed(request: Request, out: str, change: Mapping[str, Any] | None = None) -> Request:
    """The same run in another directory, with changed keys."""
    return replace(request, out=request.folder / out, tree=merge(request.tree, change or {}))


def _preload() -> None:
    """Import it once, not in every child."""
    importlib.import_module("torch._dynamo")


def run(request: Request, disk: Disk | None = None) -> ChildExit:
    """Train in a forked child, which may be killed and leaves no threads, seeds or modules behind."""
    _preload()
    return run_in_child(lambda: run_training(replace(request, disk=disk)), local(request.folder) / "child.log")


def run_well(request: Request) -> Path:
    ended = run(request)
    assert ended.code == 0, ended.output
    return local(request.out)


def metrics(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "logs" / "metrics.jsonl").read_text().splitlines()]


def start(request: Request) -> Child:
    """Start a run without waiting for its end."""
    _preload()
    return start_child(lambda: run_training(request), local(request.folder) / "child.log")


def wait_while_running(child: Child, condition: Callable[[], bool]) -> None:
    """Wait for a condition; fail if the child ends first."""

    def check() -> bool:
        assert child.poll() is None
        return condition()

    wait_until(check, "the child reaches the condition")
