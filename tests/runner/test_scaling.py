"""Running means and deviations: those of all rows so far, and frozen outside training."""

import copy
import doctest
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from samovar.errors import BadInput
from samovar.runner.scaling import RunningScale, scale_inputs
from samovar.tables.schema import ColumnSchema


def make_column(name: str, rank: int = 1, **converter: Any) -> ColumnSchema:
    return ColumnSchema(name, "real", rank, "double", {"role": "number", "shape": None, **converter})


SCALED = [make_column("price", scale="running"), make_column("age"), ColumnSchema("user", "categorical", 1, "int64")]


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.seen: Any = None

    def forward(self, inputs: Any) -> torch.Tensor:
        self.seen = inputs
        return torch.zeros(1)


@settings(max_examples=50)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=6), st.integers(0, 2**32 - 1))
def test_the_numbers_are_those_of_all_rows_however_they_were_cut(sizes: list[int], seed: int) -> None:
    rows = np.random.default_rng(seed).normal(1e6, 3.0, (sum(sizes), 3)).astype(np.float32)
    scale = RunningScale({"a": (), "b": (2,)})
    for part in np.split(rows, np.cumsum(sizes)[:-1]):
        scale({"a": torch.from_numpy(part[:, 0].copy()), "b": torch.from_numpy(part[:, 1:].copy())})
    assert scale.count.tolist() == [len(rows)] * 3
    if len(rows) > 0:
        exact = rows.astype(np.float64)
        assert np.allclose(scale.mean, exact.mean(0), rtol=1e-12)
        assert np.allclose(scale.squares, exact.var(0) * len(rows), rtol=1e-6, atol=1e-6)


def test_a_minibatch_is_counted_before_it_is_scaled() -> None:
    scale = RunningScale({"a": ()})
    assert scale({"a": torch.tensor([0.0, 2.0])})["a"].tolist() == [-1, 1]
    second = scale({"a": torch.tensor([6.0, 8.0])})["a"]
    assert np.allclose(second, (np.array([6, 8]) - 4) / np.sqrt(10))


@pytest.mark.parametrize("how", ["eval", "no_grad"])
def test_a_frozen_scale_counts_nothing(how: str) -> None:
    scale = RunningScale({"a": ()})
    scale({"a": torch.tensor([0.0, 2.0])})
    before = copy.deepcopy(scale.state_dict())
    scale.train(how != "eval")
    with torch.set_grad_enabled(how != "no_grad"):
        assert scale({"a": torch.tensor([1.0, 4.0])})["a"].tolist() == [0, 3]
    assert all(torch.equal(before[name], value) for name, value in scale.state_dict().items())


def test_values_that_are_not_finite_do_not_count_and_far_ones_are_limited() -> None:
    scale = RunningScale({"a": ()})
    found = scale({"a": torch.tensor([0.0, float("nan"), 2.0, float("inf"), -float("inf")])})["a"]
    assert found[[0, 2, 3, 4]].tolist() == [-1, 1, 10, -10]
    assert found[1].isnan()
    assert (scale.count.item(), scale.mean.item()) == (2, 1)


def test_a_column_that_never_changed_becomes_zero() -> None:
    scale = RunningScale({"a": ()})
    assert scale({"a": torch.full((3,), 7.0)})["a"].tolist() == [0, 0, 0]
    assert scale.eval()({"a": torch.tensor([7.0, 9.0])})["a"].tolist() == [0, 2]
    empty = RunningScale({"a": ()}).eval()
    assert empty({"a": torch.tensor([0.5])})["a"].tolist() == [0.5]  # no row so far: as it is


def test_a_model_gets_scaled_columns_and_all_others_as_they_are() -> None:
    model = Model()
    scale_inputs(model, SCALED)
    inputs = {"price": torch.tensor([1.0, 3.0]), "age": torch.tensor([5.0, 5.0])}
    model(inputs)
    assert model.seen["price"].tolist() == [-1, 1]
    assert model.seen["age"] is inputs["age"]
    assert inputs["price"].tolist() == [1, 3]  # the record stays as it was read
    assert sorted(model.state_dict()) == ["running_scale.count", "running_scale.mean", "running_scale.squares"]
    copied = copy.deepcopy(model)
    copied({"price": torch.tensor([100.0]), "age": torch.tensor([5.0])})
    assert model.get_buffer("running_scale.count").item() == 2


def test_a_model_without_such_columns_stays_as_it_is() -> None:
    model = Model()
    scale_inputs(model, SCALED[1:])
    assert list(model.modules()) == [model]


def test_what_cannot_be_scaled_is_refused() -> None:
    with pytest.raises(BadInput, match="does not know the length of its lists"):
        scale_inputs(Model(), [make_column("vector", rank=2, scale="running")])
    taken = Model()
    taken.running_scale = nn.Identity()
    with pytest.raises(BadInput, match="has an attribute 'running_scale'"):
        scale_inputs(taken, SCALED)
    with pytest.raises(BadInput, match=r"column 'a' must have the shape \['B', 2\], got \[3\]"):
        RunningScale({"a": (2,)})({"a": torch.ones(3)})


def test_the_example_runs() -> None:
    (found,) = doctest.DocTestFinder(recurse=False).find(RunningScale, globs={**globals()})
    assert doctest.DocTestRunner().run(found).failed == 0
