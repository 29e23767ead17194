"""The examples in the docstrings run."""

import doctest
import importlib
import pkgutil
from typing import Any

import pytest
from tests.callbacks.test_callbacks import open_result

import samovar.callbacks
from samovar.runner import Learner, Loader, MinibatchWorkerPool, Run, Runner
from samovar.testing.callback import make_learner, make_uris

EXAMPLES = [
    example
    for module in pkgutil.iter_modules(samovar.callbacks.__path__, "samovar.callbacks.")
    for example in doctest.DocTestFinder().find(importlib.import_module(module.name))
    if example.examples
]


def make_names() -> dict[str, Any]:
    """What the examples take for granted."""
    learner = make_learner()
    learner.predict = lambda output: output
    pool = MinibatchWorkerPool(learner)
    return {
        "Learner": Learner,
        "Run": Run,
        "Runner": Runner,
        "learner": learner,
        "model": learner.model,
        "optimizer": learner.optimizers,
        "loss": learner.loss,
        "pool": pool,
        "loader": Loader(),
        "run": Run(learner),
        "uris": make_uris(),
        "result": open_result(),
    }


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_an_example_runs(example: doctest.DocTest) -> None:
    example.globs.update(make_names())
    assert doctest.DocTestRunner().run(example).failed == 0


def test_every_public_callback_has_an_example() -> None:
    shown = {example.name.rpartition(".")[2] for example in EXAMPLES}
    assert set(samovar.callbacks.__all__) <= shown
