"""Columns of numbers: normal scores and bins, also for skewed, tied and short columns."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from samovar.nets.numbers import NumberMap, choose_edges
from samovar.seeds import numpy_generator


def fit(values: object, num_bins: int = 64) -> NumberMap:
    found = NumberMap.fit(np.asarray(values, np.float64), num_bins)
    assert found is not None
    return found


def test_scores_are_those_of_a_normal_variable_at_the_same_rank() -> None:
    values = np.exp(numpy_generator(0, "numbers").normal(size=501))
    scores = fit(values).apply(values)
    ranks = (np.argsort(np.argsort(values)) + 0.5) / len(values)
    np.testing.assert_allclose(scores, norm.ppf(ranks), atol=1e-5)


def test_equal_values_share_the_middle_of_their_ranks() -> None:
    column = fit([0.0] * 90 + [1.0] * 10)
    np.testing.assert_allclose(column.apply(np.array([0.0, 1.0])), norm.ppf([0.45, 0.95]), atol=1e-6)


def test_values_between_knots_are_in_order_and_values_outside_are_clipped() -> None:
    column = fit(numpy_generator(0, "numbers").normal(size=100_000))
    assert len(column.knots) == 1000
    scores = column.apply(np.linspace(-10, 10, 2001))
    assert (np.diff(scores) >= 0).all()
    assert scores[0] == -4
    assert scores[-1] == 4


def test_missing_values_get_the_median() -> None:
    column = fit([1.0, np.nan, 3.0, 100.0])
    assert column.apply(np.array([np.nan])) == column.apply(np.array([3.0]))


@pytest.mark.parametrize("values", [[], [np.nan, np.nan], [2.0, np.nan, 2.0]])
def test_a_column_with_one_value_at_most_becomes_nothing(values: list[float]) -> None:
    assert NumberMap.fit(np.asarray(values, np.float64), 64) is None


def test_each_of_few_distinct_values_is_an_edge() -> None:
    ordered = np.repeat(np.arange(65.0), np.arange(1, 66))
    np.testing.assert_array_equal(choose_edges(ordered, 64), np.arange(65))


def test_a_frequent_value_and_its_neighbours_are_edges() -> None:
    others = np.arange(1, 1001) / 1000
    ordered = np.sort(np.concatenate([others, np.full(9000, 0.5005)]))
    edges = choose_edges(ordered, 16)
    assert {0.001, 0.5, 0.5005, 0.501, 1.0} <= set(edges)
    assert len(edges) == 17
    # Quantiles of all rows would all be the frequent value.
    assert (np.diff(edges) < 0.12).all()


def test_many_frequent_values_with_their_neighbours_may_need_more_bins() -> None:
    frequent = np.repeat(np.arange(10.0), 20)
    ordered = np.sort(np.concatenate([frequent, frequent[::20] + 0.1, frequent[::20] - 0.1]))
    assert set(np.arange(10.0)) <= set(choose_edges(ordered, 12))


@given(
    st.lists(st.one_of(st.integers(-5, 5).map(float), st.floats(-1e300, 1e300)), min_size=2, max_size=200),
    st.integers(1, 70),
)
def test_any_column_gives_ascending_edges_and_scores_in_order(values: list[float], num_bins: int) -> None:
    column = NumberMap.fit(np.array(values), num_bins)
    if column is None:
        assert len(set(values)) == 1
        return
    assert len(column.edges) >= 2
    assert (np.diff(column.edges) > 0).all()
    scores = column.apply(np.sort(values))
    assert np.isfinite(scores).all()
    assert (np.diff(scores) >= 0).all()
    assert (column.edges[0], column.edges[-1]) == (scores[0], scores[-1])
