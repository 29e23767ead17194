"""Metrics by task: their formulas against scikit-learn, weights, and inference of the task."""

from typing import Any

import numpy as np
import pytest
from sklearn import metrics as sk

from samovar.errors import BadInput
from samovar.scoring import measuring
from samovar.scoring.measuring import Measurement, Measuring
from samovar.scoring.metric_names import badness
from samovar.scoring.quality import measure

RANDOM = np.random.Generator(np.random.Philox(key=22))
SIZE = 500
WEIGHTS = RANDOM.integers(0, 4, SIZE).astype(float)
WEIGHT_CASES = pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])


@WEIGHT_CASES
def test_binary_metrics_are_those_of_scikit_learn(weights: Any) -> None:
    y = RANDOM.integers(0, 2, SIZE).astype(float)
    p = np.clip(np.round(0.3 * y + 0.7 * RANDOM.random(SIZE), 2), 0.01, 0.99)  # with ties
    found = measure(y, p, weights=weights)
    assert found["task"] == "binary"
    assert found["auc"] == pytest.approx(sk.roc_auc_score(y, p, sample_weight=weights))
    assert found["log_loss"] == pytest.approx(sk.log_loss(y, p, sample_weight=weights))
    assert found["accuracy"] == pytest.approx(sk.accuracy_score(y, p >= 0.5, sample_weight=weights))
    assert found["average_precision"] == pytest.approx(sk.average_precision_score(y, p, sample_weight=weights))
    assert found["calibration"] == pytest.approx(np.average(p, weights=weights) / np.average(y, weights=weights))


@WEIGHT_CASES
def test_regression_metrics_are_those_of_scikit_learn_also_far_from_zero(weights: Any) -> None:
    y = 1e7 + RANDOM.normal(size=SIZE)
    p = y + RANDOM.normal(0.1, 0.5, SIZE)
    found = measure(y, p, weights=weights)
    assert found["task"] == "regression"
    assert found["rmse"] == pytest.approx(sk.root_mean_squared_error(y, p, sample_weight=weights))
    assert found["mae"] == pytest.approx(sk.mean_absolute_error(y, p, sample_weight=weights))
    assert found["r2"] == pytest.approx(sk.r2_score(y, p, sample_weight=weights))
    assert found["bias"] == pytest.approx(np.average(p - y, weights=weights))


@WEIGHT_CASES
def test_multiclass_metrics_are_those_of_scikit_learn(weights: Any) -> None:
    y = RANDOM.integers(0, 6, SIZE)  # of eight classes two do not occur
    p = RANDOM.random((SIZE, 8)) + 0.5 * np.eye(8)[y]
    p /= p.sum(1, keepdims=True)
    found = measure(y, p, weights=weights, k=3)
    labels: dict[str, Any] = {"labels": np.arange(8), "sample_weight": weights}
    assert found["task"] == "multiclass"
    assert found["accuracy"] == pytest.approx(sk.accuracy_score(y, p.argmax(1), sample_weight=weights))
    assert found["log_loss"] == pytest.approx(sk.log_loss(y, p, **labels))
    assert found["macro_f1"] == pytest.approx(sk.f1_score(y, p.argmax(1), average="macro", sample_weight=weights))
    assert found["accuracy@3"] == pytest.approx(sk.top_k_accuracy_score(y, p, k=3, **labels))


def make_groups(rows_per_group: int = 7) -> tuple[Any, Any, Any, Any]:
    """Grades, scores with ties, weights that are equal within a group, and marks of the first rows."""
    num_groups = 60
    y = RANDOM.integers(0, 4, (num_groups, rows_per_group)) * (RANDOM.random((num_groups, 1)) < 0.9)
    scores = np.round(0.3 * y + RANDOM.random(y.shape), 1)
    weights = np.repeat(RANDOM.integers(0, 3, (num_groups, 1)), rows_per_group, 1).astype(float)
    starts = np.zeros(y.shape)
    starts[:, 0] = 1
    return y, scores, weights, starts


@pytest.mark.parametrize("is_weighted", [False, True])
def test_ranking_metrics_are_those_of_scikit_learn(is_weighted: bool) -> None:
    y, scores, weights, starts = make_groups()
    found = measure(
        y.ravel(), scores.ravel(), weights=weights.ravel() if is_weighted else None, starts=starts.ravel(), k=4
    )
    of_group = weights[:, 0] if is_weighted else np.ones(len(y))
    counts, mixed = y.any(1), y.any(1) & ~y.all(1)
    ndcg = sk.ndcg_score(2.0 ** y[counts] - 1, scores[counts], k=4, sample_weight=of_group[counts])
    assert found["ndcg@4"] == pytest.approx(ndcg)
    aucs = [sk.roc_auc_score(grades > 0, each) for grades, each in zip(y[mixed], scores[mixed], strict=True)]
    assert found["group_auc"] == pytest.approx(np.average(aucs, weights=of_group[mixed]))
    assert (found["task"], found["num_groups"], found["num_examples"]) == ("ranking", len(y), y.size)


def test_the_mean_reciprocal_rank_is_that_of_scikit_learn_for_one_positive_per_group() -> None:
    _, scores, _, starts = make_groups()
    y = np.eye(scores.shape[1])[RANDOM.integers(0, scores.shape[1], len(scores))]
    found = measure(y.ravel(), scores.ravel(), starts=starts.ravel())
    assert found["mrr"] == pytest.approx(sk.label_ranking_average_precision_score(y, scores))
    assert found["auc"] == pytest.approx(sk.roc_auc_score(y.ravel(), scores.ravel()))  # 0 and 1: binary too
    constant = measure(y.ravel(), np.zeros(y.size), starts=starts.ravel())
    assert (constant["mrr"], constant["group_auc"]) == (pytest.approx(1 / y.shape[1]), 0.5)


def test_of_several_positives_the_first_counts() -> None:
    y, scores = np.array([1, 0, 1, 0, 0, 1.0]), np.array([1, 5, 3, 3, 9, 8.0])
    found = measure(y, scores, starts=np.array([1, 0, 0, 0, 1, 0.0]))
    assert found["mrr"] == pytest.approx((1 / 3 + 1 / 2) / 2)  # within a tie, positives come last


def test_targets_that_are_no_grades_or_not_finite_have_metrics_that_are_none() -> None:
    found = measure(np.array([5000.0, 0.0]), np.array([0.5, 0.1]), starts=np.array([1.0, 0.0]))
    assert (found["ndcg@10"], found["mrr"]) == (None, 1.0)
    found = measure(np.array([np.inf, np.nan]), np.array([0.5, 0.1]))
    assert {found[name] for name in ("rmse", "mae", "r2", "bias", "mean_target", "calibration")} == {None}
    found = measure(np.array([0, 1]), np.array([[np.nan, 1.0], [0.5, 0.5]]))
    assert (found["log_loss"], found["task"]) == (None, "multiclass")


def test_chunks_change_nothing_but_the_last_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    y, scores, weights, starts = make_groups()
    targets = {"binary": (y > 0).ravel(), "regression": y.ravel() + 0.5, "ranking": y.ravel()}
    for task, truth in targets.items():
        marks = starts.ravel() if task == "ranking" else None
        whole = measure(truth.astype(float), scores.ravel() / 4, weights=weights.ravel(), starts=marks)
        monkeypatch.setattr(measuring, "_CHUNK", 50)
        parts = Measurement(Measuring())
        for place in range(0, y.size, 14):
            rows = slice(place, place + 14)
            parts.add(
                truth[rows].astype(float), scores.ravel()[rows] / 4, weights.ravel()[rows],
                None if marks is None else marks[rows],
            )  # fmt: skip
        monkeypatch.undo()
        found = parts.result()
        assert found.keys() == whole.keys()
        assert found["task"] == task
        assert [value for value in found.values() if isinstance(value, float)] == pytest.approx(
            [value for value in whole.values() if isinstance(value, float)]
        )


def test_scores_that_are_no_probabilities_have_an_order_and_no_log_loss() -> None:
    y = np.array([0, 1, 2, 1])
    logits = np.array([[5, 1, 0], [0, 2, 1], [0, 3, 1], [1, 4, 0.0]])
    found = measure(y, logits)
    assert (found["accuracy"], found["log_loss"]) == (0.75, None)
    binary = measure(np.array([0, 1.0]), np.array([-3, 5.0]))
    assert (binary["auc"], binary["log_loss"], binary["accuracy"]) == (1.0, None, None)


def test_a_column_of_one_output_is_one_number_per_example() -> None:
    assert measure(np.array([0, 1.0]), np.array([[0.1], [0.9]]))["task"] == "binary"


@pytest.mark.parametrize(
    ("how", "targets", "predictions", "message"),
    [
        (Measuring("binary"), [0, 2], [0.5, 0.5], "the task is 'binary', but the target has 2.0, not only 0 and 1"),
        (Measuring("multiclass"), [0, 3], [[0.5, 0.5]] * 2, "but the target has 3.0, not 0 to 1"),
        (Measuring("multiclass"), [0, 1], [0.5, 0.5], r"the task 'multiclass' needs predictions \[B, K\], got \[2\]"),
        (Measuring("regression"), [0, 1], [[0.5, 0.5]] * 2, r"the task 'regression' needs predictions \[B\]"),
        (Measuring("ranking"), [0, 1], [0.5, 0.5], "val: a ranking needs the column 'group_start'"),
    ],
)
def test_rows_that_do_not_fit_the_task_are_refused(
    how: Measuring, targets: list[float], predictions: list[Any], message: str
) -> None:
    def measured() -> Any:
        measurement = Measurement(how, "val")
        measurement.add(np.array(targets, float), np.array(predictions))
        return measurement.result()

    with pytest.raises(BadInput, match=message):
        measured()


def test_a_target_that_is_no_class_is_not_measured_unless_the_task_is_set() -> None:
    assert measure(np.array([0.5, 3]), np.zeros((2, 2))) == {"num_examples": 2}


@pytest.mark.parametrize("weight", [-1.0, np.nan, np.inf])
def test_a_weight_that_is_negative_or_not_finite_is_refused(weight: float) -> None:
    with pytest.raises(BadInput, match="weights must be 0 or more"):
        measure(np.array([0, 1.0]), np.array([0.5, 0.5]), weights=np.array([1, weight]))


def test_rows_without_weight_have_no_metrics() -> None:
    found = measure(np.array([0, 1.0]), np.array([0.5, 0.5]), weights=np.zeros(2))
    assert (found["auc"], found["log_loss"], found["num_examples"]) == (None, None, 2)


def test_the_direction_follows_the_metric() -> None:
    assert badness("ndcg@10", 0.9) < badness("ndcg@10", 0.8)
    assert badness("rmse", 0.8) < badness("rmse", 0.9)
    assert badness("calibration", 1.1) < badness("calibration", 0.8)
    assert badness("bias", -0.1) < badness("bias", 0.2)
    assert badness("profit", 2.0, "max") < badness("profit", 1.0, "max")
    with pytest.raises(BadInput, match="profit: whether the least or the greatest value is best"):
        badness("profit", 1.0)
