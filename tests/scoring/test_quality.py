import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.runs.runs import make_run

from samovar.results import open_directory
from samovar.scoring.quality import Span, evaluations, measure


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
    found = measure(np.array(targets, float), np.array(predictions))["auc"]
    expected = auc_by_pairs(targets, predictions)
    assert found == (None if expected is None else pytest.approx(expected))


def test_log_loss_is_the_mean_negative_log_probability_of_the_truth() -> None:
    found = measure(np.array([1.0, 0.0]), np.array([0.8, 0.4]))["log_loss"]
    assert found == pytest.approx(-(np.log(0.8) + np.log(0.6)) / 2)
    assert np.isfinite(measure(np.array([1.0, 0.0]), np.array([0.0, 1.0]))["log_loss"])


def test_calibration_is_the_ratio_of_predicted_to_actual() -> None:
    found = measure(np.array([1, 0, 0, 1], np.float32), np.array([0.5, 0.5, 0.0, 0.5], np.float32))
    assert found["calibration"] == 0.75
    assert (found["mean_target"], found["mean_prediction"], found["num_examples"]) == (0.5, 0.375, 4)


def test_a_measure_that_is_not_defined_is_none() -> None:
    assert measure(np.array([1.0, 1.0]), np.array([0.5, 0.25]))["auc"] is None
    assert measure(np.array([1.5, 1.5]), np.array([1.0, 2.0]))["r2"] is None
    infinite = measure(np.array([1.5, -2.0]), np.array([np.inf, 2.0]))
    assert (infinite["rmse"], infinite["bias"], infinite["mean_prediction"]) == (None, None, None)
    assert measure(np.array([1.0]), np.array([2.0]))["log_loss"] is None
    empty = measure(np.array([]), np.array([]))
    assert empty["num_examples"] == 0
    assert empty["auc"] is None
    assert measure(np.array([0.0, 1.0]), np.array([np.nan, 1.0]))["auc"] is None


@pytest.mark.parametrize("span", ["hour", "day"])
def test_hours_after_the_table_have_no_row(quick_path: Path, span: Span) -> None:
    line = {"kind": "evaluation", "name": "ahead", "hour": "2021-01-01T00:00", "num_examples": 2}
    make_run(quick_path / "model", {}, [line, {**line, "hour": "2021-01-02T00:00", "num_examples": 0}])
    assert [row["num_examples"] for row in evaluations(open_directory(quick_path / "model"), span)] == [2]


def test_a_day_is_measured_without_threads_of_arrow(quick_path: Path) -> None:
    """One that outlives the reading may take Python's lock while Python ends, and abort the process."""
    line = {"kind": "evaluation", "name": "ahead", "hour": "2021-01-01T00:00", "target": "hit", "num_examples": 2}
    make_run(quick_path / "model", {}, [line])
    (quick_path / "model" / "evaluation" / "ahead").mkdir(parents=True)
    rows = pa.table({"hit": [0, 1], "prediction": [0.1, 0.9]})
    pq.write_table(rows, quick_path / "model" / "evaluation" / "ahead" / "20210101T00.parquet")
    code = f"""
import os
from samovar.results import open_directory
from samovar.scoring.quality import evaluations

before = len(os.listdir("/proc/self/task"))
rows = evaluations(open_directory({str(quick_path / "model")!r}), "day")
print(rows[0]["auc"], len(os.listdir("/proc/self/task")) - before)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1.0", "0"]
