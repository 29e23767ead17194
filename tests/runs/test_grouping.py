"""Runs that differ only in a seed as one row with mean and spread; best, least, greatest values; how far a run is."""

import statistics
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.runs.runs import evaluation_lines, make_run, train_lines

from samovar.config import MISSING
from samovar.errors import BadInput
from samovar.results import ResultDirectory, ResultPlan, begin
from samovar.results.artifacts import TIMING_LOG
from samovar.runs import list_runs
from samovar.runs.progress import read_progress
from samovar.store import LocalStore


@pytest.fixture
def folder(quick_path: Path) -> Path:
    for rate, seed, loss in ((0.1, 1, 0.5), (0.1, 2, 0.7), (0.1, 3, 0.9), (0.2, 1, 0.4)):
        config = {"model": {"lr": rate}, "seed": seed, "model_dir": f"elsewhere/{rate}/{seed}"}
        lines = [*train_lines([1.0, 0.1, loss]), *evaluation_lines("valid", [0.6, 0.8, 0.7], epoch=0)]
        make_run(quick_path / f"run_{rate}_{seed}", config, lines)
    return quick_path


def test_seeds_become_a_mean_and_a_spread(folder: Path) -> None:
    listing = list_runs(folder, columns=["loss"], group="seed")
    assert listing.names == ["group", "runs", "state", "loss", "loss:std"]
    first, second = listing.rows
    assert first[:3] == ["lr=0.1", 3, "finished"]
    assert first[3:] == [pytest.approx(0.7), pytest.approx(statistics.stdev([0.5, 0.7, 0.9]))]
    assert second == ["lr=0.2", 1, "finished", 0.4, MISSING]


def test_groups_keep_the_order_of_the_list(folder: Path) -> None:
    listing = list_runs(folder, columns=["loss"], sort="loss", group="seed", where="loss<0.8")
    assert [row[:2] for row in listing.rows] == [["lr=0.2", 1], ["lr=0.1", 2]]


def test_a_key_that_no_run_has_is_refused(folder: Path) -> None:
    with pytest.raises(BadInput, match="--group sead: no run has a config key of that name"):
        list_runs(folder, group="sead")


def test_other_values_of_a_metric_than_the_last(folder: Path) -> None:
    columns = ["loss", "loss:min", "loss:max", "loss:best", "auc:best", "auc:min", "auc:mean"]
    row = list_runs(folder / "run_0.1_1", columns=columns).rows[0]
    assert row[1:] == [0.5, 0.1, 1.0, 0.1, 0.8, 0.6, pytest.approx(0.7)]
    best = list_runs(folder, columns=["loss"], where="loss:max>=1", sort="-loss:best")
    assert len(best.rows) == 4


@pytest.mark.parametrize(
    ("column", "reason"),
    [("loss:maxx", "no reduction 'maxx'. Did you mean 'max'"), ("lr:max", "only a metric has several values")],
)
def test_a_column_that_makes_no_sense_is_explained(folder: Path, column: str, reason: str) -> None:
    with pytest.raises(BadInput, match=reason):
        list_runs(folder, columns=[column])


def test_how_far_a_run_is(tmp_path: Path) -> None:
    directory = ResultDirectory(LocalStore(tmp_path))
    with begin(directory, ResultPlan("model", {}, b""), heartbeat_seconds=None) as result:
        result.restore()
        assert read_progress(directory) is None
        for number in range(4):
            time = datetime.fromtimestamp(1_700_000_000 + 3 * number, UTC).isoformat()
            result.append(TIMING_LOG, {"uri": number, "name": f"hour {number}", "time": time, "num_uris": 10,
                                       "train_seconds": 2.0, "examples_per_second": 50.0})  # fmt: skip
            found = read_progress(directory)
            assert found is not None
            assert (found.done, found.total, found.uri) == (number + 1, 10, f"hour {number}")
            assert found.seconds_per_uri == (2.0 if number == 0 else 3.0)
            if number == 1:
                result.save({}, 2)
        assert found is not None
        assert (found.seconds_left, found.examples_per_second) == (18.0, 50.0)
