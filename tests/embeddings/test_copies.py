"""Copies that one thread makes of hash tables while another trains them."""

import copy
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch

from samovar.embeddings import HashAdagrad, HashEmbedding
from samovar.embeddings.state import final_state
from samovar.tables import Bag

PER_STEP = 512
FEATURES = {"user": 4, "ad": 8}


@contextmanager
def training(module: HashEmbedding, max_steps: int = 2000) -> Iterator[None]:
    """Another thread that inserts `PER_STEP` new ids into each table with every step."""
    is_over = threading.Event()

    def train() -> None:
        optimizer = HashAdagrad(module, lr=0.1)
        for step in range(max_steps):
            if is_over.is_set():
                return
            ids = torch.arange(step * PER_STEP, (step + 1) * PER_STEP)
            bag = Bag(ids, torch.ones(PER_STEP, dtype=torch.int32))
            sum(each.sum() for each in module(dict.fromkeys(FEATURES, bag)).values()).backward()
            optimizer.step()
            module.advance_clock()

    thread = threading.Thread(target=train)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def assert_consistent(state: dict[str, object]) -> None:
    whole = HashEmbedding(FEATURES)
    HashAdagrad(whole, lr=0.1)
    whole.load_state_dict(state)
    found = whole.counters()
    assert found["user"].rows == found["ad"].rows == found["user"].inserted
    assert found["user"].rows % PER_STEP == 0
    assert whole.clock <= found["user"].rows // PER_STEP <= whole.clock + 1


@pytest.mark.parametrize("get_state", [HashEmbedding.state_dict, final_state])
def test_a_deep_copy_of_a_state_holds_the_tables_at_one_moment_of_the_training(get_state: object) -> None:
    assert callable(get_state)
    module = HashEmbedding(FEATURES)
    HashAdagrad(module, lr=0.1)
    with training(module):
        for _ in range(6):
            assert_consistent(copy.deepcopy(get_state(module)))


def test_a_deep_copy_of_a_module_holds_the_tables_at_one_moment_of_the_training() -> None:
    module = HashEmbedding(FEATURES)
    HashAdagrad(module, lr=0.1)
    with training(module):
        for _ in range(6):
            assert_consistent(copy.deepcopy(copy.deepcopy(module).state_dict()))


def test_a_deep_copy_of_a_final_state_is_final_too() -> None:
    module = HashEmbedding({"user": 2})
    module({"user": Bag(torch.tensor([9, 3, 5]), torch.tensor([3], dtype=torch.int32))})
    module.eval()
    module({"user": Bag(torch.tensor([77]), torch.tensor([1], dtype=torch.int32))})  # missed: a counter of evaluations
    copied = copy.deepcopy(final_state(module))["_extra_state"]["tables"]["user"]
    assert copied["counters"]["missed"] == 0
    assert isinstance(copied["shards"][0]["ids"], np.ndarray)
