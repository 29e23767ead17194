"""Diffs with a baseline, an environment and very many columns."""

import json
from pathlib import Path

import pytest
from tests.runs.runs import make_run

from samovar.config import MISSING
from samovar.errors import BadInput
from samovar.runs.cloning import clone
from samovar.runs.comparison import diff, summarize


@pytest.fixture
def folder(quick_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(quick_path)
    make_run(quick_path / "a", {"lr": 0.1, "dim": 8, "seed": 0})
    make_run(quick_path / "b", {"lr": 0.1, "dim": 9, "seed": 0})
    Path("c.json").write_text(json.dumps({"lr": 0.2, "dim": 8, "seed": 0, "new": None}))
    return quick_path


def test_against_a_baseline_only_what_differs_is_shown(folder: Path) -> None:
    found = diff(["a", "b", "c.json"], baseline="b")
    assert found.names == ("b", "a", "c.json")
    assert found.rows == {"dim": [9, 8, 8], "lr": [0.1, "", 0.2], "new": ["—", "", None]}


def test_keys_are_ignored_by_name_section_and_pattern(folder: Path) -> None:
    assert list(diff(["a", "b", "c.json"], ignore=["lr", "*.new"]).rows) == ["dim"]


def test_the_environment_is_compared_when_asked(folder: Path) -> None:
    path = folder / "b/environment.json"
    environment = json.loads(path.read_text())
    environment["packages"]["numpy"] = "0.1"
    environment["threads"]["cores"] = 999
    path.write_text(json.dumps(environment))
    assert list(diff(["a", "b"]).rows) == ["dim"]
    rows = diff(["a", "b"], environment=True).rows
    assert list(rows) == ["dim", "environment.packages.numpy", "environment.threads.cores"]
    assert rows["environment.packages.numpy"][1] == "0.1"
    rows = diff(["a", "b", "c.json"], environment=True).rows
    assert rows["environment.packages.numpy"][2] is MISSING
    assert "environment.python" not in rows


def test_results_of_different_code_differ_in_a_row_named_code(folder: Path) -> None:
    make_run(folder / "d", {"lr": 0.1, "dim": 8, "seed": 0}, script=b"another script")
    found = diff(["a", "b", "c.json", "d"]).rows
    first, same, none, other = found["code"]
    assert first == same != other
    assert none is MISSING
    assert list(diff(["a", "d"]).rows) == ["code"]


def test_a_clone_is_shown_with_its_parent(folder: Path) -> None:
    made = clone("c.json", {"lr": 0.3})
    rows = diff(["c.json", made.path]).rows
    assert rows == {"cloned_from": [MISSING, "c.json"], "lr": [0.2, 0.3]}


def test_many_configs_are_summarized_by_their_commonest_values(folder: Path) -> None:
    summaries = summarize(diff(["a", "b", "c.json"]), num_shown=1)
    assert [(each.key, each.num_values, each.commonest) for each in summaries] == [
        ("dim", 2, [("8", 2)]),
        ("lr", 2, [("0.1", 2)]),
        ("new", 2, [("—", 2)]),
    ]


def test_comparing_one_config_is_an_error(folder: Path) -> None:
    with pytest.raises(BadInput, match="diff: needs at least 2 configs, got 1"):
        diff("a")
