"""The examples in the docstrings run."""

import doctest
import importlib
from pathlib import Path

import pytest
from tests.callbacks.test_callbacks import open_result
from tests.runs.runs import evaluation_lines, make_run


@pytest.mark.parametrize(
    "name", ["distribution", "measuring", "metric_names", "outputs", "predictions", "quality", "ranking"]
)
def test_the_examples_of_a_module_run(name: str, quick_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_run(quick_path / "models/click_1", {"evaluation": {}}, evaluation_lines("next_hour", [0.75]))
    monkeypatch.chdir(quick_path)
    result = doctest.testmod(importlib.import_module(f"samovar.scoring.{name}"), extraglobs={"result": open_result()})
    assert (result.failed, result.attempted > 0) == (0, True)
