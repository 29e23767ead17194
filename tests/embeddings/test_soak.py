"""A long random workload against a model that keeps one line per id in plain arrays, by the reference's arithmetic."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from samovar.embeddings import HashAdagrad, HashAdam, HashEmbedding, HashRowwiseAdagrad, HashSGD
from samovar.embeddings.reference import Ids, Kind, ReferenceOptimizer, Rows, make_weights, seed_of_table, update_rows
from samovar.results.state import read_state, write_state
from samovar.store import MemoryStore
from samovar.tables import Bag

DIM = 4
TTL = 6
OPTIMIZERS: dict[Kind, Any] = {
    "sgd": HashSGD,
    "adagrad": HashAdagrad,
    "rowwise_adagrad": HashRowwiseAdagrad,
    "adam": HashAdam,
}
Places = NDArray[np.int64]


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


class Model:
    """What the table must hold; place p belongs to `ids[p]`. All ids are known in advance, so a lookup is an index."""

    def __init__(self, ids: Ids, optimizer: ReferenceOptimizer) -> None:
        self.ids, self.optimizer, self.clock = ids, optimizer, 0
        self.rows = np.zeros((len(ids), optimizer.width(DIM)), np.float32)
        self.stamps = np.zeros(len(ids), np.int64)
        self.is_present = np.zeros(len(ids), np.bool_)
        self.num_new = self.num_freed = self.num_skipped = 0

    def is_live(self, places: Places | slice = slice(None)) -> NDArray[np.bool_]:
        return self.is_present[places] & (self.clock - self.stamps[places] <= TTL)

    def touch(self, distinct: Places) -> None:
        new = distinct[~self.is_live(distinct)]
        self.rows[new] = 0
        self.rows[new, :DIM] = make_weights(self.ids[new], DIM, seed_of_table(0, "a"), 0.01)
        self.num_new += len(new)
        self.is_present[distinct] = True
        self.stamps[distinct] = self.clock

    def weights(self, places: Places) -> Rows:
        return np.where(self.is_live(places)[:, None], self.rows[places, :DIM], np.float32(0))

    def update(self, places: Places, gradients: Rows) -> None:
        distinct, inverse = np.unique(places, return_inverse=True)
        sums = add_in_order(inverse, gradients, len(distinct))
        self.rows[distinct], skipped = update_rows(self.rows[distinct], sums, self.optimizer)
        self.num_skipped += int(skipped.sum())

    def sweep(self) -> int:
        expired = self.is_present & ~self.is_live()
        self.is_present[expired] = False
        self.num_freed += int(expired.sum())
        return int(expired.sum())


def add_in_order(groups: Places, values: Rows, num_groups: int) -> Rows:
    """The sum of each group's lines in their order from +0.0: first lines of all groups, then second lines, …"""
    sums = np.zeros((num_groups, values.shape[1]), np.float32)
    order = np.argsort(groups, kind="stable")
    counts = np.bincount(groups, minlength=num_groups)
    starts = np.cumsum(counts) - counts
    waiting = np.flatnonzero(counts)
    with np.errstate(all="ignore"):
        for turn in range(int(counts.max(initial=0))):
            waiting = waiting[counts[waiting] > turn]
            sums[waiting] = sums[waiting] + values[order[starts[waiting] + turn]]
    return sums


@dataclass
class Soak:
    """A window moves over all ids; those behind it age, and sometimes come back."""

    kind: Kind
    num_ids: int
    batch_size: int
    seed: int

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        ids = self.rng.integers(0, 2**64, self.num_ids, np.uint64, endpoint=False)
        ids[: self.num_ids // 10] = np.arange(self.num_ids // 10, dtype=np.uint64)  # a run without gaps, 0 in it
        ids[-1] = 2**64 - 1
        ids = self.rng.permutation(np.unique(ids))
        eps = 1e-8 if self.kind == "adam" else 1e-10
        self.model = Model(ids, ReferenceOptimizer(self.kind, 0.05, eps=eps))
        self.module, self.optimizer = self.make_module()
        self.num_operations = self.num_steps = 0

    def make_module(self) -> tuple[HashEmbedding, Any]:
        module = HashEmbedding({"a": DIM})
        plain = {"initial_accumulator": 0.0, "loss_reduction": "sum"} if "adagrad" in self.kind else {}
        return module, OPTIMIZERS[self.kind](module, 0.05, TTL, **plain)

    def run(self, num_operations: int, reload_every: int) -> None:
        while self.num_operations < num_operations:
            torch.set_num_threads(int(self.rng.integers(1, 4)))
            self.train()
            if self.rng.random() < 0.3:
                self.evaluate()
            if self.rng.random() < 0.5:
                self.module.advance_clock()
                self.model.clock += 1
            if self.rng.random() < 0.1:
                assert self.module.sweep() == self.model.sweep()
            if self.num_steps % reload_every == 0:
                self.reload()
                self.compare()
        self.compare()

    def draw(self) -> tuple[Places, NDArray[np.int32]]:
        num_ids = len(self.model.ids)
        lengths = self.rng.integers(0, 5, int(self.rng.integers(1, self.batch_size)), np.int32)
        start = self.num_steps * self.batch_size // 4
        places = (start + self.rng.integers(0, 4 * self.batch_size, lengths.sum())) % num_ids
        chance = self.rng.random(len(places))
        places = np.where(chance < 0.02, 0, places)  # one id that is in every batch, many times
        places = np.where(chance > 0.9, self.rng.integers(0, num_ids, len(places)), places)
        return places, lengths

    def make_bag(self, places: Places, lengths: NDArray[np.int32]) -> Bag:
        data_len = torch.from_numpy(lengths)
        if self.rng.random() < 0.5:
            return Bag(torch.from_numpy(self.model.ids[places].view(np.int64)), data_len)
        distinct, inverse = np.unique(places, return_inverse=True)
        unique = torch.from_numpy(self.model.ids[distinct].view(np.int64))
        return Bag.of_distinct(unique, torch.from_numpy(inverse.astype(np.int32)), data_len)

    def train(self) -> None:
        places, lengths = self.draw()
        output = self.module({"a": self.make_bag(places, lengths)})["a"]
        self.model.touch(np.unique(places))
        self.check_output(output, places, lengths)
        gradient = self.rng.standard_normal(output.shape, np.float32)
        if self.rng.random() < 0.1:
            gradient[self.rng.integers(0, len(gradient))] = np.nan
        output.backward(torch.from_numpy(gradient))
        self.optimizer.step()
        self.model.update(places, np.repeat(gradient, lengths, axis=0))
        self.num_steps += 1

    def evaluate(self) -> None:
        places, lengths = self.draw()
        with torch.no_grad():
            self.check_output(self.module({"a": self.make_bag(places, lengths)})["a"], places, lengths)

    def check_output(self, output: torch.Tensor, places: Places, lengths: NDArray[np.int32]) -> None:
        bags = np.repeat(np.arange(len(lengths)), lengths)
        expected = add_in_order(bags, self.model.weights(places), len(lengths))
        assert np.array_equal(output.detach().numpy().view(np.uint32), expected.view(np.uint32))
        self.num_operations += len(places)

    def reload(self) -> None:
        store = MemoryStore()
        state = {"module": self.module.state_dict(), "optimizer": self.optimizer.state_dict()}
        state = read_state(store, "s", write_state(store, "s", state))
        self.module, self.optimizer = self.make_module()
        self.module.load_state_dict(state["module"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.model.is_present = self.model.is_live()  # expired rows are not saved

    def compare(self) -> None:
        """Check every id: what must be stored, and what must not."""
        model = self.model
        rows, stamps, found = self.module.get("a", model.ids)
        live = model.is_live()
        assert np.array_equal(found, model.is_present)
        assert np.array_equal(rows[found].view(np.uint32), model.rows[found].view(np.uint32))
        assert np.array_equal(stamps[found], model.stamps[found])
        assert self.module.count_live() == {"a": int(live.sum())}
        counters = self.module.counters()["a"]
        assert counters.rows == int(model.is_present.sum())
        assert counters.inserted + counters.reset == model.num_new
        assert (counters.freed, counters.skipped) == (model.num_freed, model.num_skipped)


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_a_random_workload_of_a_million_operations_leaves_no_difference(kind: Kind) -> None:
    Soak(kind, num_ids=60_000, batch_size=4000, seed=1).run(1_000_000, reload_every=30)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_a_random_workload_of_fifty_million_operations_leaves_no_difference(kind: Kind) -> None:
    """Four optimizers: 200 million in all."""
    Soak(kind, num_ids=2_000_000, batch_size=20_000, seed=2).run(50_000_000, reload_every=200)
