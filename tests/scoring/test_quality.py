import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samovar.scoring.quality import auc, log_loss, measure


def auc_by_pairs(targets: list[int], predictions: list[float]) -> float | None:
    """By definition: over all pairs of a positive and a negative."""
    ahead = [
        (p > n) + 0.5 * (p == n)
        for p, y in zip(predictions, targets, strict=True)
        if y
        for n, z in zip(predictions, targets, strict=True)
        if not z
    ]
    return sum(ahead) / len(ahead) if ahead else None


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 5)), min_size=1, max_size=40))
def test_auc_counts_pairs_and_a_tie_counts_half(rows: list[tuple[int, int]]) -> None:
    targets, predictions = [y for y, _ in rows], [p / 5 for _, p in rows]
    found = auc(np.array(targets, float), np.array(predictions))
    expected = auc_by_pairs(targets, predictions)
    assert found == (None if expected is None else pytest.approx(expected))


def test_log_loss_is_the_mean_negative_log_probability_of_the_truth() -> None:
    found = log_loss(np.array([1.0, 0.0]), np.array([0.8, 0.4]))
    assert found == pytest.approx(-(np.log(0.8) + np.log(0.6)) / 2)
    assert np.isfinite(log_loss(np.array([1.0, 0.0]), np.array([0.0, 1.0])))


def test_calibration_is_the_ratio_of_predicted_to_actual() -> None:
    found = measure(np.array([1, 0, 0, 1], np.float32), np.array([0.5, 0.5, 0.0, 0.5], np.float32))
    assert found["calibration"] == 0.75
    assert (found["mean_target"], found["mean_prediction"], found["num_examples"]) == (0.5, 0.375, 4)


def test_a_measure_that_is_not_defined_is_none() -> None:
    regression = measure(np.array([1.5, -2.0]), np.array([1.0, 2.0]))
    assert regression["auc"] is None
    assert regression["log_loss"] is None
    assert measure(np.array([1.0]), np.array([2.0]))["log_loss"] is None
    empty = measure(np.array([]), np.array([]))
    assert empty["num_examples"] == 0
    assert empty["auc"] is None
    assert measure(np.array([0.0, 1.0]), np.array([np.nan, 1.0]))["auc"] is None
