"""AUC in bounded memory: exact while predictions are few, and near the exact value when they are rounded."""

import numpy as np
import pytest
from sklearn import metrics as sk

from samovar.scoring.distribution import Distribution

RANDOM = np.random.Generator(np.random.Philox(key=5))


@pytest.mark.parametrize("scale", [1.0, -1e6])
def test_rounded_predictions_are_bounded_and_nearly_exact(scale: float) -> None:
    y = RANDOM.integers(0, 2, 20_000).astype(float)
    p = scale * (0.2 * y + RANDOM.random(len(y)))
    small = Distribution(max_distinct=1000)
    for rows in np.array_split(np.arange(len(y)), 20):
        small.add(y[rows], p[rows], np.ones(len(rows)))
        assert len(small._values) <= 1000
    assert not small.is_exact
    assert small.auc() == pytest.approx(sk.roc_auc_score(y, p), abs=1e-3)
    assert small.average_precision() == pytest.approx(sk.average_precision_score(y, p), abs=1e-3)


def test_predictions_that_repeat_stay_exact_however_many_rows_there_are() -> None:
    y, p = RANDOM.integers(0, 2, 5000).astype(float), RANDOM.integers(0, 900, 5000) / 7
    small = Distribution(max_distinct=1000)
    for rows in np.array_split(np.arange(len(y)), 10):
        small.add(y[rows], p[rows], np.ones(len(rows)))
    assert small.is_exact
    assert small.auc() == pytest.approx(sk.roc_auc_score(y, p), abs=1e-12)


def test_zeros_of_both_signs_are_one_prediction() -> None:
    both = Distribution()
    both.add(np.array([1.0, 0.0]), np.array([-0.0, 0.0]), np.ones(2))
    assert both.auc() == 0.5
