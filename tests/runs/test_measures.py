"""Numbers of metrics logs: whole, open and damaged ones."""

from pathlib import Path
from typing import Any

import pytest
from tests.runs.runs import evaluation_lines, make_run, train_lines

from samovar.errors import BadInput, CorruptData
from samovar.results import ResultDirectory, ResultPlan, begin
from samovar.results.artifacts import read_log, read_log_end
from samovar.runs.summary import match_metrics, match_one, read_curves, read_last
from samovar.store import LocalStore

LINES = [*train_lines([0.7, 0.5, 0.4], lr=0.1), *evaluation_lines("next", [0.6, 0.7], shift=1)]


@pytest.mark.parametrize("is_finished", [True, False])
def test_curves_are_read_whether_the_log_is_joined_or_still_in_segments(quick_path: Path, is_finished: bool) -> None:
    curves = read_curves(make_run(quick_path / "run", {}, LINES, is_finished))
    assert (quick_path / "run/logs/metrics.jsonl").exists() == is_finished
    assert curves["loss"].steps == [0, 1, 2]
    assert curves["loss"].values == [0.7, 0.5, 0.4]
    assert curves["next+1h.auc"].values == [0.6, 0.7]
    assert curves["policies.lr"].values == [0.1] * 3
    assert "num_batches" not in curves


def test_a_running_run_shows_what_its_snapshots_sealed(quick_path: Path) -> None:
    directory = ResultDirectory(LocalStore(quick_path))
    with begin(directory, ResultPlan("walk", {})) as result:
        result.restore()
        for hour in range(30):
            result.append("metrics.jsonl", {"hour": hour, "mean": hour / 2, "note": "text", "flag": True})
            if hour % 10 == 9:
                result.save({}, hour)
        result.append("metrics.jsonl", {"hour": 30, "mean": 99.0})
        assert read_curves(directory)["mean"].steps == list(range(30))
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


def test_a_run_without_a_log_has_no_numbers(quick_path: Path) -> None:
    directory = make_run(quick_path, {})
    assert read_curves(directory) == {}
    assert read_last(directory) == {}


def test_a_damaged_line_is_named(quick_path: Path) -> None:
    directory = make_run(quick_path / "run", {}, LINES)
    path = quick_path / "run/logs/metrics.jsonl"
    lines = path.read_bytes().splitlines()
    path.write_bytes(b"\n".join([*lines[:3], b'{"loss": 0.', *lines[3:]]))
    with pytest.raises(CorruptData, match=r"run/logs/metrics.jsonl, line 4: not a JSON object: '\{\"loss\": 0.'"):
        list(read_log(directory.store, "metrics.jsonl"))
    with pytest.raises(CorruptData, match="line 4"):
        read_log_end(directory.store, "metrics.jsonl")


def test_a_metric_is_found_by_its_last_part_or_the_nearest_is_named() -> None:
    names = ["loss", "valid.loss", "next+1h.auc", "next+2h.auc"]
    assert match_metrics("loss", names) == ["loss"]
    assert match_metrics("auc", names) == ["next+1h.auc", "next+2h.auc"]
    with pytest.raises(BadInput, match=r"metric 'acu': no run has it.*did you mean 'auc'"):
        match_metrics("acu", names)
    with pytest.raises(BadInput, match=r"found next\+1h.auc, next\+2h.auc; expected one"):
        match_one("auc", names)
