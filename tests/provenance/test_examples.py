"""The examples in the docstrings of stages and provenance run."""

import doctest
import importlib
from pathlib import Path

import pytest
from tests.stages.toys import make_chain


@pytest.mark.parametrize("name", ["provenance.auditing", "provenance.graph", "provenance.reasons", "stages.stage"])
def test_the_examples_of_a_module_run(name: str, quick_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (quick_path / "stages").mkdir()
    make_chain(quick_path / "stages")
    monkeypatch.chdir(quick_path)
    result = doctest.testmod(importlib.import_module(f"samovar.{name}"))
    assert (result.failed, result.attempted > 0) == (0, True)
