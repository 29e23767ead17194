"""The limit: Samovar's model in a hand-written loop over minibatches in memory. Without Samovar's loop and callbacks;
reading is not timed.

python -m benchmarks.training_peers.bare FOLDER NUM_BATCHES [NUM_THREADS] [predict]: takes turns; with `predict`, the
model also predicts each minibatch before it learns from it
"""

import sys
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from pathlib import Path

import torch
from benchmarks.training_peers.base import NUM_THREADS, Stopwatch
from benchmarks.training_peers.data import TABLE
from benchmarks.training_peers.script import build

from samovar.config import Params
from samovar.runner import Columns, Learner, Loader, MinibatchRecord, TableStream, Uri
from samovar.tables import open_table

NAME = "Samovar's model, bare steps in memory"
PREDICT = "predict"


def train(learner: Learner, records: Sequence[MinibatchRecord], is_predicted: bool) -> float:
    optimizers = list(learner.named_optimizers.values())
    total = 0.0
    for record in records:
        if is_predicted:
            learner.model.eval()
            with torch.no_grad():
                learner.predict(learner.model(record.inputs))
            learner.model.train()
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss = learner.loss(learner.model(record.inputs), record.targets)
        loss.backward()  # type: ignore[no-untyped-call]  # torch gives it no types
        for optimizer in optimizers:
            optimizer.step()
        total += loss.item()
    return total / len(records)


def take_turns(
    folder: Path, num_batches: int, num_threads: int, train: Callable[[Learner, Sequence[MinibatchRecord]], float]
) -> None:
    """Read the minibatches of each turn before the clock starts."""
    torch.set_num_threads(num_threads)
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
            stopwatch = Stopwatch()
            loss = train(learner, records)
            stopwatch.answer(sum(record.num_examples for record in records), loss)


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[2:] if word != PREDICT]
    take_turns(Path(sys.argv[1]), given[0], (*given, NUM_THREADS)[1], partial(train, is_predicted=PREDICT in sys.argv))
