"""The C++ core equals the numpy reference, bit for bit, over random histories of training, expiry and reloading."""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from samovar.embeddings import HashAdagrad, HashAdam, HashEmbedding, HashRowwiseAdagrad, HashSGD
from samovar.embeddings.reference import Ids, Inputs, Kind, ReferenceEmbedding, ReferenceOptimizer, Rows
from samovar.results.state import read_state, write_state
from samovar.store import MemoryStore
from samovar.tables import Bag

KINDS: list[Kind] = ["sgd", "adagrad", "rowwise_adagrad", "adam"]
OPTIMIZERS: dict[Kind, Any] = {
    "sgd": HashSGD,
    "adagrad": HashAdagrad,
    "rowwise_adagrad": HashRowwiseAdagrad,
    "adam": HashAdam,
}
FEATURES = ("a", "b", "c")
LAYOUTS = [{}, {"b": "shared", "c": "shared"}, {"a": "c", "b": "c"}]
DIMS = [1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 24, 31, 33, 64]
NUM_THREADS = [1, 2, 3, 8]


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@dataclass(frozen=True)
class Setup:
    kind: Kind
    layout: dict[str, str]
    dims: tuple[int, int, int]
    mean: frozenset[str]
    ttl: int | None
    weight_decay: float
    clip_value: float | None
    clip_norm: float | None
    num_ids: int
    seed: int
    loss_reduction: str = "sum"
    initial_accumulator: float = 0.0
    """Of both Adagrads."""

    @property
    def features(self) -> dict[str, int]:
        dim_of = {self.layout.get(name, name): dim for name, dim in zip(FEATURES, self.dims, strict=True)}
        return {name: dim_of[self.layout.get(name, name)] for name in FEATURES}

    @property
    def pooling(self) -> dict[str, str]:
        return {name: "mean" if name in self.mean else "sum" for name in FEATURES}

    @property
    def rule(self) -> dict[str, Any]:
        own = {"initial_accumulator": self.initial_accumulator} if "adagrad" in self.kind else {}
        clips = {"clip_value": self.clip_value, "clip_norm": self.clip_norm}
        return {"weight_decay": self.weight_decay, "loss_reduction": self.loss_reduction, **clips, **own}

    def make_ids(self) -> Ids:
        """A few ids that differ in a few bits, the ends of the range, and random ids."""
        ends = np.array([0, 2**64 - 1, 1, 2**63, 2**32], np.uint64)
        others = np.random.default_rng(self.seed).integers(0, 2**64, self.num_ids, np.uint64, endpoint=False)
        return np.unique(np.concatenate([ends, others]))


@dataclass(frozen=True)
class Train:
    seed: int
    num_calls: int
    has_bad_gradients: bool = False


@dataclass(frozen=True)
class Evaluate:
    seed: int


@dataclass(frozen=True)
class Advance:
    num_ticks: int


@dataclass(frozen=True)
class Sweep:
    pass


@dataclass(frozen=True)
class Reload:
    is_stored: bool


@dataclass(frozen=True)
class Threads:
    number: int


@dataclass(frozen=True)
class Rate:
    lr: float


Action = Train | Evaluate | Advance | Sweep | Reload | Threads | Rate
seeds = st.integers(0, 2**32 - 1)
setups = st.builds(
    Setup,
    kind=st.sampled_from(KINDS),
    layout=st.sampled_from(LAYOUTS),
    dims=st.tuples(*[st.sampled_from(DIMS)] * 3),
    mean=st.frozensets(st.sampled_from(FEATURES)),
    ttl=st.sampled_from([None, 0, 1, 2, 5]),
    weight_decay=st.sampled_from([0.0, 0.0, 0.1]),
    clip_value=st.sampled_from([None, None, 0.5]),
    clip_norm=st.sampled_from([None, None, 1.5]),
    num_ids=st.sampled_from([0, 10, 60, 300]),
    seed=seeds,
    loss_reduction=st.sampled_from(["mean", "sum"]),
    initial_accumulator=st.sampled_from([0.0, 1.0, 0.1]),
)
trainings = st.builds(Train, seeds, st.integers(1, 5), st.booleans())
actions = (
    trainings
    | trainings
    | st.builds(Evaluate, seeds)
    | st.builds(Advance, st.integers(1, 4))
    | st.just(Sweep())
    | st.builds(Reload, st.booleans())
    | st.builds(Threads, st.sampled_from(NUM_THREADS))
    | st.builds(Rate, st.sampled_from([0.5, 0.1, 1e-3]))
)


class Pair:
    """A HashEmbedding and its reference: given the same actions, compared after each."""

    def __init__(self, setup: Setup, lr: float = 0.1) -> None:
        self.setup, self.ids = setup, setup.make_ids()
        self.module, self.optimizer = self.make_module(lr)
        self.reference = ReferenceEmbedding(
            setup.features,
            ReferenceOptimizer(setup.kind, lr, eps=1e-8 if setup.kind == "adam" else 1e-10, **setup.rule),
            setup.ttl,
            setup.pooling,
            setup.layout,
            setup.seed,
        )

    def make_module(self, lr: float) -> tuple[HashEmbedding, Any]:
        setup = self.setup
        module = HashEmbedding(setup.features, pooling=setup.pooling, tables=setup.layout, seed=setup.seed)
        return module, OPTIMIZERS[setup.kind](module, lr, setup.ttl, **setup.rule)

    def run(self, action: Action) -> None:
        match action:
            case Train():
                self.train(action)
            case Evaluate():
                self.evaluate(np.random.default_rng(action.seed))
            case Advance():
                for _ in range(action.num_ticks):
                    self.module.advance_clock()
                    self.reference.advance_clock()
            case Sweep():
                assert self.module.sweep() == self.reference.sweep()
            case Reload():
                self.reload(action.is_stored)
            case Threads():
                torch.set_num_threads(action.number)
            case Rate():
                self.optimizer.param_groups[0]["lr"] = action.lr
                for table in self.reference.tables.values():
                    table.optimizer.lr = action.lr

    def train(self, action: Train) -> None:
        rng = np.random.default_rng(action.seed)
        if rng.random() < 0.5:
            self.optimizer.zero_grad()
        slices: list[list[tuple[Inputs, dict[str, Rows]]]] = [[]]
        weights: list[float] = []
        is_sliced = rng.random() < 0.5
        waiting = []
        for number in range(action.num_calls):
            if is_sliced and (number == 0 or rng.random() < 0.8):
                weights.append(float(rng.integers(1, 9)))
                self.optimizer.begin_slice(weights[-1])
                slices += [[]] if number else []
            inputs = draw_inputs(rng, self.ids)
            outputs = self.module(make_bags(rng, inputs))
            compare_outputs(outputs, self.reference.forward(inputs))
            gradients = {
                name: draw_gradient(rng, tuple(output.shape), action.has_bad_gradients)
                for name, output in outputs.items()
                if rng.random() < 0.8
            }
            slices[-1].append((inputs, gradients))
            waiting.append(([outputs[name] for name in gradients], [torch.from_numpy(g) for g in gradients.values()]))
            if rng.random() < 0.2:
                self.evaluate(rng)
        backward(rng, waiting)
        self.optimizer.step()
        self.reference.step(*slices, weights=weights or None)

    def evaluate(self, rng: np.random.Generator) -> None:
        inputs = draw_inputs(rng, self.ids)
        expected = self.reference.forward(inputs, training=False)
        if rng.random() < 0.5:
            with torch.no_grad():
                compare_outputs(self.module(make_bags(rng, inputs)), expected)
        else:
            self.module.eval()
            compare_outputs(self.module(make_bags(rng, inputs)), expected)
            self.module.train()

    def reload(self, is_stored: bool) -> None:
        """Continue in a new module, from the state of the old one or from that state written and read."""
        module, optimizer = self.make_module(lr=123.0)
        state = {"module": self.module.state_dict(), "optimizer": self.optimizer.state_dict()}
        if is_stored:
            store = MemoryStore()
            state = read_state(store, "s", write_state(store, "s", state))
        module.load_state_dict(state["module"])
        optimizer.load_state_dict(state["optimizer"])
        self.module, self.optimizer = module, optimizer
        for table in self.reference.tables.values():
            table.forget_expired()

    def compare(self) -> None:
        counters, live = self.module.counters(), self.module.count_live()
        assert sorted(counters) == sorted(live) == sorted(self.module.table_names) == sorted(self.reference.tables)
        for name, table in self.reference.tables.items():
            assert self.module.clock == table.clock
            rows, stamps, found = self.module.get(name, self.ids)
            assert found.tolist() == [number in table.rows for number in self.ids.tolist()]  # expired ones too
            numbers = self.ids[found].tolist()
            assert stamps[found].tolist() == [table.stamps[number] for number in numbers]
            expected = np.array([table.rows[number] for number in numbers], np.float32)
            assert_same_bits(rows[found], expected.reshape(len(numbers), table.optimizer.width(table.dim)))
            for field in dataclasses.fields(table.counters):
                assert getattr(counters[name], field.name) == getattr(table.counters, field.name), (name, field.name)
            assert live[name] == sum(not table.is_expired(number) for number in table.rows)


def draw_inputs(rng: np.random.Generator, ids: Ids, max_size: int = 4) -> Inputs:
    """Bags for some of the features, in any order, of rank one to three; many are empty, many ids repeat."""
    chosen = [name for name in rng.permutation(FEATURES).tolist() if rng.random() < 0.8]
    inputs = {}
    for name in chosen:
        shape = rng.integers(0, max_size + 1, rng.integers(1, 4))
        lengths = rng.integers(0, 6, shape, np.int32) * rng.integers(0, 2, shape, np.int32)
        inputs[name] = (rng.choice(ids[: rng.integers(1, len(ids) + 1)], lengths.sum()), lengths)
    return inputs


def draw_gradient(rng: np.random.Generator, shape: tuple[int, ...], has_bad: bool) -> Rows:
    gradient = (rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 3)).astype(np.float32)
    if has_bad:
        gradient[rng.random(shape) < 0.02] = rng.choice(np.array([np.nan, np.inf, -np.inf], np.float32))
    gradient[rng.random(shape) < 0.05] = -0.0
    return gradient


def make_bags(rng: np.random.Generator, inputs: Inputs) -> dict[str, Bag]:
    return {name: make_bag(ids, lengths, is_distinct=rng.random() < 0.5) for name, (ids, lengths) in inputs.items()}


def make_bag(ids: Ids, lengths: np.ndarray, is_distinct: bool) -> Bag:
    data_len = torch.from_numpy(lengths)
    if not is_distinct:
        return Bag(torch.from_numpy(ids.view(np.int64)), data_len)
    places = {number: place for place, number in enumerate(dict.fromkeys(ids.tolist()))}
    unique = np.fromiter(places, np.uint64, len(places))
    inverse = np.array([places[number] for number in ids.tolist()], np.int32)
    return Bag.of_distinct(torch.from_numpy(unique.view(np.int64)), torch.from_numpy(inverse), data_len)


def backward(rng: np.random.Generator, waiting: list[tuple[list[torch.Tensor], list[torch.Tensor]]]) -> None:
    """All at once, or call by call in any order: the order of the sums is always that of the forward calls."""
    if rng.random() < 0.5:
        waiting = [([o for outputs, _ in waiting for o in outputs], [g for _, gradients in waiting for g in gradients])]
    for number in rng.permutation(len(waiting)).tolist():
        outputs, gradients = waiting[number]
        if outputs:
            torch.autograd.backward(outputs, gradients)


def compare_outputs(outputs: dict[str, torch.Tensor], expected: dict[str, Rows]) -> None:
    assert outputs.keys() == expected.keys()
    for name in expected:
        assert_same_bits(outputs[name].detach().numpy(), expected[name])


def assert_same_bits(found: np.ndarray, expected: np.ndarray) -> None:
    assert found.dtype == expected.dtype == np.float32
    assert found.shape == expected.shape
    if not np.array_equal(found.view(np.uint32), expected.view(np.uint32)):
        np.testing.assert_array_equal(found, expected)
        raise AssertionError("equal numbers, other bits: a zero has the other sign")


@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(setups, st.lists(actions, min_size=1, max_size=20))
def test_any_history_gives_the_bits_of_the_reference(setup: Setup, history: list[Action]) -> None:
    torch.set_num_threads(2)
    pair = Pair(setup)
    for action in history:
        pair.run(action)
        pair.compare()


def test_rows_of_few_and_of_many_steps_give_the_bits_of_the_reference() -> None:
    """Adam's corrections of up to 255 steps are computed once for all rows of a table."""
    pair = Pair(Setup("adam", {}, (4, 4, 4), frozenset(), None, 0.0, None, None, 300, 5))
    rng = np.random.default_rng(0)
    for step in range(300):
        ids = np.concatenate([pair.ids[:2], pair.ids[step : step + 1]])  # two ids of every step, and a new one
        inputs: Inputs = {"a": (ids, np.ones(3, np.int32))}
        gradient = rng.standard_normal((3, 4)).astype(np.float32)
        pair.module(make_bags(rng, inputs))["a"].backward(torch.from_numpy(gradient))
        pair.optimizer.step()
        pair.reference.forward(inputs)
        pair.reference.step([(inputs, {"a": gradient})])
    pair.compare()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pooling", ["sum", "mean"])
def test_large_batches_give_the_bits_of_the_reference_for_any_number_of_threads(kind: Kind, pooling: str) -> None:
    """Large enough that every thread gets a part of every shard."""
    mean = frozenset(FEATURES if pooling == "mean" else ())
    setup = Setup(kind, {"b": "c"}, (8, 17, 17), mean, 1, 0.01, 2.0, 3.0, 3000, 5, "mean", 1.0)
    pairs = {number: Pair(setup) for number in NUM_THREADS}
    reference = pairs[1].reference
    for pair in pairs.values():
        pair.reference = reference
    rng = np.random.default_rng(0)
    for step in range(4):
        uses, expected = [], []
        for _ in range(1 + step % 2):
            inputs = {name: draw_large(rng, pairs[1].ids) for name in FEATURES}
            expected.append(reference.forward(inputs))
            given = FEATURES if step < 2 else ("a", "b")  # c, which shares the table of b, is in no loss then
            uses.append((inputs, {name: draw_gradient(rng, expected[-1][name].shape, step == 3) for name in given}))
        reference.step(uses)
        frozen = {name: draw_large(rng, pairs[1].ids) for name in FEATURES}
        expected.append(reference.forward(frozen, training=False))
        reference.advance_clock()
        num_freed = reference.sweep()
        for number, pair in pairs.items():
            torch.set_num_threads(number)
            outputs = [pair.module(make_bags(rng, inputs)) for inputs, _ in uses]
            for found, gradients in zip(outputs, (gradients for _, gradients in uses), strict=True):
                torch.autograd.backward(
                    [found[name] for name in gradients], [torch.from_numpy(g) for g in gradients.values()]
                )
            pair.optimizer.step()
            with torch.no_grad():
                outputs.append(pair.module(make_bags(rng, frozen)))
            for each, right in zip(outputs, expected, strict=True):
                compare_outputs(each, right)
            pair.module.advance_clock()
            assert pair.module.sweep() == num_freed
            pair.compare()
    assert num_freed > 0


def draw_large(rng: np.random.Generator, ids: Ids) -> tuple[Ids, np.ndarray]:
    lengths = rng.integers(0, 6, 3400, np.int32)
    popular = (len(ids) * rng.random(lengths.sum()) ** 3).astype(np.int64)
    return ids[popular], lengths


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_that_grows_keeps_its_bits(kind: Kind) -> None:
    """Ten doublings, with an update after each, and every tenth id read again."""
    setup = Setup(kind, {}, (4, 4, 4), frozenset(), None, 0.0, None, None, 30_000, 1)
    pair = Pair(setup)
    rng = np.random.default_rng(1)
    for end in [32 << n for n in range(10)]:
        ids = np.concatenate([pair.ids[end // 2 : end], pair.ids[:end:10]])
        inputs = {"a": (ids, np.ones(len(ids), np.int32))}
        outputs = pair.module(make_bags(rng, inputs))
        compare_outputs(outputs, pair.reference.forward(inputs))
        gradient = draw_gradient(rng, tuple(outputs["a"].shape), False)
        outputs["a"].backward(torch.from_numpy(gradient))
        pair.optimizer.step()
        pair.reference.step([(inputs, {"a": gradient})])
    pair.compare()


def test_prefetching_changes_nothing() -> None:
    pair = Pair(Setup("adagrad", {}, (3, 4, 5), frozenset(), 1, 0.0, None, None, 60, 2))
    rng = np.random.default_rng(2)
    for seed in range(6):
        pair.module.prefetch(make_bags(rng, draw_inputs(rng, pair.ids)))
        pair.compare()
        pair.run(Train(seed, 2))
        pair.run(Advance(1))
        pair.compare()
