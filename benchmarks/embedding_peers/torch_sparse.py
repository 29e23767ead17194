"""torch's own: one sparse EmbeddingBag per feature and one optimizer for all."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from benchmarks.embedding_peers.base import DIM, LR, NUM_TABLES, Batch, Contestant

ADAGRAD = "torch EmbeddingBag + Adagrad"
ADAM = "torch EmbeddingBag + SparseAdam"
_OPTIMIZERS: dict[str, Any] = {ADAGRAD: torch.optim.Adagrad, ADAM: torch.optim.SparseAdam}

Inputs: TypeAlias = Sequence[tuple[torch.Tensor, torch.Tensor]]
"""Ids and offsets of each feature."""


def make_contestant(name: str, num_ids: int) -> Contestant:
    bags = [
        torch.nn.EmbeddingBag(num_ids, DIM, mode="sum", sparse=True, include_last_offset=True, _weight=weight)
        for weight in (_uniform(num_ids) for _ in range(NUM_TABLES))
    ]
    optimizer = _OPTIMIZERS[name]([bag.weight for bag in bags], lr=LR)

    def step(inputs: Inputs, gradient: torch.Tensor) -> None:
        optimizer.zero_grad()
        outputs = [bag(*pair) for bag, pair in zip(bags, inputs, strict=True)]
        torch.cat(outputs, 1).backward(gradient)  # type: ignore[no-untyped-call]  # torch gives it no types
        optimizer.step()

    return Contestant(name, prepare, step, num_ids)


def prepare(batch: Batch) -> Inputs:
    return [
        (torch.from_numpy(ids.astype(np.int64)), torch.from_numpy(np.concatenate([[0], np.cumsum(sizes)])))
        for ids, sizes in zip(batch.ids, batch.lengths, strict=True)
    ]


def _uniform(num_ids: int) -> torch.Tensor:
    return torch.empty(num_ids, DIM).uniform_(-0.01, 0.01)
