"""The limit: Samovar's model in a hand-written loop over minibatches in memory. Without Samovar's loop and callbacks;
reading is not timed.

python -m benchmarks.training_peers.bare FOLDER NUM_BATCHES: takes turns
"""

import sys
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import torch
from benchmarks.training_peers.base import NUM_THREADS, answer
from benchmarks.training_peers.data import TABLE
from benchmarks.training_peers.script import build

from samovar.config import Params
from samovar.runner import Columns, Learner, Loader, MinibatchRecord, TableStream, Uri
from samovar.tables import open_table

NAME = "Samovar's model, bare steps in memory"


def train(learner: Learner, records: Sequence[MinibatchRecord]) -> float:
    optimizers = list(learner.named_optimizers.values())
    total = 0.0
    for record in records:
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss = learner.loss(learner.model(record.inputs), record.targets)
        loss.backward()  # type: ignore[no-untyped-call]  # torch gives it no types
        for optimizer in optimizers:
            optimizer.step()
        total += loss.item()
    return total / len(records)


def main(folder: Path, num_batches: int) -> None:
    torch.set_num_threads(NUM_THREADS)
    learner = build(Params({}))
    table = open_table(folder / TABLE)
    features = learner.required_features()
    assert features is not None
    with Loader() as loader:
        rows = range(table.num_minibatches)
        stream = TableStream(table, rows, Columns(features, ["label"]))
        reading = loader.read(Uri(0, "all", stream, 0, len(rows), 0))
        for _ in sys.stdin:
            records = list(islice(reading, num_batches))
            start = time.perf_counter()
            loss = train(learner, records)
            answer(sum(record.num_examples for record in records), time.perf_counter() - start, loss)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
