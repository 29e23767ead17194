"""The examples in the docstrings run."""

import doctest
import importlib
import json
from pathlib import Path

import pytest
from tests.runs.runs import make_run, train_lines

MODULES = (
    "checksums",
    "cloning",
    "comparison",
    "copying",
    "curves",
    "dendrogram",
    "find",
    "leftovers",
    "listing",
    "removing",
)


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_run(name: str, quick_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(quick_path)
    module = importlib.import_module(f"samovar.runs.{name}")
    for example in doctest.DocTestFinder().find(module):
        if example.examples:
            folder = quick_path / example.name
            folder.mkdir()
            monkeypatch.chdir(folder)
            make_files(folder)
            runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
            assert runner.run(example).failed == 0


def make_files(folder: Path) -> None:
    """What the examples take for granted."""
    for number, rate in ((1, 0.1), (2, 0.2)):
        config = {"model": {"lr": rate}, "model_dir": f"models/click_{number}"}
        make_run(folder / f"models/click_{number}", config, train_lines([1.0, 0.25 * number]))
    make_run(folder / "tables/clicks", {}, kind="table")
    (folder / "online.json").write_text(json.dumps({"model": {"lr": 0.1}}))
    (folder / "data").mkdir()
    (folder / "data/clicks.csv").write_text("user,clicked\n1,0\n")
