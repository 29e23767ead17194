"""Frozen tables, and vectors that are set: what changes, and what must not."""

import copy
from typing import Any

import numpy as np
import pytest
import torch

from samovar.embeddings import HashAdagrad, HashAdam, HashEmbedding, final_state
from samovar.embeddings.state import refit_table
from samovar.errors import BadInput, UnknownColumn
from samovar.tables import Bag


def bag_of(*ids: int) -> Bag:
    return Bag(torch.tensor(ids, dtype=torch.int64), torch.ones(len(ids), dtype=torch.int32))


def ids_of(*ids: int) -> Any:
    return np.array(ids, np.uint64)


def train(embedding: HashEmbedding, optimizer: Any, *ids: int) -> torch.Tensor:
    embedding.advance_clock()
    bags = {name: bag_of(*ids) for name in embedding.features}
    outputs = embedding(bags)
    torch.autograd.backward([each.sum() for each in outputs.values()])
    optimizer.step()
    output: torch.Tensor = outputs["user"]
    return output.detach()


def rows(embedding: HashEmbedding, table: str, *ids: int) -> Any:
    return [part.tolist() for part in embedding.get(table, ids_of(*ids))]


def make(ttl: int | None = None) -> tuple[HashEmbedding, HashAdagrad]:
    embedding = HashEmbedding({"user": 2, "ad": 2}, init_scale=1.0)
    return embedding, HashAdagrad(embedding, lr=0.1, ttl=ttl)


@pytest.mark.parametrize("uses_columns", [False, True])
def test_training_changes_nothing_in_a_frozen_table(uses_columns: bool) -> None:
    embedding, optimizer = make(ttl=1)
    train(embedding, optimizer, 1, 2)
    before = rows(embedding, "user", 1, 2, 3)
    embedding.freeze("user")
    for _ in range(5):  # longer than the ttl
        if uses_columns:
            embedding.advance_clock()
            torch.autograd.backward(embedding.concat({name: bag_of(1, 3) for name in ("user", "ad")}).sum())
            optimizer.step()
        else:
            output = train(embedding, optimizer, 1, 3)
            assert output.tolist() == [before[0][0][:2], [0.0, 0.0]]  # an unknown id is zeros
        embedding.sweep()
    assert rows(embedding, "user", 1, 2, 3) == before
    assert embedding.count_live() == {"user": 2, "ad": 2}
    assert embedding.weights_of("user", ids_of(1)).tolist() == [before[0][0][:2]]
    assert embedding.frozen_tables == ["user"]
    assert rows(embedding, "ad", 3)[2] == [True]


def test_the_other_tables_learn_as_if_nothing_were_frozen() -> None:
    plain, plain_optimizer = make()
    half, half_optimizer = make()
    half.freeze("user")
    for ids in ((1, 2), (2, 3)):
        train(plain, plain_optimizer, *ids)
        train(half, half_optimizer, *ids)
    assert rows(half, "ad", 1, 2, 3) == rows(plain, "ad", 1, 2, 3)


def test_a_copy_of_a_frozen_module_is_frozen() -> None:
    embedding, _ = make()
    embedding.freeze()
    assert copy.deepcopy(embedding).frozen_tables == ["user", "ad"]
    with pytest.raises(UnknownColumn, match=r"no table 'users'\. Did you mean 'user'"):
        embedding.freeze("users")


@pytest.mark.parametrize("is_frozen", [False, True])
def test_vectors_that_are_set_replace_old_ones_and_insert_new_ones(is_frozen: bool) -> None:
    embedding, optimizer = make()
    train(embedding, optimizer, 1)
    if is_frozen:
        embedding.freeze()
    embedding.set_weights("user", [1, -1], [[1, 2], [3, 4]])
    found, stamps, is_known = rows(embedding, "user", 1, 2**64 - 1)
    assert found == [[1.0, 2.0, 0.0, 0.0], [3.0, 4.0, 0.0, 0.0]]  # with a fresh sum of squares
    assert (stamps, is_known) == ([1, 1], [True, True])
    assert embedding.counters()["user"].inserted == 2
    embedding.set_weights("user", [], np.zeros((0, 2)))


@pytest.mark.parametrize(
    ("ids", "vectors", "message"),
    [
        ([1, 2, 1], np.zeros((3, 2)), "ids must be unique, got 1 more than once"),
        ([1], np.zeros((1, 3)), r"vectors must be numbers of shape \[1, 2\], got float64 of shape \[1, 3\]"),
        ([1, 2], np.zeros((1, 2)), r"of shape \[2, 2\]"),
        ([1], [["a", "b"]], "must be numbers"),
        ([1, 2], [[0, 0], [0, np.inf]], "the vector in row 1 is not finite"),
        ([1.5], np.zeros((1, 2)), "ids must be a list of 64-bit integers or of strings, got float64"),
    ],
)
def test_vectors_that_cannot_be_set_are_refused(ids: Any, vectors: Any, message: str) -> None:
    embedding, _ = make()
    with pytest.raises(BadInput, match=message):
        embedding.set_weights("user", ids, vectors)
    assert embedding.count_live()["user"] == 0


def test_strings_are_hashed_as_in_brewing() -> None:
    embedding, _ = make()
    embedding.set_weights("user", ["Ann"], [[1, 2]])
    embedding.set_weights("user", ["Bob"], [[3, 4]])
    assert embedding.count_live()["user"] == 2


def refitted(old_dim: int, new_dim: int, kinds: tuple[Any, Any], keeps_state: bool) -> tuple[Any, Any, HashEmbedding]:
    old, new = (HashEmbedding({"user": dim}, init_scale=1.0) for dim in (old_dim, new_dim))
    optimizer = kinds[0](old, lr=0.1)
    kinds[1](new, lr=0.1)
    for _ in range(2):
        train(old, optimizer, 1, 2)
    saved = final_state(old)["_extra_state"]
    table = refit_table(saved["tables"]["user"], new, "user", keeps_state=keeps_state)
    new.set_extra_state({"clock": saved["clock"], "tables": {"user": table}})
    before, after = old.get("user", ids_of(1, 2)), new.get("user", ids_of(1, 2))
    assert before[1].tolist() == after[1].tolist() == [2, 2]
    return before[0], after[0], new


def test_a_wider_table_takes_what_it_has_and_new_components_of_a_new_id() -> None:
    before, after, new = refitted(2, 3, (HashAdagrad, HashAdagrad), keeps_state=True)
    fresh = new.initial_weights("user", ids_of(1, 2))
    assert after[:, :2].tolist() == before[:, :2].tolist()
    assert after[:, 2].tolist() == fresh[:, 2].tolist()
    assert after[:, 3:5].tolist() == before[:, 2:].tolist()
    assert after[:, 5].tolist() == [0.0, 0.0]
    train(new, HashAdagrad(new, lr=0.1), 9)
    assert not np.array_equal(new.get("user", ids_of(9))[0], 0)


def test_a_narrower_table_of_adam_keeps_both_moments_and_the_steps() -> None:
    before, after, _ = refitted(3, 2, (HashAdam, HashAdam), keeps_state=True)
    assert after.tolist() == before[:, [0, 1, 3, 4, 6, 7, 9]].tolist()
    assert after[:, -1].tolist() == [2.0, 2.0]


def test_without_state_another_optimizer_starts_at_zero() -> None:
    before, after, _ = refitted(2, 2, (HashAdagrad, HashAdam), keeps_state=False)
    assert after[:, :2].tolist() == before[:, :2].tolist()
    assert not after[:, 2:].any()


def test_new_weights_are_those_that_training_gives_a_new_id() -> None:
    embedding = HashEmbedding({"user": 3, "ad": 3}, tables={"ad": "user"}, seed=7)
    embedding({"user": bag_of(5, 6)})
    assert embedding.get("user", ids_of(5, 6))[0].tolist() == embedding.initial_weights("user", ids_of(5, 6)).tolist()
