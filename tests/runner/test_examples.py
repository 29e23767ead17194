"""The examples in the docstrings run."""

import doctest
import importlib

import pytest


@pytest.mark.parametrize("name", ["callback", "learner", "loop", "step"])
def test_the_examples_of_a_module_run(name: str) -> None:
    result = doctest.testmod(importlib.import_module(f"samovar.runner.{name}"))
    assert (result.failed, result.attempted > 0) == (0, True)
