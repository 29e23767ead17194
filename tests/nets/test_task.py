"""What targets are, the loss over members, and predictions, against scikit-learn and short formulas."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from sklearn.metrics import log_loss, mean_squared_error

from samovar.errors import BadInput
from samovar.nets import TabularTask
from samovar.results.state import load_tree, save_tree
from samovar.seeds import torch_generator


def draw_outputs(num_rows: int, num_outputs: int, num_members: int = 4) -> torch.Tensor:
    return torch.randn(num_rows, num_members, num_outputs, generator=torch_generator(0, "outputs"))


@pytest.mark.parametrize(
    ("target", "kind", "classes"),
    [
        ([1.5, 2.5, 3.5], "regression", None),
        ([3.0, 4.0, 5.0], "regression", None),
        (np.array([326, 327, 334, 2757]), "regression", None),  # integers, but a price
        (np.arange(101), "regression", None),
        (np.array([0, 1, 0, 1]), "binary", [0, 1]),
        (np.array([0.0, 1.0]), "binary", [0.0, 1.0]),
        (np.array([-1, 1]), "binary", [-1, 1]),
        ([True, False], "binary", [False, True]),
        ([True, True], "binary", [False, True]),
        (["no", "yes", None], "binary", ["no", "yes"]),
        (np.array([2, 1, 3, 1]), "multiclass", [1, 2, 3]),
        (torch.tensor([0, 1, 2]), "multiclass", [0, 1, 2]),
        (pd.Series(["b", "a", "c"], dtype="category"), "multiclass", ["a", "b", "c"]),
        (pl.Series(["b", "a", "c"]), "multiclass", ["a", "b", "c"]),
        (pd.Series([1.0, None, 7.5]), "regression", None),
        (np.array([[1.5], [2.5], [4.5]]), "regression", None),
    ],
)
def test_the_kind_is_found_in_the_targets(target: Any, kind: str, classes: list[Any] | None) -> None:
    task = TabularTask.fit(target)
    assert task.kind == kind
    assert (None if task.classes is None else task.classes.tolist()) == classes
    assert task.num_outputs == (len(classes) if kind == "multiclass" and classes else 1)


def test_the_kind_can_be_given() -> None:
    assert TabularTask.fit(np.arange(5), kind="regression").kind == "regression"
    assert TabularTask.fit(np.array([3, 5, 8]), kind="classification").kind == "multiclass"
    assert TabularTask.fit(np.array([0, 1]), kind="regression").kind == "regression"


@pytest.mark.parametrize(
    ("target", "kind", "message"),
    [
        ([None, None], None, "every value is missing"),
        (["a", "a"], None, "classes must be at least two, got only 'a'"),
        (["a", "b"], "regression", "values must be numbers, got string"),
        ([1.5, np.inf, 3.0], None, "row 1: the value is inf"),
        ([1.0, 2.0], "forest", "kind must be 'regression' or 'classification', got 'forest'"),
        (np.zeros((3, 2)), None, r"target must have one value per row, got the shape \[3, 2\]"),
    ],
)
def test_targets_that_cannot_be_learned_are_refused(target: Any, kind: Any, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        TabularTask.fit(target, kind)


def test_numbers_are_standardised_and_come_back_in_their_units() -> None:
    values = np.array([1e9 + 1, 1e9 + 2, 1e9 + 6])  # float32 could not tell them apart
    task = TabularTask.fit(values)
    encoded = task.encode(values)
    assert encoded.dtype == torch.float32
    assert abs(float(encoded.mean())) < 1e-6
    np.testing.assert_allclose(task.postproc(encoded[:, None, None]).numpy(), values, rtol=0, atol=1e-6)


def test_classes_are_numbered_in_order_and_unknown_ones_refused() -> None:
    task = TabularTask.fit(["b", "a", "c", None])
    assert task.encode(["c", None, "a"]).tolist() == [2, -1, 0]
    with pytest.raises(BadInput, match="the class 'd' is unknown; fit saw a, b, c"):
        task.encode(["a", "d"])
    two = TabularTask.fit([5, 9])
    assert two.encode([9, 5]).tolist() == [1, 0]
    with pytest.raises(BadInput, match=r"classes must be int64, as they were in fit; got string"):
        two.encode(["five"])


def test_the_training_loss_is_the_mean_over_members() -> None:
    for target in ([1.0, 4.0, 2.0, 9.5], [0, 1, 1, 0], [0, 2, 1, 1]):
        task = TabularTask.fit(target)
        output = draw_outputs(4, task.num_outputs)
        encoded = task.encode(target)
        alone = [task(output[:, [member]], encoded) for member in range(output.shape[1])]
        torch.testing.assert_close(task(output, encoded), torch.stack(alone).mean())


def test_the_loss_to_compare_nets_by_is_that_of_the_mean_prediction() -> None:
    numbers = np.array([10.0, 40.0, 20.0, 95.0])
    task = TabularTask.fit(numbers)
    output = draw_outputs(4, 1)
    expected = mean_squared_error(numbers, task.postproc(output).numpy())
    assert task(output, task.encode(numbers), unscaled=True).item() == pytest.approx(expected, rel=1e-5)
    for labels in ([0, 1, 1, 0], [0, 2, 1, 1]):
        task = TabularTask.fit(labels)
        output = draw_outputs(4, task.num_outputs)
        expected = log_loss(labels, task.postproc(output).numpy())
        assert task(output, task.encode(labels), unscaled=True).item() == pytest.approx(expected, rel=1e-5)


def test_a_certain_and_wrong_net_has_a_finite_loss() -> None:
    task = TabularTask.fit([0, 1])
    loss = task(torch.full((1, 2, 1), 500.0), torch.zeros(1), unscaled=True)
    assert loss.item() == pytest.approx(500)


@pytest.mark.parametrize("target", [[1.0, None, 2.5], [0, None, 1], ["a", None, "b", "c"]])
def test_missing_targets_are_ignored(target: list[Any]) -> None:
    task = TabularTask.fit(target)
    output = draw_outputs(len(target), task.num_outputs).requires_grad_()
    for unscaled in (False, True):
        loss = task(output, task.encode(target), unscaled=unscaled)
        known = [row for row, value in enumerate(target) if value is not None]
        expected = task(output[known], task.encode(target)[known], unscaled=unscaled)
        torch.testing.assert_close(loss, expected)
        (gradient,) = torch.autograd.grad(loss, output)
        assert gradient.isfinite().all()
        assert (gradient[1] == 0).all()


def test_weights_multiply_the_losses_of_rows() -> None:
    task = TabularTask.fit([0, 1, 0])
    output, target = draw_outputs(3, 1), torch.tensor([0.0, 1.0, 0.0])
    rows = [task(output[[row]], target[[row]]).item() for row in range(3)]
    weights = torch.tensor([1.0, 0.0, 3.0])
    assert task(output, target, weights).item() == pytest.approx((rows[0] + 3 * rows[2]) / 3)


def test_an_output_of_another_shape_is_refused() -> None:
    task = TabularTask.fit([0, 1, 2])
    with pytest.raises(BadInput, match=r"output of shape \[4, 3\] does not fit 4 targets.*\[4, members, 3\]"):
        task(torch.zeros(4, 3), torch.zeros(4, dtype=torch.int64))


@pytest.mark.parametrize("target", [[1.0, 4.5, 2.0], ["no", "yes"], [True, False], [1, 2, 3]])
def test_the_state_is_saved_exactly(tmp_path: Path, target: list[Any]) -> None:
    task = TabularTask.fit(target)
    save_tree(tmp_path / "task", task.state_dict())
    loaded = TabularTask()
    loaded.load_state_dict(load_tree(tmp_path / "task"))
    assert loaded.state_dict() == task.state_dict()
    assert loaded.encode(target).tolist() == task.encode(target).tolist()
    assert math.isclose(loaded.std, task.std, rel_tol=0)
