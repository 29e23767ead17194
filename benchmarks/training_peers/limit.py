"""The limit of a step: the embeddings of Samovar's model alone, then its dense part alone, on minibatches in memory.
Both are as large as in a real step; between them nothing is joined up.

python -m benchmarks.training_peers.limit FOLDER NUM_BATCHES: takes turns
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from benchmarks.contest.clicks import CATEGORICAL
from benchmarks.training_peers.bare import take_turns
from benchmarks.training_peers.base import NUM_THREADS
from benchmarks.training_peers.script import FLOATS, Clicks

from samovar.runner import Learner, MinibatchRecord

NAME = "the limit: embeddings alone, dense part alone"


def step(learner: Learner, record: MinibatchRecord) -> float:
    model, optimizers = learner.model, learner.named_optimizers
    assert isinstance(model, Clicks)
    for optimizer in optimizers.values():
        optimizer.zero_grad()
    inputs: Mapping[str, Any] = record.inputs
    ids = {name: inputs[name] for name in CATEGORICAL}
    embedded = model.embedding.concat(ids, [inputs[name] for name in FLOATS])
    embedded.backward(torch.full_like(embedded, 1e-4))  # type: ignore[no-untyped-call]  # torch gives it no types
    optimizers["emb"].step()
    dense = embedded.detach().requires_grad_()  # a real step needs this gradient too
    loss = learner.loss(model.net(dense).squeeze(1), record.targets)
    loss.backward()  # type: ignore[no-untyped-call]  # as above
    optimizers["net"].step()
    return float(loss.item())


def train(learner: Learner, records: Sequence[MinibatchRecord]) -> float:
    return sum(step(learner, record) for record in records) / len(records)


if __name__ == "__main__":
    take_turns(Path(sys.argv[1]), int(sys.argv[2]), NUM_THREADS, train)
