"""The examples in docstrings run."""

import doctest

import numpy as np
import pytest
import torch
from torch import nn

from samovar import embeddings
from samovar.tables import Bag

NAMES = [
    "BaseEmbeddingModel",
    "HashAdagrad",
    "HashAdam",
    "HashEmbedding",
    "HashRowwiseAdagrad",
    "HashSGD",
    "final_state",
]


@pytest.mark.parametrize("name", NAMES)
def test_the_example_of_a_public_name_runs(name: str) -> None:
    names = {each: getattr(embeddings, each) for each in embeddings.__all__}
    found = doctest.DocTestFinder().find(
        getattr(embeddings, name), name, globs={**names, "Bag": Bag, "nn": nn, "np": np, "torch": torch}
    )
    examples = [each for each in found if each.examples]
    assert examples
    for each in examples:
        assert doctest.DocTestRunner().run(each).failed == 0
