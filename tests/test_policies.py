"""Policies: values by epoch, plateaus and stops, and states that are restored exactly."""

import doctest
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samovar import policies
from samovar.errors import BadInput
from samovar.policies import (
    Constant,
    DecreasingOnPlateau,
    EarlyStopping,
    EpochValue,
    Exponential,
    LambdaEpoch,
    LossStop,
    Policy,
    Schedule,
    Switch,
    Warmup,
)


def values(policy: EpochValue, num_epochs: int) -> list[float]:
    found = []
    for epoch in range(num_epochs):
        policy.epoch_started(epoch)
        found.append(policy.value)
        policy.epoch_finished(epoch, train_losses=[1.0])
    return found


def feed(policy: DecreasingOnPlateau, losses: Sequence[float]) -> list[float]:
    found = []
    for epoch, loss in enumerate(losses):
        policy.epoch_started(epoch)
        policy.epoch_finished(epoch, train_losses=[loss], metrics={})
        found.append(policy.value)
    return found


def test_a_constant_never_changes() -> None:
    policy = Constant(3)
    policy.epoch_started(100)
    assert str(policy.value) == "3.0"


def test_an_exponential_is_multiplied_every_epoch() -> None:
    assert " ".join(map(str, values(Exponential(initial=10, multiplier=0.5), 3))) == "10.0 5.0 2.5"


def test_an_exponential_moves_in_whole_steps_by_default() -> None:
    assert values(Exponential(8, 0.25, step_length=2), 5) == [8, 8, 2, 2, 0.5]
    assert values(Exponential(8, 0.25, step_length=2, floordiv=False), 4) == [8, 4, 2, 1]


def test_an_exponential_stays_within_its_limits() -> None:
    assert values(Exponential(8, 0.5, min_value=3), 4) == [8, 4, 3, 3]
    assert values(Exponential(1, 10, max_value=50), 4) == [1, 10, 50, 50]
    assert Exponential(1, 0.5, min_value=2).value == 2


@pytest.mark.parametrize(
    ("initial", "limit", "expected"), [(1, 7, 7), (1, None, math.inf), (0, None, 0), (-1, None, -math.inf)]
)
def test_an_exponential_may_grow_past_every_number(initial: float, limit: float, expected: float) -> None:
    policy = Exponential(initial, 10, max_value=limit)
    policy.epoch_started(100_000)
    assert policy.value == expected


def test_a_schedule_multiplies_from_each_epoch_on() -> None:
    assert values(Schedule(8, {3: 0.5, 1: 0.25}), 5) == [8, 2, 2, 1, 1]
    assert Schedule(8, {0: 0.5}).value == 4


def test_a_switch_takes_the_last_value_given() -> None:
    assert values(Switch(8, {3: 5, 1: 7}), 5) == [8, 7, 7, 5, 5]
    assert Switch(8, {0: 0.5}).value == 0.5


def test_a_lambda_gets_the_epoch_and_its_arguments() -> None:
    assert values(LambdaEpoch(lambda epoch, base, power: base + epoch**power, 1, 2), 3) == [1, 2, 5]


EPOCH_VALUES: list[Callable[[], EpochValue]] = [
    lambda: Exponential(0.1, 0.3, step_length=3),
    lambda: Exponential(0.1, 1.7, floordiv=False, max_value=2),
    lambda: Schedule(0.1, {2: 0.3, 5: 0.7, 6: 1.1}),
    lambda: Switch(0.1, {2: 0.3, 5: 0.7}),
    lambda: LambdaEpoch(lambda epoch: 1 / (1 + epoch)),
]


BY_STEP: list[Callable[[], EpochValue]] = [
    lambda: Exponential(8, 0.5, step_length=2, unit="step"),
    lambda: Schedule(8, {2: 0.5}, unit="step"),
    lambda: Switch(8, {2: 4}, unit="step"),
    lambda: LambdaEpoch(lambda step: 8 / (1 + step // 2), unit="step"),
]


@pytest.mark.parametrize("make", BY_STEP)
def test_by_step_the_same_values_come_step_by_step_and_no_epoch_moves_them(make: Callable[[], EpochValue]) -> None:
    policy, found = make(), []
    for epoch in range(2):
        policy.epoch_started(epoch)
        for _ in range(2):
            policy.step_started()
            found.append(policy.value)
        resumed = make()
        resumed.load_state_dict(json.loads(json.dumps(policy.state_dict())))
        policy = resumed
    assert found == [8, 8, 4, 4]
    assert policy.state_dict().keys() == {"num_steps", "value"}


def test_a_value_by_epoch_does_not_count_steps() -> None:
    policy = Exponential(8, 0.5)
    policy.step_started()
    assert policy.value == 8
    assert policy.state_dict() == {"value": 8}


def test_a_warm_up_takes_its_steps_or_epochs() -> None:
    assert values(Warmup(4, 2, unit="epoch"), 6) == [0.5, 1, 1.5, 2, 2, 2]
    assert Warmup(4).value == 0.25
    with pytest.raises(BadInput, match="Warmup: length must be an integer of at least 1, got 0"):
        Warmup(0)
    with pytest.raises(BadInput, match="Exponential: unit must be 'epoch' or 'step', got 'batch'"):
        Exponential(1, 1, unit="batch")  # type: ignore[arg-type]


@pytest.mark.parametrize("make", EPOCH_VALUES)
def test_starting_at_any_epoch_gives_the_value_of_a_run_that_got_there(
    make: Callable[[], EpochValue],
) -> None:
    for epoch, value in enumerate(values(make(), 12)):
        policy = make()
        policy.epoch_started(epoch)
        assert policy.value == value


def test_a_plateau_longer_than_the_patience_cuts_the_value() -> None:
    assert feed(DecreasingOnPlateau(8, 0.5, patience=1), [3, 2, 2, 2, 2, 2, 1]) == [8, 8, 8, 4, 4, 2, 2]
    assert feed(DecreasingOnPlateau(8, 0.5, patience=0), [3, 3, 2, 2]) == [8, 4, 4, 2]


def test_progress_on_a_plateau_starts_the_count_again() -> None:
    assert feed(DecreasingOnPlateau(8, 0.5, patience=1), [3, 3, 2, 2, 1, 1]) == [8] * 6


@pytest.mark.parametrize("start", [100.0, -100.0])
def test_progress_is_counted_from_the_last_progress_whatever_the_sign(start: float) -> None:
    creeping = [start - step for step in range(5)]
    assert feed(DecreasingOnPlateau(8, 0.5, 0, atol=2), creeping) == [8, 4, 2, 2, 1]
    assert feed(DecreasingOnPlateau(8, 0.5, 0, rtol=0.02), creeping) == [8, 4, 2, 2, 1]
    assert feed(DecreasingOnPlateau(8, 0.5, 0, rtol=0.02, atol=3), creeping) == [8, 4, 2, 1, 1]


def test_a_rising_negative_loss_is_no_progress() -> None:
    assert feed(DecreasingOnPlateau(8, 0.5, 0), [-3, -2, -1]) == [8, 4, 2]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_loss_that_is_not_finite_is_never_progress(bad: float) -> None:
    assert feed(DecreasingOnPlateau(8, 0.5, 0), [bad, 3, bad, 2]) == [4, 4, 2, 2]


def test_the_loss_of_an_epoch_is_the_mean() -> None:
    policy = DecreasingOnPlateau(8, 0.5, 0)
    policy.epoch_finished(0, train_losses=[1.0, 3.0])
    policy.epoch_finished(1, train_losses=[0.0, 3.5])
    assert (policy.value, policy.reference) == (8, 1.75)


@pytest.mark.parametrize(
    ("losses", "stops_at"),
    [
        ([[2], [3.9], [4.0], [4.1]], 3),
        ([[-2], [-0.1], [0], [0.1]], 3),
        ([[0], [-1], [1e-9]], 2),
        ([[1, 3], [0, 7.9], [0, 8.2]], 2),
        ([[math.nan]], 0),
        ([[1], [1, math.inf]], 1),
        ([[1], [-math.inf, math.inf]], 1),
        ([[1], [1e308, 1e308]], 1),
        ([[1], [0], [2], [0]], None),
    ],
)
def test_a_run_whose_loss_explodes_is_stopped(losses: list[list[float]], stops_at: int | None) -> None:
    policy = LossStop(max_ratio=2)
    for epoch, train_losses in enumerate(losses):
        if epoch == stops_at:
            with pytest.raises(EarlyStopping, match=f"epoch {epoch}: the mean train loss"):
                policy.epoch_finished(epoch, train_losses=train_losses)
        else:
            policy.epoch_finished(epoch, train_losses=train_losses)


@pytest.mark.parametrize("policy", [LossStop(2), DecreasingOnPlateau(1, 0.5, 1)])
@pytest.mark.parametrize("losses", [None, [], np.zeros(0)])
def test_an_epoch_without_losses_is_an_error_where_losses_matter(policy: Policy, losses: Any) -> None:
    with pytest.raises(BadInput, match="epoch 3 has no train losses"):
        policy.epoch_finished(3, train_losses=losses)


def test_early_stopping_may_be_raised_with_or_without_a_reason() -> None:
    with pytest.raises(EarlyStopping):
        raise EarlyStopping
    with pytest.raises(EarlyStopping, match="good enough"):
        raise EarlyStopping("good enough")


class BestMetric(Policy):
    """What a user writes."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.history: list[float] = []

    def epoch_finished(
        self,
        epoch: int,
        *,
        train_losses: Sequence[float] | None = None,
        metrics: Mapping[str, Any] | None = None,
    ) -> None:
        self.history.append((metrics or {})[self.name])


class Warm(Exponential):
    def __init__(self) -> None:
        super().__init__(1, 0.5)
        self.num_started = 0

    def epoch_started(self, epoch: int) -> None:
        super().epoch_started(epoch)
        self.num_started += 1


STATES: list[tuple[Callable[[], Policy], set[str]]] = [
    (lambda: Constant(1), set()),
    *[(make, {"value"}) for make in EPOCH_VALUES],
    (lambda: DecreasingOnPlateau(1, 0.5, 1), {"value", "reference", "epochs_waited"}),
    (lambda: LossStop(math.inf), {"first"}),
    (lambda: BestMetric("auc"), {"name", "history"}),
    (lambda: Warm(), {"value", "num_started"}),
    (lambda: Policy(), set()),
]


@pytest.mark.parametrize(("make", "names"), STATES)
def test_a_state_holds_what_changes_and_nothing_else(make: Callable[[], Policy], names: set[str]) -> None:
    assert make().state_dict().keys() == names


@pytest.mark.parametrize(("make", "names"), STATES)
@given(losses=st.lists(st.floats(-5, 5), max_size=8), split=st.integers(0, 8))
def test_a_policy_continues_from_its_state(
    make: Callable[[], Policy], names: set[str], losses: list[float], split: int
) -> None:
    def run(policy: Policy, first: int, last: int) -> None:
        for epoch in range(first, min(last, len(losses))):
            policy.epoch_started(epoch)
            policy.epoch_finished(epoch, train_losses=[losses[epoch]], metrics={"auc": losses[epoch]})

    straight, before, after = make(), make(), make()
    run(straight, 0, len(losses))
    run(before, 0, split)
    after.load_state_dict(json.loads(json.dumps(before.state_dict())))
    run(after, split, len(losses))
    assert after.state_dict() == straight.state_dict()


def test_a_state_does_not_change_with_its_policy() -> None:
    policy = BestMetric("auc")
    state = policy.state_dict()
    other = BestMetric("auc")
    other.load_state_dict(state)
    for changed in (policy, other):
        changed.epoch_finished(0, metrics={"auc": 1.0})
    assert state == {"name": "auc", "history": []}


@pytest.mark.parametrize("state", [{}, {"values": 1.0}])
def test_a_state_with_missing_names_is_refused_whole(state: dict[str, Any]) -> None:
    policy = Exponential(10, 0.5)
    with pytest.raises(BadInput, match=r"Exponential: the state has \(.*\) but must have \(value\)"):
        policy.load_state_dict(state)
    assert policy.state_dict() == {"value": 10.0}


MISTAKES: list[tuple[Callable[[], Any], str]] = [
    (lambda: Constant("1"), "Constant: value must be a number, got '1'"),  # type: ignore[arg-type]  # mistake
    (lambda: Constant(math.nan), "Constant: value must be a number, got nan"),
    (lambda: Exponential(1, 0.5, step_length=0), "Exponential: step_length must be greater than 0, got 0"),
    (lambda: Exponential(1, 0.5, step_length=-1), "step_length must be greater than 0, got -1"),
    (lambda: Exponential(1, -0.5), "multiplier must be a number of at least 0, got -0.5"),
    (
        lambda: Exponential(1, 0.5, min_value=2, max_value=1),
        "min_value must be at most max_value, which is 1, got 2",
    ),
    (lambda: Schedule(1, {-1: 0.5}), "an epoch of epoch_to_multiplier must be an integer of at least 0, got -1"),
    (lambda: Schedule(1, {"3": 0.5}), "an epoch of epoch_to_multiplier must be an integer .*, got '3'"),  # type: ignore[dict-item]  # mistake
    (lambda: Switch(1, {3: None}), r"epoch_to_value\[3\] must be a number, got None"),  # type: ignore[dict-item]  # mistake
    (lambda: LambdaEpoch(0.5), "LambdaEpoch: func must be a function of the epoch, got 0.5"),  # type: ignore[arg-type]  # mistake
    (lambda: LambdaEpoch(lambda epoch: None), "value at epoch 0 must be a number, got None"),  # type: ignore[arg-type, return-value]  # mistake
    (lambda: DecreasingOnPlateau(1, 0.5, -1), "patience must be an integer of at least 0, got -1"),
    (lambda: DecreasingOnPlateau(1, 0.5, 1.5), "patience must be an integer of at least 0, got 1.5"),  # type: ignore[arg-type]  # mistake
    (lambda: DecreasingOnPlateau(1, 0.5, 1, rtol=-1), "rtol must be a number of at least 0, got -1"),
    (lambda: DecreasingOnPlateau(1, 0.5, 1, atol=-1), "atol must be a number of at least 0, got -1"),
    (lambda: LossStop(0.5), "max_ratio must be a number of at least 1, got 0.5"),
]


@pytest.mark.parametrize(("make", "message"), MISTAKES)
def test_a_wrong_argument_is_refused_by_name(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        make()


def test_the_examples_of_policies_run() -> None:
    results = doctest.testmod(policies)
    assert results.attempted >= 10
    assert results.failed == 0
