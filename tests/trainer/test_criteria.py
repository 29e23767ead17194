"""MixedCriterion: kinds and scales found or given, NaN ignored, weights applied once."""

import re
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from samovar.data import ArrayDataset
from samovar.errors import BadInput
from samovar.trainer import MixedCriterion


def make(targets: Any, **given: Any) -> MixedCriterion:
    return MixedCriterion(ArrayDataset(np.zeros((len(targets), 1)), targets), **given)


def test_kinds_and_scales_of_arrays_are_found_in_all_targets() -> None:
    targets = np.zeros((1500, 4))
    targets[:, 0] = np.arange(1500) // 750 * 4 + 1  # sorted: its head is unlike the rest
    targets[:, 1] = np.arange(1500) % 2
    targets[1499, 1] = 7
    targets[:, 2] = 5
    targets[:, 3] = np.arange(1500) % 2
    columns = make(targets).columns
    assert columns is not None
    assert columns.kinds == (1, 1, 1, 0)
    assert columns.means[0] == 3
    assert columns.means[2:] == (5, 0)
    assert columns.stds[0] == 2
    assert columns.stds[2:] == (1, 1)
    late = make(np.repeat([0, 1, 2, 3], 1000)).columns
    assert late is not None
    assert late.kinds == (4,)


class Sorted(torch.utils.data.Dataset[Any]):
    """Examples in the order of their targets, made one by one."""

    def __init__(self) -> None:
        self.read: list[int] = []

    def __len__(self) -> int:
        return 5000

    def __getitem__(self, index: int) -> Any:
        self.read.append(index)
        return torch.zeros(1), torch.tensor([float(index)])


def test_scales_of_a_data_set_are_found_in_a_sample_of_all_of_it() -> None:
    first, second = Sorted(), Sorted()
    columns = MixedCriterion(first).columns
    assert columns is not None
    assert columns.means[0] == pytest.approx(2500, rel=0.05)
    assert columns.stds[0] == pytest.approx(5000 / 12**0.5, rel=0.05)
    assert len(first.read) == len(set(first.read)) == 1000
    MixedCriterion(second)
    assert first.read == second.read


def test_mixed_columns_have_their_own_losses() -> None:
    criterion = MixedCriterion(regression_flags=[1, 0, 3], scale=[[10, 0, 0], [2, 1, 1]])
    output = torch.tensor([[0.5, 1.0, 0.1, 0.2, 0.3], [1.0, -1.0, 3.0, 0.0, 0.0]], requires_grad=True)
    target = torch.tensor([[12.0, 1.0, 2.0], [torch.nan, 0.0, 0.0]])
    bce = functional.binary_cross_entropy_with_logits(output[:, 1], target[:, 1], reduction="sum")
    classes = functional.cross_entropy(output[:, 2:], target[:, 2].long(), reduction="sum")
    loss = criterion(output, target)
    torch.testing.assert_close(loss, (0.25 + bce + classes) / 5)
    torch.testing.assert_close(criterion(output, target, unscaled=True), (1.0 + bce + classes) / 5)
    loss.backward()  # type: ignore[no-untyped-call]  # torch gives it no types
    assert output.grad is not None
    assert output.grad.isfinite().all()
    assert output.grad[1, 0] == 0
    made = criterion.postproc(output.detach())
    assert made[:, 0].tolist() == [11, 12]
    torch.testing.assert_close(made[:, 2:].sum(1), torch.ones(2))


def test_weights_multiply_the_loss_once() -> None:
    criterion = MixedCriterion(regression_flags=[1, 1])
    output, target = torch.zeros(2, 2), torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert criterion(output, target).item() == 30 / 4
    assert criterion(output, target, weights=torch.tensor([2.0, 0.0])).item() == 10 / 4
    assert criterion(output, target, weights=torch.tensor([[1.0, 0.0], [0.0, 2.0]])).item() == 33 / 4
    with pytest.raises(
        BadInput, match=r"weights must have one number per example or per output, got the shape \[2, 3\]"
    ):
        criterion(output, target, weights=torch.ones(2, 3))


def test_negative_weights_are_refused() -> None:
    with pytest.raises(BadInput, match=r"weights must not be negative, got -0\.5"):
        MixedCriterion(regression_flags=[1])(torch.zeros(2, 1), torch.ones(2, 1), weights=torch.tensor([1.0, -0.5]))


def test_integers_are_classes_and_a_vector_of_weights_weighs_them() -> None:
    criterion = make(np.array([0, 1, 2, 1]))
    output, target = torch.zeros(2, 3), torch.tensor([2, 0])
    np.testing.assert_allclose(criterion(output, target).item(), np.log(3), rtol=1e-6)
    weighted = criterion(output, target, weights=torch.tensor([[0.0, 0.0, 4.0], [0.0, 5.0, 5.0]]))
    np.testing.assert_allclose(weighted.item(), 2 * np.log(3), rtol=1e-6)
    with pytest.raises(BadInput, match="got the class 7 as a target"):
        criterion(output, torch.tensor([7, 0]))


def test_flags_and_scale_of_the_data_set_are_used() -> None:
    dataset = ArrayDataset(np.zeros((4, 1)), np.array([0.0, 1, 0, 1]))
    dataset.regression_flags = [1]  # type: ignore[attr-defined]  # a user's data set may have it
    dataset.scale = [0.25, 0.5]  # type: ignore[attr-defined]  # and this
    columns = MixedCriterion(dataset).columns
    assert columns is not None
    assert (columns.kinds, columns.means, columns.stds) == ((1,), (0.25,), (0.5,))


def test_images_have_one_kind_per_channel() -> None:
    targets = torch.stack([torch.rand(6, 4, 4) + 1, (torch.rand(6, 4, 4) > 0.5).float()], 1)
    criterion = make(targets)
    assert criterion.columns is not None
    assert criterion.columns.kinds == (1, 0)


@pytest.mark.parametrize("shape", [(4, 3), (2, 2), (8,)])
def test_an_output_that_does_not_fit_is_refused_with_its_shape(shape: tuple[int, ...]) -> None:
    with pytest.raises(
        BadInput, match=rf"net: output of shape {re.escape(str(list(shape)))} does not fit .* Change the last layer"
    ):
        MixedCriterion(regression_flags=[1, 1])(torch.zeros(shape), torch.zeros(4, 2))


def test_a_single_column_needs_no_axis_of_its_own() -> None:
    criterion = MixedCriterion(regression_flags=[0])
    assert criterion(torch.zeros(3, 1), torch.tensor([1.0, 0, 1])).item() == pytest.approx(np.log(2))
    assert criterion.postproc(torch.zeros(3)).tolist() == [0.5] * 3


def test_targets_are_never_reshaped_across_axes() -> None:
    criterion = MixedCriterion(regression_flags=[1])
    with pytest.raises(BadInput, match=r"\[4, 2, 3\] does not fit a target of shape \[4, 3, 2\]"):
        criterion(torch.zeros(4, 2, 3), torch.zeros(4, 3, 2))


def test_a_number_in_a_yes_or_no_column_is_refused() -> None:
    criterion = MixedCriterion(regression_flags=[0])
    with pytest.raises(BadInput, match=r"between 0 and 1, got 40\. .*set regression_flags"):
        criterion(torch.zeros(2, 1), torch.tensor([[0.0], [40.0]]))


@pytest.mark.parametrize("label", [3, -1, -100])
def test_a_class_without_an_output_is_refused(label: int) -> None:
    criterion = make(np.array([0, 1, 2]))
    for weights in (None, torch.ones(2)):
        with pytest.raises(BadInput, match=rf"outputs for the classes 0 to 2, got the class {label} as a target"):
            criterion(torch.zeros(2, 3), torch.tensor([0, label]), weights=weights)


def test_two_classes_must_be_flagged_as_yes_or_no() -> None:
    with pytest.raises(BadInput, match=r"regression_flags must be .* 0 for yes or no .* got \[2\]"):
        MixedCriterion(regression_flags=[2])
