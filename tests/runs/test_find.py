"""Finding: directories, configs and patterns become targets."""

from pathlib import Path

import pytest

from samovar.errors import BadInput, NotAResult
from samovar.results import ResultDirectory, ResultPlan, begin
from samovar.runs.find import find_targets
from samovar.store import LocalStore


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("b", "a"):
        with begin(ResultDirectory(LocalStore(tmp_path / "runs" / name)), ResultPlan("walk", {"name": name})):
            pass
    (tmp_path / "runs/plain").mkdir()
    (tmp_path / "runs/c.json").write_text('{"name": "c"}')
    (tmp_path / "runs/notes.txt").write_text("mine")
    return tmp_path


def test_a_pattern_finds_results_and_configs_and_nothing_else(folder: Path) -> None:
    targets = find_targets(["runs/*"])
    assert [(target.name, target.config["name"]) for target in targets] == [
        ("runs/a", "a"),
        ("runs/b", "b"),
        ("runs/c.json", "c"),
    ]
    assert [target.directory is None for target in targets] == [False, False, True]


def test_the_same_target_twice_gets_two_names(folder: Path) -> None:
    assert [target.name for target in find_targets(["runs/a", "runs/a"])] == ["runs/a", "runs/a (2)"]


def test_a_name_that_matches_nothing_is_an_error(folder: Path) -> None:
    with pytest.raises(BadInput, match=r"none/\*: no result directory and no config matches"):
        find_targets(["none/*"])
    with pytest.raises(BadInput, match=r"runs/d.json: no such config or result directory. Did you mean 'runs/c.json'"):
        find_targets(["runs/d.json"])
    with pytest.raises(NotAResult, match="has no model_config"):
        find_targets(["runs/plain"])
