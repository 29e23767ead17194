"""HashEmbedding as a torch module: shapes, autograd, torch's own modules as peers, and invalid inputs."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from samovar.embeddings import HashAdagrad, HashAdam, HashEmbedding, HashRowwiseAdagrad, HashSGD
from samovar.embeddings.reference import ReferenceEmbedding, ReferenceOptimizer, make_weights, seed_of_table
from samovar.errors import BadInput, UnknownColumn
from samovar.tables import Bag

OPTIMIZERS: list[Any] = [HashSGD, HashAdagrad, HashRowwiseAdagrad, HashAdam]
LAST = 2**64 - 1


def make_bag(ids: Any, lengths: Any) -> Bag:
    """From unsigned ids and (nested) lengths."""
    return Bag(torch.from_numpy(np.array(ids, np.uint64).view(np.int64)), torch.tensor(lengths, dtype=torch.int32))


def make_sgd(dim: int = 3, lr: float = 1.0, **keys: Any) -> tuple[HashEmbedding, HashSGD]:
    module = HashEmbedding({"a": dim}, **keys)
    return module, HashSGD(module, lr)


def read(module: HashEmbedding, *ids: int, table: str = "a") -> np.ndarray:
    """[weights | state] of ids that must exist."""
    rows, _, found = module.get(table, np.array(ids, np.uint64))
    assert found.all()
    return rows


def freeze(module: HashEmbedding, *ids: int) -> tuple[object, ...]:
    """Everything that training may change, to compare before and after."""
    counted = [(c.rows, c.inserted, c.reset, c.freed, c.skipped) for _, c in sorted(module.counters().items())]
    tables = [[part.tobytes() for part in module.get(name, np.array(ids, np.uint64))] for name in module.table_names]
    return module.clock, counted, tables, module.count_live()


# Shapes


def test_the_worked_example_has_the_documented_shapes() -> None:
    module = HashEmbedding({"BannerID": 10, "BannerText": 20, "BannerTextUnravelled": 20, "SearchQueryHistory": 20})
    HashAdagrad(module, 0.1)
    text = [67, 1937, 478, 76, 197, 93, 2, 5, 6, 7, 1]
    outputs = module(
        {
            "BannerID": make_bag([124, 456], [1, 1, 0]),
            "BannerText": make_bag(text, [3, 2, 6]),
            "BannerTextUnravelled": make_bag(text, [[1, 1, 1, 0, 0, 0], [1, 1, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1]]),
            "SearchQueryHistory": make_bag(
                [689, 1567, 398, 2176, 19, 79, 1, 2, 3, 4, 5, 6, 81, 9387], [[3, 1, 2], [0, 6, 2], [0, 0, 0]]
            ),
        }
    )
    assert {name: list(output.shape) for name, output in outputs.items()} == {
        "BannerID": [3, 10],
        "BannerText": [3, 20],
        "BannerTextUnravelled": [3, 6, 20],
        "SearchQueryHistory": [3, 3, 20],
    }
    assert all(output.dtype == torch.float32 for output in outputs.values())
    assert outputs["BannerID"][2].tolist() == [0.0] * 10
    assert outputs["BannerTextUnravelled"][1, 2:].abs().sum() == 0
    assert outputs["SearchQueryHistory"][2].abs().sum() == 0


def test_a_sequence_holds_the_rows_that_a_bag_adds_up() -> None:
    module = HashEmbedding({"bag": 5, "sequence": 5}, tables={"bag": "t", "sequence": "t"})
    HashSGD(module, 1.0)
    outputs = module({"bag": make_bag([7, 8, 9], [2, 1]), "sequence": make_bag([7, 8, 9], [[1, 1], [1, 0]])})
    assert torch.allclose(outputs["sequence"].sum(1), outputs["bag"])
    assert module.table_names in (["t"], ("t",))


def test_only_the_features_given_are_computed() -> None:
    module = HashEmbedding({"a": 2, "b": 3})
    HashSGD(module, 1.0)
    assert list(module({"b": make_bag([1], [1])})) == ["b"]
    assert module({}) == {}
    assert {name: c.rows for name, c in module.counters().items()} == {"a": 0, "b": 1}


@pytest.mark.parametrize("lengths", [[], [[]], [[], []], [0], [0, 0, 0], [[0, 0], [0, 0]]])
def test_empty_batches_and_empty_bags_are_zeros_of_their_shape(lengths: list[Any]) -> None:
    module, optimizer = make_sgd()
    output = module({"a": make_bag([], lengths)})["a"]
    assert output.shape == (*np.array(lengths).shape, 3)
    assert not output.any()
    output.sum().backward()
    optimizer.step()
    assert module.counters()["a"].rows == 0
    with torch.no_grad():
        assert torch.equal(module({"a": make_bag([], lengths)})["a"], output)


def test_no_id_is_reserved() -> None:
    module, optimizer = make_sgd(init_scale=1.0)
    ids = [0, LAST, 1, 2**63, 2**63 - 1, LAST - 1]
    output = module({"a": make_bag(ids, [1] * 6)})["a"]
    assert np.array_equal(
        output.detach().numpy(), make_weights(np.array(ids, np.uint64), 3, seed_of_table(0, "a"), 1.0)
    )
    assert len(torch.unique(output)) == 18
    (output * torch.arange(1.0, 7).reshape(6, 1)).sum().backward()
    optimizer.step()
    assert np.array_equal(read(module, *ids), output.detach().numpy() - np.arange(1, 7, dtype=np.float32)[:, None])


@pytest.mark.parametrize("pooling", ["sum", "mean"])
@pytest.mark.parametrize("is_distinct", [False, True])
def test_a_bag_of_a_hundred_thousand_ids_is_pooled_in_order(pooling: str, is_distinct: bool) -> None:
    rule = ReferenceOptimizer("adagrad", 0.1, initial_accumulator=1.0, loss_reduction="mean")
    reference = ReferenceEmbedding({"a": 4}, rule, pooling={"a": pooling})
    module = HashEmbedding({"a": 4}, pooling=pooling)
    optimizer = HashAdagrad(module, 0.1)
    ids = np.random.default_rng(0).integers(0, 30_000, 100_000).astype(np.uint64)
    lengths = np.array([100_000, 0], np.int32)
    bag = Bag(torch.from_numpy(ids.view(np.int64)), torch.from_numpy(lengths))
    if is_distinct:
        unique, inverse = torch.unique(bag.data, return_inverse=True)
        bag = Bag.of_distinct(unique, inverse.int(), bag.data_len)
    output = module({"a": bag})["a"]
    expected = reference.forward({"a": (ids, lengths)})["a"]
    assert output.detach().numpy().tobytes() == expected.tobytes()
    gradient = np.random.default_rng(1).standard_normal((2, 4)).astype(np.float32)
    output.backward(torch.from_numpy(gradient))
    optimizer.step()
    reference.step([({"a": (ids, lengths)}, {"a": gradient})])
    distinct = np.unique(ids)
    assert read(module, *distinct.tolist()).tobytes() == b"".join(
        reference.tables["a"].rows[number].tobytes() for number in distinct.tolist()
    )


@pytest.mark.parametrize("make", OPTIMIZERS)
def test_every_dimension_from_1_to_512_is_exact(make: Any) -> None:
    kinds: dict[Any, Any] = dict(zip(OPTIMIZERS, ["sgd", "adagrad", "rowwise_adagrad", "adam"], strict=True))
    dims = [*range(1, 67), 96, 127, 128, 129, 255, 256, 257, 500, 511, 512]
    features = {f"d{dim}": dim for dim in dims}
    module = HashEmbedding(features)
    optimizer = make(module, 0.1, clip_norm=1.0)
    rule = ReferenceOptimizer(kinds[make], 0.1, clip_norm=1.0, eps=1e-8 if make is HashAdam else 1e-10)
    if "adagrad" in rule.kind:
        rule.initial_accumulator, rule.loss_reduction = 1.0, "mean"
    reference = ReferenceEmbedding(features, rule)
    ids, lengths = np.array([3, 5, 3, 9], np.uint64), np.array([3, 1], np.int32)
    inputs = dict.fromkeys(features, (ids, lengths))
    rng = np.random.default_rng(0)
    for _ in range(3):
        outputs = module({name: make_bag(ids, lengths) for name in features})
        for name, expected in reference.forward(inputs).items():
            assert outputs[name].detach().numpy().tobytes() == expected.tobytes()
        gradients = {name: rng.standard_normal((2, dim)).astype(np.float32) for name, dim in features.items()}
        torch.autograd.backward(list(outputs.values()), [torch.from_numpy(gradients[name]) for name in outputs])
        optimizer.step()
        reference.step([(inputs, gradients)])
    for name, table in reference.tables.items():
        for number, row in table.rows.items():
            assert read(module, number, table=name).tobytes() == row.tobytes(), (name, number)


# Gradients


@pytest.mark.parametrize("pooling", ["sum", "mean"])
def test_the_gradient_equals_that_of_embedding_bag(pooling: str) -> None:
    module, optimizer = make_sgd(dim=6, pooling=pooling, init_scale=1.0)
    ids, lengths = [3, 1, 3, 0, 4, 4, 1], [3, 0, 1, 3]
    output = module({"a": make_bag(ids, lengths)})["a"]
    before = read(module, 0, 1, 3, 4)
    peer = nn.EmbeddingBag(5, 6, mode=pooling, include_last_offset=True)
    with torch.no_grad():
        peer.weight[[0, 1, 3, 4]] = torch.from_numpy(before)
    offsets = torch.tensor([0, *np.cumsum(lengths).tolist()])
    peer_output = peer(torch.tensor(ids), offsets)
    assert torch.allclose(output, peer_output)
    for out in (output, peer_output):
        (torch.sin(out) * torch.arange(24.0).reshape(4, 6)).sum().backward()  # type: ignore[no-untyped-call]  # torch gives it no types
    optimizer.step()
    assert peer.weight.grad is not None
    applied = before - read(module, 0, 1, 3, 4)
    assert np.allclose(applied, peer.weight.grad[[0, 1, 3, 4]].numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("pooling", ["sum", "mean"])
def test_the_gradient_equals_finite_differences(pooling: str) -> None:
    module, optimizer = make_sgd(dim=2, pooling=pooling, init_scale=1.0)
    ids, lengths = [3, 1, 3, 4, 1], [3, 0, 2]

    def loss_of(weights: np.ndarray) -> float:
        """In float64, from the weights of 1, 3, 4."""
        rows = weights[np.searchsorted([1, 3, 4], ids)]
        bags = [rows[:3].sum(0), np.zeros(2), rows[3:].sum(0)]
        pooled = np.stack([bag / max(n, 1) if pooling == "mean" else bag for bag, n in zip(bags, lengths, strict=True)])
        return float((np.exp(pooled) * [[1, 2], [3, 4], [5, -6]]).sum() + pooled.prod(1).sum())

    output = module({"a": make_bag(ids, lengths)})["a"]
    before = read(module, 1, 3, 4).astype(np.float64)
    loss = (output.exp() * torch.tensor([[1.0, 2], [3, 4], [5, -6]])).sum() + output.prod(1).sum()
    assert loss.item() == pytest.approx(loss_of(before), rel=1e-5)
    loss.backward()
    optimizer.step()
    applied = before - read(module, 1, 3, 4)
    for place in np.ndindex(before.shape):
        nudge = np.zeros_like(before)
        nudge[place] = 1e-6
        numeric = (loss_of(before + nudge) - loss_of(before - nudge)) / 2e-6
        assert applied[place] == pytest.approx(numeric, rel=1e-4, abs=1e-4)


def applied_gradient(run: Callable[[HashEmbedding], None]) -> list[float]:
    """What SGD with lr 1 subtracts from the one weight of id 7, rounded to whole numbers."""
    module, optimizer = make_sgd(dim=1)
    module({"a": make_bag([7], [1])})
    optimizer.step()
    before = read(module, 7)
    run(module)
    optimizer.step()
    return np.round(before - read(module, 7), 3)[0].tolist()  # type: ignore[no-any-return]  # numpy types a line as Any


def test_a_feature_may_be_used_twice_in_a_step() -> None:
    def run(module: HashEmbedding) -> None:
        first = module({"a": make_bag([7, 7], [2])})["a"]
        second = module({"a": make_bag([7, 8], [1, 1])})["a"]
        (3 * first.sum() + 10 * second[0].sum() + 100 * second[1].sum()).backward()

    assert applied_gradient(run) == [16]


def test_an_output_may_be_used_twice_in_a_loss() -> None:
    def run(module: HashEmbedding) -> None:
        output = module({"a": make_bag([7], [1])})["a"]
        (2 * output.sum() + 5 * output.sum()).backward()

    assert applied_gradient(run) == [7]


def test_two_losses_with_a_backward_each_are_one_step() -> None:
    def run(module: HashEmbedding) -> None:
        first = module({"a": make_bag([7], [1])})["a"]
        second = module({"a": make_bag([7], [1])})["a"]
        (2 * second.sum()).backward()
        (3 * first.sum()).backward()

    assert applied_gradient(run) == [5]


def test_a_graph_that_is_kept_gives_its_gradient_each_time() -> None:
    def run(module: HashEmbedding) -> None:
        output = module({"a": make_bag([7], [1])})["a"]
        loss = 4 * output.sum()
        loss.backward(retain_graph=True)
        loss.backward()

    assert applied_gradient(run) == [8]


def test_two_losses_over_one_output_add_up() -> None:
    def run(module: HashEmbedding) -> None:
        output = module({"a": make_bag([7], [1])})["a"]
        (2 * output).sum().backward(retain_graph=True)
        (3 * output).sum().backward()

    assert applied_gradient(run) == [5]


def test_zero_grad_drops_pending_gradients() -> None:
    module, optimizer = make_sgd(dim=1)
    module({"a": make_bag([7], [1])})["a"].sum().backward()
    before = freeze(module, 7)
    optimizer.zero_grad()
    optimizer.step()
    assert freeze(module, 7) == before
    module({"a": make_bag([7], [1])})["a"].sum().backward()
    weight = read(module, 7)
    optimizer.step()
    assert np.allclose(weight - read(module, 7), 1)


def test_a_step_consumes_the_gradients() -> None:
    module, optimizer = make_sgd(dim=1)
    module({"a": make_bag([7], [1])})["a"].sum().backward()
    optimizer.step()
    before = freeze(module, 7)
    optimizer.step()
    assert freeze(module, 7) == before


@pytest.mark.parametrize("make", OPTIMIZERS)
def test_a_forward_without_backward_inserts_and_stamps_and_takes_no_step(make: Any) -> None:
    module = HashEmbedding({"a": 2, "b": 2})
    optimizer = make(module, 0.1, weight_decay=0.5)
    module({"a": make_bag([7], [1])})
    before = freeze(module, 7)
    optimizer.step()
    assert freeze(module, 7) == before
    assert module.counters()["a"].rows == 1


@pytest.mark.parametrize("make", OPTIMIZERS)
def test_a_feature_outside_the_loss_takes_no_step(make: Any) -> None:
    module = HashEmbedding({"a": 2, "b": 2})
    optimizer = make(module, 0.1, weight_decay=0.5)
    outputs = module({"a": make_bag([7], [1]), "b": make_bag([7], [1])})
    before = read(module, 7, table="b")
    outputs["a"].sum().backward()
    optimizer.step()
    assert np.array_equal(read(module, 7, table="b"), before)


def test_gradients_that_are_views_are_read_correctly() -> None:
    module, optimizer = make_sgd(dim=3)
    output = module({"a": make_bag([0, 1, 2, 3], [[1, 1], [1, 1]])})["a"]
    before = read(module, 0, 1, 2, 3)
    transposed = torch.arange(12.0).reshape(3, 2, 2).permute(2, 1, 0)
    output.backward(transposed)
    optimizer.step()
    applied = np.round(before - read(module, 0, 1, 2, 3)).reshape(2, 2, 3)
    assert applied.tolist() == transposed.tolist()


def test_dense_layers_and_tables_learn_from_one_backward() -> None:
    module, optimizer = make_sgd(dim=3)
    dense = nn.Linear(3, 1)
    before = read_after_lookup(module, 7)
    dense(module({"a": make_bag([7], [1])})["a"]).sum().backward()
    optimizer.step()
    assert dense.weight.grad is not None
    assert np.allclose(before - read(module, 7), dense.weight.detach().numpy(), atol=1e-6)
    assert np.allclose(dense.weight.grad.numpy(), before)


def read_after_lookup(module: HashEmbedding, *ids: int) -> np.ndarray:
    module({"a": make_bag(ids, [len(ids)])})
    return read(module, *ids)


def test_an_optimizer_takes_several_modules() -> None:
    modules = [HashEmbedding({"a": 1}), HashEmbedding({"a": 1}, seed=1)]
    optimizer = HashSGD(modules, 1.0)
    before = [read_after_lookup(module, 7) for module in modules]
    optimizer.zero_grad()
    sum(module({"a": make_bag([7], [1])})["a"].sum() for module in modules).backward()
    optimizer.step()
    assert [np.allclose(b - read(m, 7), 1) for b, m in zip(before, modules, strict=True)] == [True, True]
    assert not np.array_equal(before[0], before[1])


# Reading without training


def test_without_grad_nothing_changes_and_what_is_missing_is_zeros() -> None:
    module, optimizer = make_sgd()
    trained = module({"a": make_bag([7], [1])})["a"].detach()
    optimizer.step()
    before = freeze(module, 7, 8)
    with torch.no_grad():
        output = module({"a": make_bag([7, 8], [1, 1])})["a"]
    assert not output.requires_grad
    assert torch.equal(output[:1], trained)
    assert not output[1].any()
    assert freeze(module, 7, 8) == before
    assert module.counters()["a"].missed == 1


def test_evaluation_changes_nothing_and_gives_no_gradient() -> None:
    module, optimizer = make_sgd()
    module({"a": make_bag([7], [1])})
    before = freeze(module, 7, 8)
    module.eval()
    output = module({"a": make_bag([7, 8, 8], [2, 1])})["a"]
    assert not output.requires_grad
    optimizer.step()
    assert freeze(module, 7, 8) == before
    module.train()
    assert module({"a": make_bag([8], [1])})["a"].requires_grad


def test_evaluation_between_forward_and_step_disturbs_nothing() -> None:
    results = []
    for is_evaluated in (False, True):
        module, optimizer = make_sgd()
        output = module({"a": make_bag([7, 9], [2])})["a"]
        if is_evaluated:
            with torch.no_grad():
                module({"a": make_bag([7, 8], [2])})
        output.sum().backward()
        if is_evaluated:
            module.eval()
            module({"a": make_bag([9, 8], [2])})
            module.train()
        optimizer.step()
        results.append(freeze(module, 7, 8, 9))
    assert results[0] == results[1]


def test_prefetch_inserts_stamps_and_counts_nothing() -> None:
    module, _ = make_sgd()
    module({"a": make_bag([7], [1])})
    module.advance_clock()
    before = freeze(module, 7, 8), module.counters()["a"].missed
    module.prefetch({"a": make_bag([7, 8], [1, 1])})
    assert (freeze(module, 7, 8), module.counters()["a"].missed) == before


# Peers


def train_both(make: Any, peer_make: Any, batches: list[tuple[list[int], list[int]]], lr: float) -> np.ndarray:
    """The losses of a hash model and of an EmbeddingBag model that started with the same weights, [2, steps]."""
    module = HashEmbedding({"a": 8}, pooling="mean", init_scale=0.5)
    optimizer = make(module, lr)
    peer = nn.EmbeddingBag(20, 8, mode="mean", include_last_offset=True)
    initial = torch.from_numpy(read_after_lookup(module, *range(20))[:, :8])
    with torch.no_grad():
        peer.weight.copy_(initial)
    optimizer.zero_grad()
    peer_optimizer = peer_make(peer.parameters(), lr=lr)
    torch.manual_seed(0)
    heads = [nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)) for _ in range(2)]
    heads[1].load_state_dict(heads[0].state_dict())
    dense = [torch.optim.SGD(head.parameters(), lr=0.05) for head in heads]
    losses = []
    for ids, lengths in batches:
        parts = torch.split(torch.tensor(ids), lengths)
        target = torch.stack([torch.sin(part.float()).sum() for part in parts])
        pooled = [
            module({"a": make_bag(ids, lengths)})["a"],
            peer(torch.tensor(ids), torch.tensor([0, *np.cumsum(lengths).tolist()])),
        ]
        both = [((head(x)[:, 0] - target) ** 2).mean() for head, x in zip(heads, pooled, strict=True)]
        for each in (*dense, peer_optimizer):
            each.zero_grad()
        for loss in both:
            loss.backward()
        for each in (*dense, peer_optimizer, optimizer):
            each.step()
        losses.append([loss.item() for loss in both])
    assert np.allclose(read(module, *range(20))[:, :8], peer.weight.detach().numpy(), rtol=1e-3, atol=1e-4)
    return np.array(losses).T


def draw_batches(has_all_ids: bool) -> list[tuple[list[int], list[int]]]:
    """Five batches, ten times."""
    rng = np.random.default_rng(3)
    batches = []
    for _ in range(5):
        ids = rng.permutation(20).tolist() if has_all_ids else rng.integers(0, 20, 20).tolist()
        batches.append((ids, [4, 1, 0, 7, 3, 5]))
    return batches * 10


@pytest.mark.parametrize(
    ("make", "peer_make", "has_all_ids", "lr"),
    [
        (HashSGD, torch.optim.SGD, False, 0.5),
        (partial(HashAdagrad, initial_accumulator=0, loss_reduction="sum"), torch.optim.Adagrad, False, 0.1),
        (
            partial(HashAdagrad, initial_accumulator=0.3, loss_reduction="sum"),
            partial(torch.optim.Adagrad, initial_accumulator_value=0.3),
            False,
            0.3,
        ),
        # All ids in every batch: a dense Adam also moves the rows of other ids, a lazy one does not.
        (HashAdam, torch.optim.Adam, True, 0.02),
    ],
)
def test_it_trains_like_an_embedding_bag(make: Any, peer_make: Any, has_all_ids: bool, lr: float) -> None:
    ours, theirs = train_both(make, peer_make, draw_batches(has_all_ids), lr)
    assert np.allclose(ours, theirs, rtol=1e-4, atol=1e-5)
    assert ours[-5:].mean() < 0.9 * ours[:5].mean()


def test_weight_decay_equals_that_of_torch() -> None:
    module = HashEmbedding({"a": 4}, init_scale=1.0)
    optimizer = HashAdagrad(module, 0.1, weight_decay=0.3, loss_reduction="sum")
    weight = torch.from_numpy(read_after_lookup(module, *range(5))[:, :4].copy()).requires_grad_()
    peer = torch.optim.Adagrad([weight], lr=0.1, weight_decay=0.3, initial_accumulator_value=1.0)
    optimizer.zero_grad()
    for _ in range(10):
        peer.zero_grad()
        for rows in (module({"a": make_bag(range(5), [1] * 5)})["a"], weight):
            (rows**3).sum().backward()
        optimizer.step()
        peer.step()
    assert np.allclose(read(module, *range(5))[:, :4], weight.detach().numpy(), rtol=1e-4, atol=1e-6)


# The loss's reduction


def train_linear(optimizer: Any, module: HashEmbedding, bags: list[Bag], targets: list[list[float]], how: str) -> None:
    for bag, target in zip(bags, targets, strict=True):
        logits = module({"a": bag})["a"].sum(1)
        loss = nn.functional.binary_cross_entropy_with_logits(logits, torch.tensor(target), reduction=how)
        loss.backward()  # type: ignore[no-untyped-call]  # torch gives it no types
        optimizer.step()


@pytest.mark.parametrize("make", OPTIMIZERS)
def test_a_mean_loss_trains_like_a_sum_if_the_optimizer_knows_it(make: Any) -> None:
    ids = np.random.default_rng(0).integers(0, 20, (10, 8))  # eight rows: a power of two, so that no bit is lost
    bags = [make_bag(each, [1] * 8) for each in ids]
    targets = np.random.default_rng(1).integers(0, 2, (10, 8)).astype(np.float32).tolist()
    rows = []
    for how in ("mean", "sum"):
        module = HashEmbedding({"a": 2})
        train_linear(make(module, 0.1, loss_reduction=how), module, bags, targets, how)
        rows.append(read(module, *np.unique(ids).tolist()))
    assert np.array_equal(rows[0], rows[1])


@pytest.mark.parametrize("make", [HashAdagrad, HashRowwiseAdagrad])
def test_the_first_click_of_an_id_moves_it_more_than_a_first_non_click_whatever_the_minibatch(make: Any) -> None:
    moved = {}
    for num_rows in (4, 400):
        module = HashEmbedding({"bias": 1, "a": 1}, init_scale=1e-6)
        optimizer = make(module, 0.1)
        bags = {"bias": make_bag([1] * num_rows, [1] * num_rows), "a": make_bag(range(num_rows), [1] * num_rows)}
        target = torch.zeros(num_rows)
        target[0] = 1.0
        outputs = module(bags)
        logits = (outputs["bias"] + outputs["a"]).squeeze(1) - 3.0  # a click rate of 5 %
        nn.functional.binary_cross_entropy_with_logits(logits, target).backward()  # type: ignore[no-untyped-call]  # torch
        optimizer.step()
        moved[num_rows] = read(module, 0, 1)[:, 0]
    click, other = moved[4]
    assert np.isclose(click, 0.1 * 0.9526 / np.sqrt(1 + 0.9526**2), rtol=1e-3)
    assert np.isclose(other, -0.1 * 0.0474 / np.sqrt(1 + 0.0474**2), rtol=1e-3)
    assert np.allclose(moved[400], moved[4], rtol=1e-4)


def test_several_lookups_of_one_step_have_the_examples_of_the_largest() -> None:
    rows = []
    for size, how in ((4, "mean"), (1, "sum")):
        module = HashEmbedding({"a": 2})
        optimizer = HashAdagrad(module, 0.1, loss_reduction=how)
        few, many = (module({"a": make_bag(range(n), [1] * n)})["a"].sum() for n in (2, 4))
        ((few + many) / size).backward()
        optimizer.step()
        rows.append(read(module, *range(4)))
    assert np.array_equal(rows[0], rows[1])


def test_a_state_of_samovar_0_2_continues_without_an_initial_accumulator() -> None:
    rows = []
    for is_old in (True, False):
        module = HashEmbedding({"a": 2})
        optimizer = HashAdagrad(module, 0.1)
        state = optimizer.state_dict()
        group = state["param_groups"][0]
        if is_old:
            del group["initial_accumulator"], group["loss_reduction"]
        else:
            group.update(initial_accumulator=0.0, loss_reduction="sum")
        optimizer.load_state_dict(state)
        (module({"a": make_bag([7, 8], [1, 1])})["a"].sum() / 2).backward()
        optimizer.step()
        rows.append(read(module, 7, 8))
    assert np.array_equal(rows[0], rows[1])


# The rate


@pytest.mark.parametrize("make", OPTIMIZERS)
def test_a_learning_rate_changed_between_steps_is_used(make: Any) -> None:
    module = HashEmbedding({"a": 2})
    optimizer = make(module, 0.5)
    read_after_lookup(module, 7)
    optimizer.zero_grad()
    before = read(module, 7)
    optimizer.param_groups[0]["lr"] = 0.0
    module({"a": make_bag([7], [1])})["a"].sum().backward()
    optimizer.step()
    assert np.array_equal(read(module, 7)[:, :2], before[:, :2])


def test_schedulers_of_torch_work() -> None:
    module, optimizer = make_sgd(dim=1, lr=8.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
    read_after_lookup(module, 7)
    optimizer.zero_grad()
    applied = []
    for _ in range(4):
        before = read(module, 7)
        module({"a": make_bag([7], [1])})["a"].sum().backward()
        optimizer.step()
        scheduler.step()
        applied.append(round(float((before - read(module, 7))[0, 0]), 3))
    assert applied == [8, 4, 2, 1]


def test_any_scheduler_may_drive_the_learning_rate() -> None:
    _, optimizer = make_sgd(lr=1.0)
    schedule = torch.optim.lr_scheduler
    for scheduler in (
        schedule.LambdaLR(optimizer, lambda step: 1 / (step + 1)),
        schedule.CosineAnnealingLR(optimizer, 10),
        schedule.OneCycleLR(optimizer, 1.0, 10, cycle_momentum=False),
    ):
        optimizer.step()
        scheduler.step()
        assert 0 < optimizer.param_groups[0]["lr"] < 1


# What cannot be


def change_bag(**parts: Any) -> Bag:
    """A valid bag of distinct ids, except for the given parts: `of_distinct` trusts its caller."""
    sound = {
        "unique": torch.tensor([7, 8]),
        "inverse": torch.tensor([0, 1, 1], dtype=torch.int32),
        "data_len": torch.tensor([2, 1], dtype=torch.int32),
    }
    changed = sound | parts
    return Bag.of_distinct(changed["unique"], changed["inverse"], changed["data_len"])


BAD_INPUTS: list[tuple[str, Any, str]] = [
    ("too few ids", make_bag([7], [1, 1]), "data_len"),
    ("too many ids", make_bag([7, 8, 9], [1, 1]), "data_len"),
    ("ids without bags", make_bag([7], []), "data_len"),
    ("a negative length", make_bag([7, 8], [3, -1]), "data_len"),
    ("a length that wraps around", make_bag([], [2**31 - 1, 2**31 - 1, 2]), "data_len"),
    ("too few positions", change_bag(data_len=torch.tensor([2, 2], dtype=torch.int32)), "data_len"),
    ("a negative length of positions", change_bag(data_len=torch.tensor([4, -1], dtype=torch.int32)), "data_len"),
    ("a position past the end", change_bag(inverse=torch.tensor([0, 1, 2], dtype=torch.int32)), "position|inverse"),
    ("a negative position", change_bag(inverse=torch.tensor([0, 1, -1], dtype=torch.int32)), "position|inverse"),
    ("positions of no ids", change_bag(unique=torch.tensor([], dtype=torch.int64)), "position|inverse"),
    ("int64 positions", change_bag(inverse=torch.tensor([0, 1, 1])), "inverse int64 of rank 1"),
    ("int32 ids", change_bag(unique=torch.tensor([7, 8], dtype=torch.int32)), "ids int32 of rank 1"),
    ("float ids", change_bag(unique=torch.tensor([7.0, 8.0])), "ids float32 of rank 1"),
    ("int64 lengths", change_bag(data_len=torch.tensor([2, 1])), "data_len int64 of rank 1"),
    ("ids of rank two", change_bag(unique=torch.tensor([[7], [8]])), "ids int64 of rank 2"),
    ("every second id", Bag(torch.arange(4)[::2], torch.tensor([2], dtype=torch.int32)), "not contiguous"),
    ("positions on no device", change_bag(inverse=torch.zeros(3, dtype=torch.int32, device="meta")), "on meta"),
    ("sparse lengths", change_bag(data_len=torch.tensor([2, 1], dtype=torch.int32).to_sparse()), "contiguous"),
    ("lengths of numpy", change_bag(data_len=np.array([2, 1], np.int32)), "data_len of type ndarray"),
    ("a tensor", torch.tensor([7]), "Bag"),
    ("a list", [7], "Bag"),
]


@pytest.mark.parametrize("is_training", [True, False])
@pytest.mark.parametrize(("bag", "match"), [case[1:] for case in BAD_INPUTS], ids=[case[0] for case in BAD_INPUTS])
def test_a_bad_bag_is_rejected_by_its_name_and_harms_no_table(bag: Any, match: str, is_training: bool) -> None:
    module = HashEmbedding({"good": 2, "bad": 3, "fine": 2})
    optimizer = HashAdam(module, 0.1, ttl=0)
    inputs = {"good": make_bag([1, 2], [2]), "bad": make_bag([7], [1]), "fine": make_bag([1], [1])}
    sum(output.sum() for output in module(inputs).values()).backward()
    optimizer.step()
    module.advance_clock()
    before = freeze(module, 1, 2, 3, 7, 8, 9)
    module.train(is_training)
    with pytest.raises(BadInput, match=match) as caught:
        module({"good": make_bag([2, 3], [2]), "bad": bag, "fine": make_bag([9], [1])})
    assert "bad" in str(caught.value)
    assert freeze(module, 1, 2, 3, 7, 8, 9) == before
    optimizer.step()
    assert freeze(module, 1, 2, 3, 7, 8, 9) == before
    module.train()
    sum(output.sum() for output in module(inputs).values()).backward()
    optimizer.step()
    assert module.count_live() == {"good": 2, "bad": 1, "fine": 1}


@pytest.mark.parametrize("bag", [case[1] for case in BAD_INPUTS], ids=[case[0] for case in BAD_INPUTS])
def test_prefetching_a_bad_bag_harms_no_table(bag: Any) -> None:
    module, _ = make_sgd()
    module({"a": make_bag([7], [1])})
    before = freeze(module, 7, 8, 9)
    with suppress(BadInput):  # it may read the ids only
        module.prefetch({"a": bag})
    assert freeze(module, 7, 8, 9) == before


def test_an_unknown_feature_is_rejected_with_the_known_ones() -> None:
    module = HashEmbedding({"first": 2, "second": 2})
    HashSGD(module, 1.0)
    with pytest.raises(UnknownColumn, match=r"no feature 'third'\. .*Available: first, second"):
        module({"first": make_bag([1], [1]), "third": make_bag([1], [1])})
    assert module.counters()["first"].rows == 0


@pytest.mark.parametrize(
    ("features", "keys", "match"),
    [
        ({"a": 0}, {}, "512"),
        ({"a": 513}, {}, "512"),
        ({"a": -1}, {}, "512"),
        ({"a": 2.5}, {}, "a"),
        ({"a": 2}, {"pooling": "max"}, "must be 'sum' or 'mean', got 'max'"),
        ({"a": 2}, {"pooling": {"a": "max"}}, "must be 'sum' or 'mean', got 'max'"),
        ({"a": 2}, {"pooling": {"b": "sum"}}, "b"),
        ({"a": 2}, {"tables": {"b": "t"}}, "b"),
        ({"a": 2, "b": 3}, {"tables": {"a": "t", "b": "t"}}, "t.*[23]"),
        ({"a": 2, "b": 3}, {"tables": {"a": "b"}}, "b.*[23]"),
    ],
)
def test_invalid_tables_are_rejected(features: Any, keys: Any, match: str) -> None:
    with pytest.raises((BadInput, UnknownColumn), match=match):
        HashEmbedding(features, **keys)


@pytest.mark.parametrize(
    ("make", "keys", "match"),
    [
        (HashSGD, {"lr": -1.0}, "lr"),
        (HashSGD, {"lr": float("nan")}, "lr"),
        (HashSGD, {"lr": 1.0, "ttl": -1}, "ttl"),
        (HashSGD, {"lr": 1.0, "weight_decay": -1.0}, "weight_decay"),
        (HashSGD, {"lr": 1.0, "clip_value": 0.0}, "clip_value"),
        (HashSGD, {"lr": 1.0, "clip_norm": -1.0}, "clip_norm"),
        (HashAdagrad, {"lr": 1.0, "eps": -1.0}, "eps"),
        (HashAdagrad, {"lr": 1.0, "initial_accumulator": -1.0}, "initial_accumulator"),
        (HashRowwiseAdagrad, {"lr": 1.0, "loss_reduction": "none"}, "loss_reduction must be 'mean' or 'sum'"),
        (HashAdam, {"lr": 1.0, "betas": (1.0, 0.9)}, "betas"),
    ],
)
def test_invalid_settings_are_rejected(make: Any, keys: Any, match: str) -> None:
    with pytest.raises(BadInput, match=match):
        make(HashEmbedding({"a": 2}), **keys)


def test_an_optimizer_may_be_added_after_the_first_rows() -> None:
    module = HashEmbedding({"a": 2})
    output = module({"a": make_bag([7], [1])})["a"]
    HashAdagrad(module, 0.1)
    assert read(module, 7).tolist() == [[*output[0].tolist(), 0, 0]]


def test_a_new_optimizer_keeps_the_weights_and_starts_with_a_fresh_state() -> None:
    module = HashEmbedding({"a": 2})
    first = HashAdam(module, 0.1)
    module({"a": make_bag([7, 8], [2])})["a"].sum().backward()
    first.step()
    weights = read(module, 7, 8)[:, :2]
    second = HashAdagrad(module, 0.1)
    assert np.array_equal(read(module, 7, 8), np.hstack([weights, np.zeros((2, 2))]))
    module({"a": make_bag([7], [1])})["a"].sum().backward()
    with pytest.raises(BadInput, match="optimizer"):
        first.step()
    module({"a": make_bag([7], [1])})["a"].sum().backward()
    second.step()
    assert read(module, 7)[:, 2:].tolist() == [[1, 1]]


# State


@pytest.mark.parametrize("make", OPTIMIZERS)
def test_the_state_travels_with_the_model_that_holds_it(make: Any) -> None:
    def make_model() -> tuple[nn.ModuleDict, Any]:
        hashed = HashEmbedding({"a": 2, "b": 3})
        return nn.ModuleDict({"hashed": hashed, "dense": nn.Linear(5, 1)}), make(hashed, 0.1, ttl=5)

    (model, optimizer), (copy, copied_optimizer) = make_model(), make_model()
    hashed, copied = model["hashed"], copy["hashed"]
    assert isinstance(hashed, HashEmbedding)
    assert isinstance(copied, HashEmbedding)
    inputs = {"a": make_bag([1, LAST, 0], [2, 1]), "b": make_bag([5], [0, 1])}
    for _ in range(3):
        sum(output.pow(2).sum() for output in hashed(inputs).values()).backward()
        optimizer.step()
        hashed.advance_clock()
    copy.load_state_dict(model.state_dict())
    copied_optimizer.load_state_dict(optimizer.state_dict())
    assert freeze(copied, 0, 1, 5, LAST) == freeze(hashed, 0, 1, 5, LAST)
    assert copied.clock == 3
    sum(output.pow(2).sum() for output in hashed(inputs).values()).backward()
    optimizer.step()
    assert freeze(copied, 0, 1, 5, LAST) != freeze(hashed, 0, 1, 5, LAST)  # nothing is shared


@pytest.mark.parametrize(
    "other",
    [{"a": 3}, {"b": 2}, {"a": 2, "b": 2}],
    ids=["another dim", "another table", "one table more"],
)
def test_the_state_of_other_tables_is_rejected_and_harms_nothing(other: dict[str, int]) -> None:
    source = HashEmbedding({"a": 2})
    HashSGD(source, 1.0)
    source({"a": make_bag([1], [1])})
    target = HashEmbedding(other)
    HashSGD(target, 1.0)
    target({next(iter(other)): make_bag([9], [1])})
    before = freeze(target, 1, 9)
    with pytest.raises((BadInput, RuntimeError)):
        target.load_state_dict(source.state_dict())
    assert freeze(target, 1, 9) == before


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_outputs_are_float32_whatever_torchs_defaults_are(dtype: torch.dtype) -> None:
    expected = HashEmbedding({"a": 4})({"a": make_bag([1, 2], [1, 1])})["a"]
    torch.set_default_dtype(dtype)
    try:
        module = HashEmbedding({"a": 4})
        with torch.device("meta"):
            found = module({"a": bag_of_two()})["a"]
            assert torch.equal(module.concat({"a": bag_of_two()}), expected)
    finally:
        torch.set_default_dtype(torch.float32)
    assert found.dtype == torch.float32
    assert torch.equal(found, expected)


def bag_of_two() -> Bag:
    with torch.device("cpu"):
        return make_bag([1, 2], [1, 1])


# concat


@pytest.mark.parametrize("names", [("a",), ("a", "b")])
@pytest.mark.parametrize("is_training", [True, False])
@pytest.mark.parametrize("shape", [(3,), (2, 2)])
def test_concat_is_torch_cat_of_the_outputs_and_the_real_columns(
    names: tuple[str, ...], is_training: bool, shape: tuple[int, ...]
) -> None:
    lengths = np.arange(np.prod(shape)).reshape(shape)
    bags = {name: make_bag(range(lengths.sum()), lengths.tolist()) for name in names}
    real = [torch.rand(shape), torch.rand(*shape, 2), torch.rand(shape).double(), torch.ones(shape, dtype=torch.bool)]
    states = []
    for is_one in (True, False):
        module = HashEmbedding(dict(zip(names, (3, 5), strict=False)))
        optimizer = HashAdagrad(module, 0.1)
        module(bags)  # otherwise a frozen lookup finds nothing
        module.train(is_training)
        joined = module.concat(bags, real) if is_one else cat(module(bags), real)
        if is_training:
            optimizer.zero_grad()
            (joined * torch.arange(joined.numel()).view_as(joined)).sum().backward()  # type: ignore[no-untyped-call]  # torch gives it no types
            optimizer.step()
        states.append((joined.detach(), *(read(module, *range(lengths.sum()), table=name) for name in names)))
    for one, other in zip(*states, strict=True):
        assert np.array_equal(one, other)


def cat(outputs: dict[str, torch.Tensor], real: list[torch.Tensor]) -> torch.Tensor:
    shape = next(iter(outputs.values())).shape[:-1]
    return torch.cat([*outputs.values(), *(values.float().reshape(*shape, -1) for values in real)], -1)


def test_real_columns_of_one_shape_are_stacked() -> None:
    module = HashEmbedding({"a": 2}).eval()
    joined = module.concat({"a": make_bag([1, 2], [1, 1])}, [torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])])
    assert joined.tolist() == [[0, 0, 1, 3], [0, 0, 2, 4]]


@pytest.mark.parametrize(
    ("real", "message"),
    [
        (
            [torch.ones(2), torch.ones(3)],
            r"real\[1\] must have the shape of the bags, \[2\], or one dimension more, got \[3\]",
        ),
        ([torch.ones(2), torch.ones(2, 1, 1)], r"real\[1\] must have the shape .*, got \[2, 1, 1\]"),
        ([torch.ones(2), torch.ones(())], r"real\[1\] must have the shape .*, got \[\]"),
        ([torch.ones(2), torch.ones(2, requires_grad=True)], r"real\[1\] needs a gradient.*torch.cat"),
        ([torch.ones(2), np.ones(2)], r"real\[1\] must be a tensor, got ndarray"),
        (torch.ones(2, 3), r"real must be a list of tensors, got a tensor of shape \[2, 3\]"),
        (torch.ones(()), r"real must be a list of tensors, got a tensor of shape \[\]"),
    ],
)
def test_real_columns_that_do_not_fit_are_rejected_and_insert_nothing(real: Any, message: str) -> None:
    module, _ = make_sgd()
    with pytest.raises(BadInput, match=message):
        module.concat({"a": make_bag([1, 2], [1, 1])}, real)
    assert module.counters()["a"].rows == 0
