"""Ids that somebody chose so that they meet in one place of a hash table with a known hash."""

import time

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from samovar.embeddings import HashEmbedding
from samovar.tables import Bag

NUM_IDS = 200_000
PER_STEP = 10_000
MOST_TIMES = 3.0


def _inverse(factor: int) -> np.uint64:
    return np.uint64(pow(factor, -1, 1 << 64))


def invert_mix(hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Ids with these values of `mix` (hash_table.h): small ones share all bits that choose a bucket."""
    words = (hashes ^ (hashes >> np.uint64(33))) * _inverse(0xC4CEB9FE1A85EC53)
    words = (words ^ (words >> np.uint64(33))) * _inverse(0xFF51AFD7ED558CCD)
    return words ^ (words >> np.uint64(33))


def invert_product(hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Ids with these values of the hash that the search for distinct ids once used."""
    words = hashes * _inverse(0x9E3779B97F4A7C15)
    return words ^ (words >> np.uint64(32))


def insert(ids: NDArray[np.uint64]) -> float:
    """The seconds of processor time that it takes."""
    module = HashEmbedding({"a": 2})
    start = time.process_time()
    for first in range(0, len(ids), PER_STEP):
        data = torch.from_numpy(ids[first : first + PER_STEP].view(np.int64))
        module({"a": Bag(data, torch.ones(len(data), dtype=torch.int32))})
    return time.process_time() - start


@pytest.mark.parametrize("invert", [invert_mix, invert_product])
def test_chosen_ids_are_inserted_about_as_fast_as_any(invert: object) -> None:
    assert callable(invert)
    chosen = invert(np.arange(NUM_IDS, dtype=np.uint64))
    others = np.random.Generator(np.random.Philox(key=1)).integers(0, 2**64, NUM_IDS, np.uint64)
    expected = min(insert(others) for _ in range(3))
    assert min(insert(chosen) for _ in range(3)) < MOST_TIMES * expected
