"""The examples in the docstrings run."""

import doctest
import importlib
import json
from pathlib import Path

import pytest
from tests.runs.runs import make_run

import samovar.queue


@pytest.mark.parametrize("name", ["jobs", "rebuild", "task", "worker"])
def test_the_examples_of_a_module_run(name: str, quick_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module(f"samovar.queue.{name}")
    names = {each: getattr(samovar.queue, each) for each in samovar.queue.__all__}
    for example in doctest.DocTestFinder().find(module, globs={**vars(module), **names}):
        if example.examples:
            folder = quick_path / example.name
            folder.mkdir()
            monkeypatch.chdir(folder)
            (folder / "online.json").write_text(json.dumps({"model": {"lr": 0.1}}))
            (folder / "model.py").write_text("")
            for number in (1, 2):
                make_run(folder / f"models/click_{number}", {"model": {"lr": number}})
            assert doctest.DocTestRunner().run(example).failed == 0
