"""The examples in the docstrings run."""

import doctest
import importlib

import pytest
from tests.callbacks.test_callbacks import open_result


@pytest.mark.parametrize("name", ["predictions", "quality"])
def test_the_examples_of_a_module_run(name: str) -> None:
    result = doctest.testmod(importlib.import_module(f"samovar.scoring.{name}"), extraglobs={"result": open_result()})
    assert (result.failed, result.attempted > 0) == (0, True)
