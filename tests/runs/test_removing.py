"""Removing results: whole, only what nobody works in, and nothing else."""

import json
import os
import threading
from pathlib import Path

import pytest
from tests.cli.commands import samovar
from tests.runs.runs import make_run

from samovar.errors import BadInput, Conflict, NotAResult
from samovar.runs import remove
from samovar.store import LocalStore, take_lease


def test_a_result_is_removed_with_all_that_it_has(quick_path: Path) -> None:
    make_run(quick_path / "models/a", {"lr": 1})
    make_run(quick_path / "models/b", {"lr": 2})
    threads = threading.active_count()
    done = remove(quick_path / "models/a")
    assert (done.kind, done.size_bytes > 0, done.num_files > 3) == ("a model", True, True)
    assert os.listdir(quick_path / "models") == ["b"]
    assert threading.active_count() == threads


def test_what_a_process_works_in_stays(quick_path: Path) -> None:
    make_run(quick_path / "a", {"lr": 1}, is_finished=False)
    with (
        take_lease(LocalStore(quick_path / "a")),
        pytest.raises(Conflict, match=r"a is in use by .* Stop that process"),
    ):
        remove(quick_path / "a")
    remove(quick_path / "a")
    assert os.listdir(quick_path) == []


def test_an_experiment_is_removed_with_its_results_unless_one_runs(quick_path: Path) -> None:
    (quick_path / "grid/configs").mkdir(parents=True)
    for number in range(2):
        (quick_path / f"grid/configs/{number}.json").write_text("{}")
        make_run(quick_path / f"grid/{number}", {"lr": number})
    with take_lease(LocalStore(quick_path / "grid/1")), pytest.raises(Conflict, match="grid/1 is in use"):
        remove(quick_path / "grid")
    assert remove(quick_path / "grid").kind == "an experiment with 2 results"
    assert os.listdir(quick_path) == []


def test_folders_that_are_no_results_links_and_nested_results_are_refused(quick_path: Path) -> None:
    (quick_path / "photos").mkdir()
    (quick_path / "photos/cat.png").write_bytes(b"cat")
    make_run(quick_path / "a", {"lr": 1})
    make_run(quick_path / "a/inner", {"lr": 2})
    (quick_path / "link").symlink_to("a")
    with pytest.raises(NotAResult, match=r"photos has no model_config\.json, so it is not a result directory"):
        remove(quick_path / "photos")
    with pytest.raises(Conflict, match=r"contains .*a/inner, which is another result"):
        remove(quick_path / "a")
    with pytest.raises(BadInput, match="link is a symbolic link"):
        remove(quick_path / "link")
    with pytest.raises(NotAResult, match="nothing does not exist"):
        remove(quick_path / "nothing")
    assert sorted(os.listdir(quick_path)) == ["a", "link", "photos"]


def test_the_command_asks_and_removes_all_or_none(quick_path: Path) -> None:
    make_run(quick_path / "a", {"lr": 1})
    make_run(quick_path / "b", {"lr": 1})
    asked = samovar("rm", quick_path / "a", stdin="n\n")
    assert asked.returncode == 1
    assert "a: a model" in asked.stderr
    assert samovar("rm", quick_path / "a", quick_path / "c", "--yes").returncode == 2
    assert (quick_path / "a").exists()
    done = samovar("rm", quick_path / "a", quick_path / "b", "--yes", "--json")
    assert [each["kind"] for each in json.loads(done.stdout)] == ["a model", "a model"], done.stderr
    assert os.listdir(quick_path) == []
