"""Policies: values that change from epoch to epoch, and rules that end a run. Knows no model, loop or optimizer.

epoch_started(epoch)                             epochs count from 0
    ... steps, which read `policy.value` ...
epoch_finished(epoch, train_losses=, metrics=)   may raise EarlyStopping
"""

import copy
import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from samovar.errors import BadInput


class EarlyStopping(Exception):
    """Raised by a policy to end the run after the current epoch. The run ends normally and keeps its model.

    Example:
        >>> raise EarlyStopping("the validation loss is good enough")
    """


class Policy:
    """The base of all policies: override `epoch_started`, `epoch_finished` or both.

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
        """Called before the first step of an epoch. Epochs count from 0."""

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
    """Always the same value. A plain number in place of a policy means this."""

    _settings = frozenset({"value"})

    def __init__(self, value: float) -> None:
        self.value = _number("Constant", "value", value)


class EpochValue(Policy, ABC):
    """A value that depends on the epoch alone, so a run may start at any epoch."""

    value: float

    @abstractmethod
    def value_at(self, epoch: int) -> float: ...

    def epoch_started(self, epoch: int) -> None:
        self.value = self.value_at(epoch)


class Exponential(EpochValue):
    """initial · multiplier^(epoch / step_length), clipped to the limits. `floordiv` rounds the exponent down."""

    _settings = frozenset({"initial", "multiplier", "step_length", "floordiv", "min_value", "max_value"})

    def __init__(
        self,
        initial: float,
        multiplier: float,
        step_length: float = 1,
        floordiv: bool = True,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
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
    """The value is multiplied once more at each given epoch."""

    _settings = frozenset({"initial", "multipliers"})

    def __init__(self, initial: float, epoch_to_multiplier: Mapping[int, float]) -> None:
        self.initial = _number("Schedule", "initial", initial)
        self.multipliers = _by_epoch("Schedule", "epoch_to_multiplier", epoch_to_multiplier)
        self.value = self.value_at(0)

    def value_at(self, epoch: int) -> float:
        return math.prod((m for since, m in self.multipliers if since <= epoch), start=self.initial)


class Switch(EpochValue):
    """The value changes at each given epoch."""

    _settings = frozenset({"values"})

    def __init__(self, initial: float, epoch_to_value: Mapping[int, float]) -> None:
        start = (0, _number("Switch", "initial", initial))
        self.values = (start, *_by_epoch("Switch", "epoch_to_value", epoch_to_value))
        self.value = self.value_at(0)

    def value_at(self, epoch: int) -> float:
        return [value for since, value in self.values if since <= epoch][-1]


class LambdaEpoch(EpochValue):
    """The value is `func(epoch, *args)`."""

    _settings = frozenset({"func", "args"})

    def __init__(self, func: Callable[..., float], *args: Any) -> None:
        if not callable(func):
            raise _bad("LambdaEpoch", "func", func, "a function of the epoch")
        self.func = func
        self.args = args
        self.value = self.value_at(0)

    def value_at(self, epoch: int) -> float:
        return _number("LambdaEpoch", f"the function's value at epoch {epoch}", self.func(epoch, *self.args))


class DecreasingOnPlateau(Policy):
    """Multiplies the value after more than `patience` epochs in a row without progress, then starts counting again.

    There is progress when the mean train loss satisfies `reference - loss > max(atol, rtol * |reference|)`, where
    `reference` is the loss at the last progress. The first finite loss is progress; NaN never is.
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
    """Ends the run when the mean train loss is not finite, or exceeds first + (max_ratio - 1) · |first|."""

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


def _count(policy: str, name: str, value: Any) -> int:
    try:
        count = operator.index(value)
    except TypeError:
        raise _bad(policy, name, value, "an integer of at least 0") from None
    if count < 0:
        raise _bad(policy, name, value, "an integer of at least 0")
    return count


def _bad(policy: str, name: str, value: Any, expected: str) -> BadInput:
    return BadInput(f"{policy}: {name} must be {expected}, got {value!r}")
