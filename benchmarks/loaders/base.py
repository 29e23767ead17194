"""What every loader yields: the same tensors in the same order, and the proof of it. Measures no time."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from benchmarks.contest.clicks import Columns

from samovar.native import hash_bytes
from samovar.tables import Ids

BATCH_SIZE = 1024

Batch: TypeAlias = Sequence[torch.Tensor]
"""data (int64) and data_len (int32) of each categorical column, then each real one (float32)."""


@dataclass(frozen=True)
class Loader:
    name: str
    epoch: Callable[[], Iterable[Batch]]
    num_batches: int


def to_tensors(batch: Columns) -> list[torch.Tensor]:
    """The tensors of a minibatch, without copies."""
    tensors: list[torch.Tensor] = []
    for column in batch.values():
        if isinstance(column, Ids):
            tensors += [torch.from_numpy(column.data.view(np.int64)), torch.from_numpy(column.lengths)]
        else:
            tensors.append(torch.from_numpy(column))
    return tensors


def touch(batch: Batch) -> None:
    """Read every byte."""
    for tensor in batch:
        tensor.sum()


def digest(batches: Iterable[Batch]) -> list[Any]:
    """What an epoch yielded: dtype and hash of the bytes of each tensor, in order."""
    hashes: list[int] = []
    kinds: list[str] = []
    num_batches = 0
    for batch in batches:
        num_batches += 1
        hashes = hashes or [0] * len(batch)
        pairs = zip(batch, hashes, strict=True)
        hashes = [hash_bytes(tensor.contiguous().numpy().data, seed) for tensor, seed in pairs]
        kinds = [f"{tensor.dtype}, rank {tensor.ndim}" for tensor in batch]
    return [num_batches, kinds, hashes]
