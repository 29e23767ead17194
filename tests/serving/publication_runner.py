"""The process behind test_kill_points.py: forks children that publish and are killed at one disk operation each."""

import json
import shutil
import signal
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from tests.results.rehearsal import in_child

from samovar.callbacks.publishing import Publisher
from samovar.embeddings import HashEmbedding
from samovar.results import ResultDirectory, ResultPlan, begin
from samovar.scoring.program import EmbeddingPlan, Lookup, Node, Program, ProgramInput
from samovar.scoring.publication import Publishable, read_base, read_chain, read_delta
from samovar.scoring.signature import Signature
from samovar.scoring.weights import tree_over
from samovar.store import LocalStore
from samovar.store.disk import Disk
from samovar.tables import ColumnSchema
from samovar.testing.disks import CountingDisk, KillingDisk

HOURS, TTL = 4, 1
PROGRAM = Program(
    {"": EmbeddingPlan({"ad": 2}, {"ad": "ad"}, (), {"ad": TTL})},
    (Lookup("", "ad", "ad"),),
    (ProgramInput("pooled", "0"),),
    ("weight",),
    (Node("aten.mul.Tensor", ({"value": 0}, {"value": 1})),),
    {"": 2},
    1,
)
SIGNATURE = Signature((ColumnSchema("ad", "categorical", 1, "uint64", {"role": "id"}),))


def publish(root: Path, disk: Disk | None = None, first: int = 0) -> None:
    """Train, as it were, and publish each hour. A run that resumes has an older state than was published."""
    embedding = HashEmbedding({"ad": 2})
    embedding.set_optimizer("none", TTL)
    weight = torch.zeros(2)
    directory = ResultDirectory(LocalStore(root, disk))
    with begin(directory, ResultPlan("model", {"hours": HOURS}), heartbeat_seconds=None) as result:
        result.restore()
        publisher = Publisher(result, lambda: Publishable(PROGRAM, SIGNATURE, {"weight": weight}, {"": embedding}))
        run: Any = SimpleNamespace(next_uri=0, uri=None)
        publisher.on_run_begin(run)
        for hour in range(HOURS):
            embedding.advance_clock()
            train_hour(embedding, weight, hour)
            run.next_uri, run.uri = hour + 1, SimpleNamespace(name=f"2024-05-01T{hour:02d}:00")
            publisher.on_uri_end(run)


def train_hour(embedding: HashEmbedding, weight: torch.Tensor, hour: int) -> None:
    """Some ids return after they expired, others never do."""
    ids = np.array([1, 10 + hour, 20 + hour % 3, *range(1000, 1000 + (3000 if hour == 0 else 0))], np.uint64)
    rows = np.outer(ids.astype(np.float32), [1, hour + 1]).astype(np.float32)
    embedding.put_rows("ad", ids, np.full(len(ids), embedding.clock, np.uint32), rows)
    embedding.sweep()
    weight += hour


def files_of(root: Path) -> dict[str, bytes]:
    """What servers read, without what an earlier chain left."""
    store = LocalStore(root)
    chain = read_chain(store)
    assert [segment.uri for segment in chain] == list(range(chain[0].uri, HOURS + 1))
    tree = read_base(store, chain[0])[2]
    for segment in chain[1:]:
        tree = tree_over(tree, read_delta(store, segment), PROGRAM.embeddings)
    assert len(chain) > 2
    return {path: store.read(path) for segment in chain for path in segment.files}


def main(folder: Path, step: int) -> None:
    counting = CountingDisk()
    publish(folder / "straight", counting)
    expected = files_of(folder / "straight")
    chain = [segment.to_json() for segment in read_chain(LocalStore(folder / "straight"))]
    killed = 0
    for point in range(1, counting.points + 1, step):
        root = folder / "killed"
        shutil.rmtree(root, ignore_errors=True)
        code = in_child(lambda root=root, point=point: publish(root, KillingDisk(point)))  # type: ignore[misc]
        killed += code == -signal.SIGKILL
        read_chain(LocalStore(root))  # whole at any moment
        publish(root)
        assert files_of(root) == expected, point
        assert [segment.to_json() for segment in read_chain(LocalStore(root))] == chain, point
        leftovers = {entry.path for entry in LocalStore(root).list("published")} - expected.keys()
        assert not leftovers, (point, leftovers)
    print(json.dumps({"points": len(range(1, counting.points + 1, step)), "killed": killed}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
