"""`samovar ls`: which runs, in which order, with which columns."""

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.places import local
from tests.runs.runs import evaluation_lines, make_run, train_lines

from samovar.config.values import MISSING
from samovar.errors import BadInput
from samovar.results import ResultDirectory, ResultPlan, begin, open_directory
from samovar.runs.find import find_directories, find_results
from samovar.runs.listing import Listing, list_runs, parse_condition
from samovar.store import LocalStore

RATES = {"a": 0.5, "b": 0.1, "deep/c": 0.01}


@pytest.fixture
def folder(quick_path: Path) -> Path:
    for number, (name, rate) in enumerate(RATES.items()):
        lines = [*train_lines([1.0, 0.5 + number / 10], lr=rate), *evaluation_lines("next", [0.6 + number / 10])]
        make_run(quick_path / name, {"model": {"lr": rate}, "tag": f"t{number}"}, lines, name != "b")
    make_run(quick_path / "table", {"source": "x.csv"}, kind="table")
    (quick_path / "notes").mkdir()
    return quick_path


def names(listing: Listing, folder: Path) -> list[str]:
    return [os.path.relpath(row[0], folder) for row in listing.rows]


def listed(folder: Path, **options: Any) -> Listing:
    return list_runs(folder, **options)


def test_a_metric_that_was_not_logged_lately_can_still_be_asked_for(folder: Path) -> None:
    lines = [*evaluation_lines("first", [0.9]), *train_lines([1.0] * 100)]
    make_run(folder / "long", {"model": {"lr": 1.0}}, lines)
    listing = listed(folder, sort="-first.auc", columns=["first.auc"])
    assert names(listing, folder)[0] == "long"
    assert listing.rows[0][1] == 0.9


def test_every_result_below_a_folder_is_listed_with_its_state_and_metrics(folder: Path) -> None:
    listing = listed(folder)
    assert listing.columns == ["name", "state", "kind", "age", "code", "metric.loss", "metric.next.auc"]
    assert names(listing, folder) == ["a", "b", "deep/c", "table"]
    assert [row[1:3] for row in listing.rows] == [
        ["finished", "model"], ["stopped", "model"], ["finished", "model"], ["finished", "table"],
    ]  # fmt: skip
    assert [row[6] for row in listing.rows] == [0.6, 0.7, 0.8, MISSING]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (["lr>0.05"], ["a", "b"]),
        (["lr>0.05", "state=finished"], ["a"]),
        (["state != finished"], ["b"]),
        (["auc >= 0.7"], ["b", "deep/c"]),
        (["name~*/deep/*"], ["deep/c"]),
        (["tag=t2"], ["deep/c"]),
        (["kind=table"], ["table"]),
        (["model.lr=1e-1"], ["b"]),
    ],
)
def test_conditions_choose_runs(folder: Path, where: list[str], expected: list[str]) -> None:
    assert names(listed(folder, where=where), folder) == expected


@pytest.mark.parametrize(
    ("condition", "problem"),
    [
        ("lr>abc", "lr > abc compares 0.5 (a number) with 'abc' (a string)"),
        ("state<=5", "state <= 5 compares 'finished' (a string) with 5 (an integer)"),
    ],
)
def test_a_number_is_not_compared_with_a_string(folder: Path, condition: str, problem: str) -> None:
    with pytest.raises(BadInput) as caught:
        listed(folder, where=[condition])
    assert str(caught.value) == f"where: {problem}. Compare with a value of the same kind"


def test_runs_are_sorted_by_any_column_and_those_without_it_come_last(folder: Path) -> None:
    assert names(listed(folder, sort=["-auc"]), folder) == ["deep/c", "b", "a", "table"]
    assert names(listed(folder, sort=["state", "lr"]), folder) == ["deep/c", "a", "table", "b"]


def test_a_column_is_a_fact_a_key_or_a_metric(folder: Path) -> None:
    listing = listed(folder, columns=["state", "lr", "auc"])
    assert listing.columns == ["name", "state", "config.model.lr", "metric.next.auc"]
    with pytest.raises(BadInput, match=r"no run has a column 'stae'. Did you mean 'state'\?"):
        listed(folder, columns=["stae"])
    with pytest.raises(BadInput, match=r"no run has a column 'lrr'. Did you mean 'lr'\?"):
        listed(folder, where=["lrr>1"])


def test_a_name_that_fits_several_columns_is_an_error_and_policies_come_last(quick_path: Path) -> None:
    lines = [*train_lines([1.0], lr=0.1, decay=0.5), *evaluation_lines("x", [0.6]), *evaluation_lines("y", [0.7])]
    make_run(quick_path, {"model": {"lr": 0.1}}, lines)
    with pytest.raises(BadInput, match=r"column 'auc' is ambiguous: metric.x.auc, metric.y.auc. Use the full name"):
        listed(quick_path, columns=["auc"])
    assert listed(quick_path, columns=["y.auc", "lr", "decay"]).columns == [
        "name", "metric.y.auc", "config.model.lr", "metric.policies.decay",
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["lr", "=3", "lr>", "", ">", "lr>>0.1", "lr=>0.1", "lr=<0.1", "lr<>0.1", "lr=!0.1"])
def test_a_malformed_condition_is_an_error_with_an_example(text: str) -> None:
    with pytest.raises(BadInput, match=r"a condition is a column, one of = != .* and a value, for example \"lr>0.01\""):
        parse_condition(text)


@given(
    st.one_of(st.integers(), st.floats(allow_nan=False), st.text()), st.floats(allow_nan=False, allow_infinity=False)
)
def test_a_condition_and_its_opposite_never_both_hold(found: object, bound: float) -> None:
    for sign, opposite in (("<", ">="), (">", "<="), ("=", "!=")):
        one, other = (parse_condition(f"x{each}{bound!r}").holds(found) for each in (sign, opposite))
        assert not (one and other)
        assert one or other or isinstance(found, str)


def test_a_killed_run_is_dead_and_a_living_one_runs(quick_path: Path) -> None:
    code = (
        "import os, sys; from samovar.results import *; from samovar.store import LocalStore\n"
        "begin(ResultDirectory(LocalStore(sys.argv[1])), ResultPlan('walk', {}))\nos._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", code, quick_path / "killed"], check=False).returncode == 9
    with begin(ResultDirectory(LocalStore(quick_path / "living")), ResultPlan("walk", {})):
        assert [row[1] for row in listed(quick_path).rows] == ["dead", "running"]
    assert open_directory(quick_path / "killed").describe_state().startswith("dead: process")


def test_an_unreadable_run_does_not_hide_the_others(folder: Path) -> None:
    (folder / "a/logs/metrics.jsonl").write_bytes(b"not json\n")
    listing = listed(folder)
    assert [row[1] for row in listing.rows] == ["unreadable", "stopped", "finished", "finished"]
    assert "a/logs/metrics.jsonl, line 1" in listing.unreadable[0]


def test_the_age_is_the_time_since_the_last_heartbeat(folder: Path) -> None:
    later = datetime.now(UTC) + timedelta(hours=5)
    ages = [row[3] for row in list_runs(folder / "a", now=later).rows]
    assert ages == pytest.approx([5 * 3600], abs=60)


def test_results_inside_a_result_are_found_but_not_its_own_folders(quick_path: Path) -> None:
    make_run(quick_path / "experiment", {"grid": 1})
    make_run(quick_path / "experiment/one", {"lr": 1})
    make_run(quick_path / "experiment/external_stuff/theirs", {"lr": 1})
    found = [local(path).relative_to(quick_path).as_posix() for path in find_results(quick_path)]
    assert found == ["experiment", "experiment/one"]
    with pytest.raises(BadInput, match="no result directory at or below this path"):
        find_directories([quick_path / "experiment/one/logs"])


def test_answers_from_many_workers_come_in_order(quick_path: Path) -> None:
    """In a process of its own: a process with threads, as this one may have, does not fork."""
    code = (
        "import sys; from pathlib import Path; from samovar.runs.parallel import map_many\n"
        "assert map_many(str, list(range(2600))) == list(map(str, range(2600)))"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)
