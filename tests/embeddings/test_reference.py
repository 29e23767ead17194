"""The numpy reference itself, by hand-computed numbers; other tests compare the core with it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samovar.embeddings.reference import (
    Ids,
    Kind,
    ReferenceEmbedding,
    ReferenceOptimizer,
    ReferenceTable,
    Rows,
    make_weights,
    mix,
    pool,
    power,
    reduce_gradients,
    seed_of_table,
    spread,
    sum8,
    update_rows,
)

BIG = 2.0**24  # the first float32 whose neighbour is two away
KINDS: list[Kind] = ["sgd", "adagrad", "rowwise_adagrad", "adam"]


def ids(*numbers: int) -> Ids:
    return np.array(numbers, np.uint64)


def rows(*values: list[float]) -> Rows:
    return np.array(values, np.float32)


def lengths(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def step(row: list[float], gradient: list[float], optimizer: ReferenceOptimizer) -> list[float]:
    updated, _ = update_rows(rows(row), rows(gradient), optimizer)
    assert updated.dtype == np.float32
    return updated[0].tolist()  # type: ignore[no-any-return]  # numpy types a line as Any


def make_table(ttl: int | None = None) -> ReferenceTable:
    return ReferenceTable(2, ReferenceOptimizer("sgd", 1.0), 7, 0.01, ttl)


def mix_in_python(word: int) -> int:
    word = (word ^ word >> 33) * 0xFF51AFD7ED558CCD % 2**64
    word = (word ^ word >> 33) * 0xC4CEB9FE1A85EC53 % 2**64
    return word ^ word >> 33


def test_the_mixer_is_that_of_murmurhash3() -> None:
    assert mix(ids(0, 1)).tolist() == [0, 0xB456BCFC34C2CB2C]


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.integers(1, 9), st.sampled_from([1.0, 0.01, 0.3]))
def test_a_new_weight_is_24_bits_of_a_hash_of_seed_id_and_column(
    number: int, seed: int, dim: int, scale: float
) -> None:
    made = make_weights(ids(number), dim, seed, scale)[0]
    base = mix_in_python(number ^ seed)
    for j in range(dim):
        bits = mix_in_python((base + (j + 1) * 0x9E3779B97F4A7C15) % 2**64) >> 40
        assert made[j] == np.float32(bits / 2**23 - 1) * np.float32(scale)
        assert abs(made[j]) <= np.float32(scale)


def test_new_weights_never_change() -> None:
    assert seed_of_table(0, "BannerID") == 0x96D2CB9C2DCE3797
    made = make_weights(ids(0, 1, 2**64 - 1), 3, 12345, 0.01)
    assert made.view(np.uint32).tolist() == [
        [0xBC1A3619, 0xBB3FB657, 0x3BEE6EDE],
        [0x3C05975C, 0xBB2EFE85, 0xBB9E7773],
        [0x3C1171F9, 0x3A1170A4, 0xBABAE7D7],
    ]


def test_new_weights_differ_between_ids_columns_tables_and_seeds() -> None:
    made = [
        make_weights(np.arange(1000, dtype=np.uint64), 4, seed_of_table(seed, name), 1.0)
        for seed in (0, 1)
        for name in ("a", "b")
    ]
    assert len(np.unique(np.concatenate(made))) > 15_900
    assert abs(float(np.mean(made))) < 0.02
    assert abs(float(np.std(made)) - 3**-0.5) < 0.01


def test_a_bag_is_summed_in_its_order_and_an_empty_one_is_zeros() -> None:
    pooled = pool(rows([BIG], [1], [1], [1], [1], [BIG]), lengths(3, 0, 3), "sum")
    assert pooled.tolist() == [[BIG], [0], [BIG + 2]]


def test_a_mean_is_the_sum_divided_by_the_number_of_ids() -> None:
    pooled = pool(rows([1, 10], [3, 30], [5, 7]), lengths(2, 0, 1), "mean")
    assert pooled.tolist() == [[2, 20], [0, 0], [5, 7]]


def test_nested_lengths_give_nested_outputs() -> None:
    assert pool(np.ones((4, 2), np.float32), np.array([[[1], [2]], [[0], [1]]], np.int32), "sum").shape == (2, 2, 1, 2)
    assert pool(np.ones((0, 2), np.float32), np.zeros((0, 5), np.int32), "mean").shape == (0, 5, 2)


def test_the_sum_of_a_negative_zero_is_a_positive_zero() -> None:
    assert not np.signbit(pool(rows([-0.0]), lengths(1), "sum"))
    assert not np.signbit(reduce_gradients(ids(5), rows([-0.0]))[1])


def test_each_occurrence_takes_its_share_of_the_gradient() -> None:
    gradient = rows([6, 12], [1, 1], [5, 5])
    assert spread(gradient, lengths(2, 0, 1), "sum").tolist() == [[6, 12], [6, 12], [5, 5]]
    assert spread(gradient, lengths(2, 0, 1), "mean").tolist() == [[3, 6], [3, 6], [5, 5]]


def test_gradients_of_one_id_are_summed_in_order_of_its_occurrences() -> None:
    distinct, sums = reduce_gradients(ids(9, 3, 9, 3, 9, 3), rows([BIG], [1], [1], [1], [1], [BIG]))
    assert distinct.tolist() == [9, 3]
    assert sums.tolist() == [[BIG], [BIG + 2]]


def test_eight_accumulators_are_joined_in_a_fixed_order() -> None:
    values = np.zeros((1, 16), np.float32)
    values[0, [0, 4, 8, 12]] = BIG, 1, 1, 1  # a0 = BIG + 1 -> BIG; a4 = 1 + 1; one after another they would all be lost
    assert sum8(values).tolist() == [BIG + 2]
    values[0, 2] = 1  # (a0 + a4) + (a2 + a6) = (BIG + 2) + 1, a tie that rounds to the even BIG + 4
    assert sum8(values).tolist() == [BIG + 4]
    assert sum8(rows([1, 2, 3])).tolist() == [6]


def test_powers_are_exact_where_float64_is() -> None:
    assert [power(0.5, n) for n in (0, 1, 2, 10, 1000)] == [1, 0.5, 0.25, 2**-10, 2**-1000]
    assert power(3.0, 13) == 3**13


def test_sgd_subtracts_the_gradient_times_lr() -> None:
    assert step([1, 2], [0.5, -1], ReferenceOptimizer("sgd", 0.5)) == [0.75, 2.5]


def test_adagrad_divides_by_the_root_of_its_sum() -> None:
    optimizer = ReferenceOptimizer("adagrad", 0.5, eps=0.0)
    assert step([1, 1, 9, 0], [4, 2], optimizer) == [float(np.float32(1) - np.float32(0.4)), 0.5, 25, 4]
    assert step([1, 9], [4], ReferenceOptimizer("adagrad", 0.5, eps=3.0)) == [0.75, 25]


def test_rowwise_adagrad_has_one_mean_square_per_row() -> None:
    assert step([10, 20, 0], [1, 7], ReferenceOptimizer("rowwise_adagrad", 10, eps=0.0)) == [8, 6, 25]
    assert step([10, 20, 11], [1, 7], ReferenceOptimizer("rowwise_adagrad", 10, eps=4.0)) == [9, 13, 36]


def test_adam_counts_the_steps_of_each_row() -> None:
    optimizer = ReferenceOptimizer("adam", 0.5, eps=0.0, betas=(0.5, 0.75))
    first = step([1, 0, 0, 0], [2], optimizer)
    assert first == [0.5, 1, 1, 1]  # m / c1 = 1 / 0.5, sqrt(v / c2) = sqrt(1 / 0.25)
    second = step(first, [1], optimizer)
    assert second[1:] == [1, 1, 2]
    m, root = np.float32(1) / np.float32(0.75), np.sqrt(np.float32(1) / np.float32(0.4375))
    assert second[0] == np.float32(0.5) - (np.float32(0.5) * m) / root


def test_rows_of_different_age_get_their_own_correction() -> None:
    optimizer = ReferenceOptimizer("adam", 0.5, betas=(0.5, 0.75))
    both, _ = update_rows(rows([1, 0, 0, 0], [0.5, 1, 1, 1]), rows([2], [1]), optimizer)
    assert both.tolist() == [step([1, 0, 0, 0], [2], optimizer), step([0.5, 1, 1, 1], [1], optimizer)]


def test_weight_decay_adds_to_the_gradient_of_the_rows_that_are_used() -> None:
    assert step([1, 2], [0.5, -1], ReferenceOptimizer("sgd", 0.5, weight_decay=0.5)) == [0.5, 2]


def test_a_gradient_is_clipped_by_value_then_by_norm_then_decayed() -> None:
    assert step([0, 0], [3, -0.5], ReferenceOptimizer("sgd", 1, clip_value=1)) == [-1, 0.5]
    assert step([0, 0], [3, 4], ReferenceOptimizer("sgd", 1, clip_norm=2.5)) == [-1.5, -2]
    assert step([0, 0], [3, 4], ReferenceOptimizer("sgd", 1, clip_norm=5)) == [-3, -4]
    optimizer = ReferenceOptimizer("sgd", 1, clip_value=4, clip_norm=2.5, weight_decay=10)
    assert step([1, 0], [3, 400], optimizer) == [1 - (1.5 + 10), -2]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_row_whose_gradient_is_not_finite_is_left_alone_and_counted(kind: Kind, bad: float) -> None:
    optimizer = ReferenceOptimizer(kind, 0.1, weight_decay=0.5, clip_value=1.0)
    before = np.ones((2, optimizer.width(2)), np.float32)
    after, skipped = update_rows(before, rows([1, bad], [1, 1]), optimizer)
    assert skipped.tolist() == [True, False]
    assert after[0].tolist() == before[0].tolist()
    assert after[1].tolist() != before[1].tolist()


def test_a_sum_that_overflows_is_not_finite() -> None:
    table = make_table()
    before = table.read_training(ids(1))
    table.update([(ids(1, 1), rows([3e38, 0], [3e38, 0]))])
    assert table.read_training(ids(1)).tolist() == before.tolist()
    assert table.counters.skipped == 1


def test_training_inserts_and_stamps_and_a_frozen_reading_does_not() -> None:
    table = make_table()
    assert table.read_frozen(ids(4, 4, 5)).tolist() == [[0, 0], [0, 0], [0, 0]]
    assert (table.rows, table.counters.missed) == ({}, 2)
    table.clock = 3
    assert table.read_training(ids(4, 4)).tolist() == make_weights(ids(4, 4), 2, 7, 0.01).tolist()
    assert (table.stamps, table.counters.inserted, table.counters.rows) == ({4: 3}, 1, 1)


def test_a_row_expires_when_more_than_ttl_has_passed() -> None:
    table = make_table(ttl=2)
    table.read_training(ids(4))
    table.update([(ids(4), rows([1, 1]))])
    trained = table.read_frozen(ids(4))
    table.clock = 2
    assert table.read_frozen(ids(4)).tolist() == trained.tolist()
    table.clock = 3
    assert table.read_frozen(ids(4)).tolist() == [[0, 0]]
    assert table.read_training(ids(4)).tolist() == make_weights(ids(4), 2, 7, 0.01).tolist()
    assert (table.counters.inserted, table.counters.reset, table.counters.missed) == (1, 1, 1)


def test_a_sweep_frees_the_expired_rows_only() -> None:
    table = make_table(ttl=0)
    table.read_training(ids(4, 5))
    table.clock = 1
    table.read_training(ids(5, 6))
    assert table.sweep() == 1
    assert sorted(table.rows) == [5, 6]
    assert (table.counters.rows, table.counters.freed, table.counters.reset) == (2, 1, 1)
    assert table.sweep() == 0


def test_two_features_of_one_table_add_their_gradients_in_the_order_of_the_features() -> None:
    embedding = ReferenceEmbedding(
        {"first": 1, "second": 1}, ReferenceOptimizer("sgd", 1.0), tables={"first": "t", "second": "t"}, init_scale=0.0
    )
    inputs = {"second": (ids(8, 8), lengths(2)), "first": (ids(8), lengths(1))}
    assert {name: value.shape for name, value in embedding.forward(inputs).items()} == {
        "first": (1, 1),
        "second": (1, 1),
    }
    embedding.step([(inputs, {"first": rows([BIG]), "second": rows([1])})])
    assert embedding.tables["t"].rows[8].tolist() == [-BIG]  # BIG + 1 + 1; the other order would give BIG + 2
    assert embedding.tables["t"].counters.inserted == 1


def test_several_uses_in_one_step_are_one_update() -> None:
    embedding = ReferenceEmbedding({"a": 1}, ReferenceOptimizer("adam", 0.5), init_scale=0.0)
    inputs = {"a": (ids(8), lengths(1))}
    embedding.forward(inputs)
    embedding.forward(inputs)
    embedding.step([(inputs, {"a": rows([1])}), (inputs, {})])
    assert embedding.tables["a"].rows[8][-1] == 1


def test_an_id_without_a_gradient_takes_no_step() -> None:
    embedding = ReferenceEmbedding({"a": 1}, ReferenceOptimizer("adam", 0.5, weight_decay=1.0))
    inputs = {"a": (ids(8), lengths(1))}
    embedding.forward(inputs)
    before = embedding.tables["a"].rows[8].tolist()
    embedding.step([(inputs, {})])
    assert embedding.tables["a"].rows[8].tolist() == before
