"""What the contestants of the embedding step train on, and what a contestant is. Knows no tables.

26 features with a million ids each, drawn by Zipf's law. An id's number says nothing about its popularity: one fixed
permutation, the same for everyone, scatters the ranks. Tables of fixed size get the numbers, Samovar their hashes.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np
import torch
from benchmarks.contest.memory import touch_memory
from benchmarks.contest.rounds import time_call
from numpy.typing import NDArray

from samovar.native import hash_integers
from samovar.seeds import numpy_generator

NUM_TABLES = 26
DIM = 16
NUM_IDS = 1_000_000
EXPONENT = 1.15
MOST_IDS = 8
NUM_THREADS = 2
LR = 0.01
FRESH_BYTES = 128 << 20
"""More than the tables grow by in one turn."""


@dataclass(frozen=True)
class Setting:
    """The shape of a minibatch: one id per feature, or a bag of zero to eight (four on average)."""

    batch_size: int
    is_bag: bool
    num_tables: int = NUM_TABLES

    def __str__(self) -> str:
        return f"B = {self.batch_size}, {'bags of ~4' if self.is_bag else 'single ids'}"


@dataclass(frozen=True)
class Batch:
    """Per feature: its ids as numbers below `num_ids`, and how many belong to each row."""

    ids: Sequence[NDArray[np.int32]]
    lengths: Sequence[NDArray[np.int32]]


@dataclass(frozen=True)
class Contestant:
    """`prepare` turns a batch into what `step` takes, untimed; `step` gets it and the gradient of [B, tables * 16]."""

    name: str
    prepare: Callable[[Batch], Any]
    step: Callable[[Any, torch.Tensor], object]
    num_ids: int
    """Its batches are drawn from this many ids per table."""
    num_threads: int = NUM_THREADS
    stream: int = 0
    """Contestants that share tables get different batches, so that none finds rows that another just fetched."""
    grows: bool = False
    """Its tables grow in each turn: see `touch_memory`."""


def make_timer(contestant: Contestant, setting: Setting, rounds: int, steps: int) -> Callable[[], float]:
    """Returns a timer of the next turn of `steps` steps, with new batches each time. An untimed step comes first, to
    wake threads that slept during the other contestants' turns."""
    batches = draw_batches(setting, rounds * (1 + steps), contestant.num_ids, contestant.stream)
    gradient = torch.randn(setting.batch_size, setting.num_tables * DIM, generator=torch.Generator().manual_seed(1))
    turns = _cut(contestant, batches, 1 + steps)

    def take_turn() -> float:
        first, *inputs = next(turns)
        torch.set_num_threads(contestant.num_threads)
        if contestant.grows:
            touch_memory(FRESH_BYTES)
        contestant.step(first, gradient)
        return time_call(lambda: [contestant.step(batch, gradient) for batch in inputs])

    return take_turn


def _cut(contestant: Contestant, batches: Sequence[Batch], steps: int) -> Iterator[Sequence[Any]]:
    """The batches of each turn, prepared when the turn comes."""
    for first in range(0, len(batches), steps):
        yield [contestant.prepare(batch) for batch in batches[first : first + steps]]


@lru_cache(maxsize=8)  # shared by most comparisons; at most a hundred megabytes each
def draw_batches(setting: Setting, count: int, num_ids: int, stream: int) -> Sequence[Batch]:
    total = setting.batch_size * count
    columns: list[list[NDArray[np.int32]]] = []
    lengths: list[list[NDArray[np.int32]]] = []
    for feature in range(setting.num_tables):
        chance = numpy_generator(1, "embedding batches", feature, total, int(setting.is_bag), num_ids, stream)
        sizes = np.ones(total, np.int32)
        if setting.is_bag:
            sizes = chance.integers(0, MOST_IDS + 1, total, np.int32)
        ids = popular_ids(num_ids)[np.searchsorted(_shares(num_ids), chance.random(sizes.sum()))]
        lengths.append(np.split(sizes, count))
        ends = np.cumsum([part.sum() for part in lengths[-1]])
        columns.append(np.split(ids, ends[:-1]))
    return [Batch(*parts) for parts in zip(zip(*columns, strict=True), zip(*lengths, strict=True), strict=True)]


@cache
def popular_ids(num_ids: int) -> NDArray[np.int32]:
    """The most popular first."""
    return numpy_generator(1, "popularity of ids").permutation(num_ids).astype(np.int32)


def name_features(count: int) -> list[str]:
    return [f"c{number}" for number in range(count)]


def hash_ids(ids: NDArray[np.int32], feature: int) -> NDArray[np.uint64]:
    """XXH64 of one word is a permutation of all words, so there are as many hashes as ids."""
    return hash_integers(ids.astype(np.uint64), seed=feature)


def join(batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
    """All features end to end and the start of each bag, as int64: what FBGEMM and TorchRec take."""
    ids = np.concatenate(batch.ids).astype(np.int64)
    ends = np.cumsum(np.concatenate(batch.lengths), dtype=np.int64)
    return torch.from_numpy(ids), torch.from_numpy(np.concatenate([[0], ends]))


@cache
def _shares(num_ids: int) -> NDArray[np.float64]:
    shares: NDArray[np.float64] = np.cumsum(np.arange(1, num_ids + 1, dtype=np.float64) ** -EXPONENT)
    shares /= shares[-1]
    return shares
