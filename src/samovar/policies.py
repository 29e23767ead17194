"""Policies: values that change from epoch to epoch or step to step, and rules that end a run. Knows no model or loop.

epoch_started(epoch)                             epochs count from 0
    step_started()                               before each step, which reads `policy.value`
epoch_finished(epoch, train_losses=, metrics=)   may raise EarlyStopping
"""

import copy
import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal

from samovar.errors import BadInput


class EarlyStopping(Exception):
    """Raised by a policy or a callback to end the run after the current epoch. The run ends normally and keeps its
    model.

    Example:
        >>> class GoodEnough(Policy):
        ...     def epoch_finished(self, epoch, *, train_losses=None, metrics=None):
        ...         if metrics["accuracy"] > 0.99:
        ...             raise EarlyStopping("the accuracy is above 0.99")
    """


class Policy:
    """The base of all policies: override `epoch_started`, `step_started`, `epoch_finished` or several of them.

    If the policy has an attribute `value`, every train step gets it. All instance attributes go into snapshots, so
    set each of them in `__init__`.

    Example:
        >>> class Warmup(Policy):
        ...     def __init__(self, target):
        ...         self.target = target
        ...         self.value = 0.0
        ...
        ...     def epoch_started(self, epoch):
        ...         self.value = self.target * min(1.0, (epoch + 1) / 5)
    """

    _settings: ClassVar[frozenset[str]] = frozenset()
    """Attributes that never change after `__init__`. They are not in snapshots: the caller passes them again."""

    def epoch_started(self, epoch: int) -> None:
        """Called before the first step of an epoch. Epochs count from 0.

        Args:
            epoch: Its number.
        """

    def step_started(self) -> None:
        """Called before each step. A policy that counts steps keeps the count in an attribute."""

    def epoch_finished(
        self,
        epoch: int,
        *,
        train_losses: Sequence[float] | None = None,
        metrics: Mapping[str, Any] | None = None,
    ) -> None:
        """Called after an epoch.

        Args:
            epoch: The epoch that ended.
            train_losses: The loss of each step.
            metrics: What validation measured, if it ran.

        Raises:
            EarlyStopping: To end the run.
        """

    def state_dict(self) -> dict[str, Any]:
        """What a snapshot keeps: every instance attribute by default."""
        return {name: copy.deepcopy(v) for name, v in vars(self).items() if name not in self._settings}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned.

        Args:
            state: What `state_dict` returned.

        Raises:
            BadInput: The state lacks an attribute of this policy.
        """
        known = vars(self).keys() - self._settings
        if not known <= state.keys():  # it may have more: attributes that are set later than in __init__
            raise BadInput(
                f"{type(self).__name__}: the state has ({', '.join(sorted(state))}) but must have "
                f"({', '.join(sorted(known))}). Set every attribute in __init__, and load a state into the class that "
                "made it"
            )
        for name, value in state.items():
            setattr(self, name, copy.deepcopy(value))


class Constant(Policy):
    """Always the same value. A plain number in place of a policy means this.

    Args:
        value: The value.

    Raises:
        BadInput: It is not a number.

    Example:
        >>> Constant(0.1).value
        0.1
    """

    _settings = frozenset({"value"})

    def __init__(self, value: float) -> None:
        self.value = _number("Constant", "value", value)


Unit = Literal["epoch", "step"]


class EpochValue(Policy, ABC):
    """A value that depends on the epoch alone, so a run may start at any epoch; or on the number of steps so far.

    Args:
        unit: What is counted: "epoch" or "step".

    Raises:
        BadInput: `unit` is neither.
    """

    value: float
    num_steps: int | None = None
    """Steps so far. An attribute of the instance, and so part of its state, only if the unit is a step."""

    def __init__(self, unit: Unit = "epoch") -> None:
        if unit not in ("epoch", "step"):
            raise _bad(type(self).__name__, "unit", unit, "'epoch' or 'step'")
        if unit == "step":
            self.num_steps = 0

    @abstractmethod
    def value_at(self, epoch: int) -> float:
        """The value in an epoch, or in a step; both count from 0.

        Args:
            epoch: The number of the epoch or step.
        """

    def epoch_started(self, epoch: int) -> None:
        if self.num_steps is None:
            self.value = self.value_at(epoch)

    def step_started(self) -> None:
        if self.num_steps is not None:
            self.value = self.value_at(self.num_steps)
            self.num_steps += 1


class Exponential(EpochValue):
    """A value that grows or shrinks by a factor: initial · multiplier^(epoch / step_length), clipped to the limits.

    Args:
        initial: The value of epoch 0.
        multiplier: The factor per step, at least 0.
        step_length: Epochs per step, above 0.
        floordiv: Round the exponent down, so that the value changes only every `step_length` epochs.
        min_value: The value never falls below this.
        max_value: The value never exceeds this.
        unit: "epoch", or "step": then everything above counts steps.

    Raises:
        BadInput: An argument is not a number or out of range.

    Example:
        >>> lr = Exponential(0.1, multiplier=0.5, step_length=2, min_value=0.03)
        >>> for epoch in (0, 1, 2, 4):
        ...     print(epoch, lr.value_at(epoch))
        0 0.1
        1 0.1
        2 0.05
        4 0.03
        >>> by_step = Exponential(0.1, multiplier=0.9, step_length=1000, unit="step")
    """

    _settings = frozenset({"initial", "multiplier", "step_length", "floordiv", "min_value", "max_value"})

    def __init__(
        self,
        initial: float,
        multiplier: float,
        step_length: float = 1,
        floordiv: bool = True,
        min_value: float | None = None,
        max_value: float | None = None,
        *,
        unit: Unit = "epoch",
    ) -> None:
        super().__init__(unit)
        self.initial = _number("Exponential", "initial", initial)
        self.multiplier = _number("Exponential", "multiplier", multiplier, least=0)
        self.step_length = step_length
        self.floordiv = floordiv
        self.min_value = -math.inf if min_value is None else _number("Exponential", "min_value", min_value)
        self.max_value = math.inf if max_value is None else _number("Exponential", "max_value", max_value)
        if not _number("Exponential", "step_length", step_length) > 0:
            raise _bad("Exponential", "step_length", step_length, "greater than 0")
        if self.min_value > self.max_value:
            raise _bad("Exponential", "min_value", min_value, f"at most max_value, which is {max_value}")
        self.value = self.value_at(0)

    def value_at(self, epoch: int) -> float:
        steps = epoch // self.step_length if self.floordiv else epoch / self.step_length
        try:
            value = self.initial * float(self.multiplier**steps)
        except OverflowError:  # it grows without bound; a limit still applies
            value = math.copysign(math.inf, self.initial) if self.initial else 0.0
        return min(max(value, self.min_value), self.max_value)


class Schedule(EpochValue):
    """A value that is multiplied once more at each given epoch.

    Args:
        initial: The value of epoch 0.
        epoch_to_multiplier: Epochs, and what the value is multiplied by from that epoch on.
        unit: "epoch", or "step": then the keys are steps.

    Raises:
        BadInput: A value is not a number, or an epoch is not an integer of at least 0.

    Example:
        >>> lr = Schedule(1.0, {10: 0.5, 20: 0.1})
        >>> lr.value_at(9), lr.value_at(10), lr.value_at(20)
        (1.0, 0.5, 0.05)
    """

    _settings = frozenset({"initial", "multipliers"})

    def __init__(self, initial: float, epoch_to_multiplier: Mapping[int, float], *, unit: Unit = "epoch") -> None:
        super().__init__(unit)
        self.initial = _number("Schedule", "initial", initial)
        self.multipliers = _by_epoch("Schedule", "epoch_to_multiplier", epoch_to_multiplier)
        self.value = self.value_at(0)

    def value_at(self, epoch: int) -> float:
        return math.prod((m for since, m in self.multipliers if since <= epoch), start=self.initial)


class Switch(EpochValue):
    """A value that changes to another at each given epoch.

    Args:
        initial: The value of epoch 0.
        epoch_to_value: Epochs, and the value from that epoch on.
        unit: "epoch", or "step": then the keys are steps.

    Raises:
        BadInput: A value is not a number, or an epoch is not an integer of at least 0.

    Example:
        >>> dropout = Switch(0.5, {3: 0.2, 10: 0.0})
        >>> dropout.value_at(2), dropout.value_at(3), dropout.value_at(11)
        (0.5, 0.2, 0.0)
    """

    _settings = frozenset({"values"})

    def __init__(self, initial: float, epoch_to_value: Mapping[int, float], *, unit: Unit = "epoch") -> None:
        super().__init__(unit)
        start = (0, _number("Switch", "initial", initial))
        self.values = (start, *_by_epoch("Switch", "epoch_to_value", epoch_to_value))
        self.value = self.value_at(0)

    def value_at(self, epoch: int) -> float:
        return [value for since, value in self.values if since <= epoch][-1]


class LambdaEpoch(EpochValue):
    """A value that a function of yours gives: `func(epoch, *args)`.

    Args:
        func: Called with the epoch, counted from 0, and the arguments; returns a number.
        *args: Further arguments.
        unit: "epoch", or "step": then the function gets the step.

    Raises:
        BadInput: `func` cannot be called, or does not return a number.

    Example:
        >>> warmup = LambdaEpoch(lambda epoch, top: top * min(1.0, (epoch + 1) / 4), 0.2)
        >>> warmup.value_at(0), warmup.value_at(9)
        (0.05, 0.2)
    """

    _settings = frozenset({"func", "args"})

    def __init__(self, func: Callable[..., float], *args: Any, unit: Unit = "epoch") -> None:
        super().__init__(unit)
        if not callable(func):
            raise _bad("LambdaEpoch", "func", func, "a function of the epoch")
        self.func = func
        self.args = args
        self.value = self.value_at(0)

    def value_at(self, epoch: int) -> float:
        return _number("LambdaEpoch", f"the function's value at epoch {epoch}", self.func(epoch, *self.args))


class Warmup(EpochValue):
    """Grows from `target` / `length` to `target` in equal steps, and stays there. As `lr_factor` it warms up any rate.

    Args:
        length: How many steps, or epochs, it takes.
        target: The last value.
        unit: "step" or "epoch".

    Raises:
        BadInput: `length` is not an integer of at least 1, or `target` is not a number.

    Example:
        >>> policies = {"lr": Exponential(0.1, multiplier=0.5), "lr_factor": Warmup(1000)}
        >>> Warmup(4).value_at(0), Warmup(4).value_at(9)
        (0.25, 1.0)
    """

    _settings = frozenset({"length", "target"})

    def __init__(self, length: int, target: float = 1.0, *, unit: Unit = "step") -> None:
        super().__init__(unit)
        self.length = _count("Warmup", "length", length, least=1)
        self.target = _number("Warmup", "target", target)
        self.value = self.value_at(0)

    def value_at(self, epoch: int) -> float:
        return self.target if epoch + 1 >= self.length else self.target * ((epoch + 1) / self.length)


class DecreasingOnPlateau(Policy):
    """Multiplies the value after more than `patience` epochs in a row without progress, then starts counting again.

    There is progress when the mean train loss satisfies `reference - loss > max(atol, rtol * |reference|)`, where
    `reference` is the loss at the last progress. The first finite loss is progress; NaN never is.

    Args:
        initial: The first value.
        multiplier: What the value is multiplied by.
        patience: How many epochs in a row may pass without progress.
        rtol: The least progress, as a fraction of the reference.
        atol: The least progress.

    Raises:
        BadInput: An argument is not a number or negative.

    Example:
        >>> lr = DecreasingOnPlateau(0.1, 0.5, patience=1)
        >>> for epoch, loss in enumerate([3.0, 2.0, 2.0, 2.0]):
        ...     lr.epoch_finished(epoch, train_losses=[loss])
        ...     print(loss, lr.value)
        3.0 0.1
        2.0 0.1
        2.0 0.1
        2.0 0.05
    """

    _settings = frozenset({"multiplier", "patience", "rtol", "atol"})

    def __init__(self, initial: float, multiplier: float, patience: int, rtol: float = 0, atol: float = 0) -> None:
        name = type(self).__name__
        self.value = _number(name, "initial", initial)
        self.multiplier = _number(name, "multiplier", multiplier)
        self.patience = _count(name, "patience", patience)
        self.rtol = _number(name, "rtol", rtol, least=0)
        self.atol = _number(name, "atol", atol, least=0)
        self.reference: float | None = None
        self.epochs_waited = 0

    def epoch_finished(
        self,
        epoch: int,
        *,
        train_losses: Sequence[float] | None = None,
        metrics: Mapping[str, Any] | None = None,
    ) -> None:
        loss = _mean_loss(type(self).__name__, epoch, train_losses)
        if self._is_progress(loss):
            self.reference = loss
            self.epochs_waited = 0
            return
        self.epochs_waited += 1
        if self.epochs_waited > self.patience:
            self.value *= self.multiplier
            self.epochs_waited = 0

    def _is_progress(self, loss: float) -> bool:
        if not math.isfinite(loss):
            return False
        if self.reference is None:
            return True
        return self.reference - loss > max(self.atol, self.rtol * abs(self.reference))


class LossStop(Policy):
    """Ends the run when the mean train loss is not finite, or exceeds first + (max_ratio - 1) · |first|.

    It has no value: pass it to `train_model` or a learner under any name, such as `stop`.

    Args:
        max_ratio: How many times the first loss is too much, at least 1.

    Raises:
        BadInput: `max_ratio` is not a number of at least 1.

    Example:
        >>> stop = LossStop(3)
        >>> stop.epoch_finished(0, train_losses=[1.0])
        >>> stop.epoch_finished(1, train_losses=[3.5])
        Traceback (most recent call last):
        samovar.policies.EarlyStopping: epoch 1: the mean train loss 3.5 is above 3.0
    """

    _settings = frozenset({"max_ratio"})

    def __init__(self, max_ratio: float) -> None:
        self.max_ratio = _number("LossStop", "max_ratio", max_ratio, least=1)
        self.first: float | None = None

    def epoch_finished(
        self,
        epoch: int,
        *,
        train_losses: Sequence[float] | None = None,
        metrics: Mapping[str, Any] | None = None,
    ) -> None:
        loss = _mean_loss("LossStop", epoch, train_losses)
        if not math.isfinite(loss):
            raise EarlyStopping(f"epoch {epoch}: the mean train loss is {loss}")
        if self.first is None:
            self.first = loss
        limit = self.first + (self.max_ratio - 1) * abs(self.first)
        if loss > limit:
            raise EarlyStopping(f"epoch {epoch}: the mean train loss {loss} is above {limit}")


def _mean_loss(policy: str, epoch: int, train_losses: Sequence[float] | None) -> float:
    if train_losses is None or len(train_losses) == 0:
        raise BadInput(
            f"{policy}: epoch {epoch} has no train losses. Pass one loss per step, and give every epoch at least one "
            "batch"
        )
    losses = [float(loss) for loss in train_losses]
    try:
        return math.fsum(losses) / len(losses)  # exact: independent of the order of additions
    except (OverflowError, ValueError):  # a sum above 1e308, or infinities of both signs
        return math.nan


def _by_epoch(policy: str, name: str, values: Mapping[int, float]) -> tuple[tuple[int, float], ...]:
    pairs = [
        (_count(policy, f"an epoch of {name}", epoch), _number(policy, f"{name}[{epoch}]", value))
        for epoch, value in values.items()
    ]
    return tuple(sorted(pairs))


def _number(policy: str, name: str, value: Any, least: float = -math.inf) -> float:
    expected = "a number" if least == -math.inf else f"a number of at least {least}"
    try:
        number = math.nan if isinstance(value, str) else float(value)
    except (TypeError, ValueError):
        raise _bad(policy, name, value, expected) from None
    if not number >= least:
        raise _bad(policy, name, value, expected)
    return number


def _count(policy: str, name: str, value: Any, least: int = 0) -> int:
    expected = f"an integer of at least {least}"
    try:
        count = operator.index(value)
    except TypeError:
        raise _bad(policy, name, value, expected) from None
    if count < least:
        raise _bad(policy, name, value, expected)
    return count


def _bad(policy: str, name: str, value: Any, expected: str) -> BadInput:
    return BadInput(f"{policy}: {name} must be {expected}, got {value!r}")
