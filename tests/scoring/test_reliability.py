"""Bins of predictions: each row once, equal predictions together, and means that are those of plain loops."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samovar.errors import BadInput
from samovar.scoring.reliability import bin_predictions

ROWS = st.lists(st.tuples(st.integers(0, 1), st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.9]) | st.floats(0, 1)), min_size=1)


@given(ROWS, st.integers(1, 30))
def test_every_row_is_in_one_bin(rows: list[tuple[int, float]], num_bins: int) -> None:
    targets, predictions = (np.array(each, np.float64) for each in zip(*rows, strict=True))
    bins = bin_predictions(targets, predictions, num_bins)
    assert sum(each.num_examples for each in bins) == len(rows)
    assert 1 <= len(bins) <= num_bins
    for one, other in pairwise(bins):
        assert one.high < other.low  # equal predictions are never cut apart
    for each in bins:
        inside = (predictions >= each.low) & (predictions <= each.high)
        assert inside.sum() == each.num_examples
        assert each.mean_target == pytest.approx(targets[inside].mean())
        assert each.mean_prediction == pytest.approx(predictions[inside].mean())


def test_what_is_not_finite_is_left_out() -> None:
    bins = bin_predictions(np.array([1.0, np.nan, 0.0]), np.array([0.5, 0.5, np.inf]))
    assert [each.num_examples for each in bins] == [1]
    assert bin_predictions(np.array([]), np.array([])) == []


def test_arrays_of_different_lengths_are_refused() -> None:
    with pytest.raises(BadInput, match=r"must be \[N\]"):
        bin_predictions(np.zeros(2), np.zeros(3))
