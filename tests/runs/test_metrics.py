"""Numbers from metrics logs: joined, open and damaged ones; and metrics by short name."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.runs.runs import evaluation_lines, make_run, train_lines

from samovar.errors import BadInput, CorruptData
from samovar.results import ResultDirectory, ResultPlan, begin
from samovar.results.artifacts import read_log, read_log_end
from samovar.runs.metrics import Series, match_metric, match_metrics, read_last, read_series, split_reduction
from samovar.store import LocalStore, write_file
from samovar.testing.store import CountingStore

LINES = [*train_lines([0.7, 0.5, 0.4], lr=0.1), *evaluation_lines("next", [0.6, 0.7], shift=1)]


@pytest.mark.parametrize("is_finished", [True, False])
def test_series_are_read_whether_the_log_is_joined_or_still_in_segments(quick_path: Path, is_finished: bool) -> None:
    series = read_series(make_run(quick_path / "run", {}, LINES, is_finished))
    assert (quick_path / "run/logs/metrics.jsonl").exists() == is_finished
    assert series["loss"].steps == [0, 1, 2]
    assert series["loss"].values == [0.7, 0.5, 0.4]
    assert series["next+1h.auc"].values == [0.6, 0.7]
    assert series["policies.lr"].values == [0.1] * 3
    assert "num_batches" not in series


def test_a_run_in_progress_shows_what_its_snapshots_sealed(quick_path: Path) -> None:
    directory = ResultDirectory(LocalStore(quick_path))
    with begin(directory, ResultPlan("walk", {})) as result:
        result.restore()
        for hour in range(30):
            result.append("metrics.jsonl", {"hour": hour, "mean": hour / 2, "note": "text", "flag": True})
            if hour % 10 == 9:
                result.save({}, hour)
        result.append("metrics.jsonl", {"hour": 30, "mean": 99.0})
        assert read_series(directory)["mean"].steps == list(range(30))
        assert read_last(directory) == {"mean": 14.5}
        assert len(read_log_end(directory.store, "metrics.jsonl")) == 10


def test_the_last_value_of_every_kind_of_line_counts(quick_path: Path) -> None:
    lines: list[dict[str, Any]] = [
        {"step": 1, "loss": 2.0},
        {"step": 1, "accuracy": 0.5},
        {"step": 2, "loss": None},
        {"step": 3, "loss": 1.0},
    ]
    assert read_last(make_run(quick_path, {}, lines)) == {"accuracy": 0.5, "loss": 1.0}


@pytest.mark.parametrize("padding", [0, 10, 3000])
def test_the_end_of_a_long_log_is_read_without_the_rest(padding: int) -> None:
    store = CountingStore()
    lines = [json.dumps({"step": step, "note": "x" * padding}) + "\n" for step in range(2000)]
    write_file(store, "logs/metrics.jsonl", "".join(lines).encode())
    assert [line["step"] for line in read_log_end(store, "metrics.jsonl")] == list(range(1984, 2000))
    assert store.bytes_read < 16 * len(lines[-1]) + 3 * 65536


def test_a_run_without_a_log_has_no_numbers(quick_path: Path) -> None:
    directory = make_run(quick_path, {})
    assert read_series(directory) == {}
    assert read_last(directory) == {}


def test_a_damaged_line_is_named(quick_path: Path) -> None:
    directory = make_run(quick_path / "run", {}, LINES)
    path = quick_path / "run/logs/metrics.jsonl"
    lines = path.read_bytes().splitlines()
    path.write_bytes(b"\n".join([*lines[:3], b'{"loss": 0.', *lines[3:]]))
    with pytest.raises(CorruptData, match=r"run/logs/metrics.jsonl, line 4 is damaged \(not JSON: EOF while parsing"):
        list(read_log(directory.store, "metrics.jsonl"))
    with pytest.raises(CorruptData, match="line 4"):
        read_log_end(directory.store, "metrics.jsonl")


def test_a_metric_is_found_by_its_last_part_or_the_nearest_is_named() -> None:
    names = ["loss", "valid.loss", "next+1h.auc", "next+2h.auc", "metrics.deep.auc2"]
    assert match_metrics("loss", names) == ["loss"]
    assert match_metrics("deep.auc2", names) == ["metrics.deep.auc2"]
    assert match_metrics("auc", names) == ["next+1h.auc", "next+2h.auc"]
    with pytest.raises(BadInput, match=r"no run has a metric 'acu'. Did you mean 'auc'\? Available: loss, valid.loss"):
        match_metrics("acu", names)
    with pytest.raises(BadInput, match=r"metric 'auc' is ambiguous: next\+1h.auc, next\+2h.auc. Use the full name"):
        match_metric("auc", names)


def test_without_shifts_evaluations_of_all_later_hours_are_one_series(quick_path: Path) -> None:
    lines = [*evaluation_lines("next", [0.6], shift=1), *evaluation_lines("next", [0.8], shift=2)]
    directory = make_run(quick_path, {}, lines)
    assert list(read_series(directory)) == ["next+1h.auc", "next+2h.auc"]
    assert read_series(directory, has_shifts=False)["next.auc"] == Series(True, [0, 0], [0.6, 0.8], [32, 32])


def test_a_series_is_reduced_to_one_value_and_its_mean_is_over_examples() -> None:
    series = Series(True, [0, 1, 2], [1.0, 4.0, 2.0], [1, 1, 2])
    assert [series.reduce(each) for each in ("last", "mean", "min", "max")] == [2.0, 2.25, 1.0, 4.0]
    assert Series(True, [0, 1], [1.0, 4.0], [0, 0]).reduce("mean") == 4.0


def test_a_column_names_a_metric_and_maybe_a_reduction() -> None:
    assert split_reduction("ahead.auc:max") == ("ahead.auc", "max")
    assert split_reduction("loss") == ("loss", None)
    with pytest.raises(BadInput, match=r"'loss:maxx': no reduction 'maxx'. Did you mean 'max'\? Available: last, mean"):
        split_reduction("loss:maxx")
