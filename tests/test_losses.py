"""Losses over groups: the formulas against plain loops, and what must not count."""

import doctest
import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from samovar import losses
from samovar.errors import BadInput

Groups = list[list[tuple[float, float]]]
"""Of each group, (score, target) of its rows."""
Loss = Callable[..., torch.Tensor]

scores = st.floats(-20, 20, width=32).map(lambda score: round(score, 2))
groups = st.lists(st.lists(st.tuples(scores, st.integers(0, 3).map(float)), max_size=6), max_size=8)


def softmax(group: list[tuple[float, float]]) -> list[float]:
    total = sum(target for _, target in group)
    if total == 0:
        return []
    norm = math.log(sum(math.exp(score) for score, _ in group))
    return [-sum(target / total * (score - norm) for score, target in group)]


def bpr(group: list[tuple[float, float]]) -> list[float]:
    return [math.log1p(math.exp(worse[0] - better[0])) for better, worse in pairs_of(group)]


def lambdarank(group: list[tuple[float, float]]) -> list[float]:
    def dcg(rows: list[tuple[float, float]]) -> float:
        return sum((2**target - 1) / math.log2(1 + rank) for rank, (_, target) in enumerate(rows, 1))

    ranked = sorted(group, key=lambda row: -row[0])  # stable: equal scores stay in order
    best = dcg(sorted(group, key=lambda row: -row[1]))
    total, num_pairs = 0.0, 0
    for i, j in itertools.permutations(range(len(ranked)), 2):
        if ranked[i][1] <= ranked[j][1]:
            continue
        swapped = list(ranked)
        swapped[i], swapped[j] = ranked[j], ranked[i]
        change = abs(dcg(swapped) - dcg(ranked)) / best
        total += change * math.log1p(math.exp(ranked[j][0] - ranked[i][0]))
        num_pairs += 1
    return [total] if num_pairs else []


def pairs_of(group: list[tuple[float, float]]) -> list[tuple[tuple[float, float], tuple[float, float]]]:
    return [(one, other) for one, other in itertools.permutations(group, 2) if one[1] > other[1]]


CASES = [(losses.softmax, softmax), (losses.bpr, bpr), (losses.lambdarank, lambdarank)]


def as_tensors(given: Groups) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    rows = np.array([row for group in given for row in group], np.float64).reshape(-1, 2)
    offsets = torch.tensor([0, *np.cumsum([len(group) for group in given]).tolist()], dtype=torch.int64)
    return torch.from_numpy(rows[:, 0].copy()), torch.from_numpy(rows[:, 1].copy()), offsets


@pytest.mark.parametrize(("loss", "loop"), CASES)
@given(given_groups=groups)
@settings(max_examples=100)
def test_a_loss_is_that_of_a_plain_loop_over_its_groups(
    loss: Loss, loop: Callable[[list[tuple[float, float]]], list[float]], given_groups: Groups
) -> None:
    expected = [each for group in given_groups for each in loop(group)]
    tensors = as_tensors(given_groups)
    assert math.isclose(loss(*tensors, reduction="sum").item(), sum(expected), rel_tol=1e-9, abs_tol=1e-9)
    mean = sum(expected) / len(expected) if expected else 0.0
    assert math.isclose(loss(*tensors).item(), mean, rel_tol=1e-9, abs_tol=1e-9)


@pytest.mark.parametrize(("loss", "_"), CASES)
def test_the_gradient_is_that_of_finite_differences(loss: Loss, _: object) -> None:
    generator = np.random.default_rng(0)
    given_groups = [
        [(float(generator.normal()), float(generator.integers(0, 3))) for _ in range(size)] for size in (4, 1, 5, 2)
    ]
    values, targets, offsets = as_tensors(given_groups)
    assert torch.autograd.gradcheck(lambda s: loss(s, targets, offsets), values.requires_grad_())


@pytest.mark.parametrize(("loss", "_"), CASES)
def test_groups_without_a_choice_give_a_zero_that_can_be_trained_on(loss: Loss, _: object) -> None:
    values = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    found = loss(values, torch.zeros(3), torch.tensor([0, 2, 3]))
    found.backward()  # type: ignore[no-untyped-call]  # torch gives it no types
    assert found.item() == 0
    assert values.grad is not None
    assert values.grad.tolist() == [0, 0, 0]


def test_large_scores_do_not_overflow() -> None:
    found = losses.softmax(torch.tensor([1e4, 0.0]), torch.tensor([0.0, 1.0]), torch.tensor([0, 2]))
    assert found.item() == 1e4


@given(st.lists(st.integers(1, 5), max_size=10))
def test_offsets_are_the_first_rows_of_the_groups_and_the_number_of_rows(sizes: list[int]) -> None:
    starts = torch.tensor([float(row == 0) for size in sizes for row in range(size)])
    assert losses.group_offsets(starts).tolist() == [0, *np.cumsum(sizes).tolist()]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: losses.group_offsets(torch.tensor([0.0, 1.0])), "a first row that begins no group"),
        (lambda: losses.group_offsets(torch.ones(2, 2)), r"got shape \[2, 2\]"),
        (
            lambda: losses.softmax(torch.ones(3, 1), torch.ones(3), torch.tensor([0, 3])),
            r"got scores \[3, 1\], targets \[3\]",
        ),
        (lambda: losses.bpr(torch.ones(3), torch.ones(3), torch.tensor([0, 2])), "which end with 2"),
        (
            lambda: losses.lambdarank(torch.ones(1), torch.ones(1), torch.tensor([0, 1]), reduction="none"),
            "reduction must be 'mean' or 'sum', got 'none'",
        ),
    ],
)
def test_what_does_not_fit_is_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        call()


@pytest.mark.parametrize("name", ["group_offsets", "softmax", "bpr", "lambdarank"])
def test_the_example_of_a_loss_runs(name: str) -> None:
    (found,) = doctest.DocTestFinder().find(getattr(losses, name), name, globs={**vars(losses), "torch": torch})
    assert found.examples
    assert doctest.DocTestRunner().run(found).failed == 0
