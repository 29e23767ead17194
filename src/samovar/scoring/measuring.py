"""Measures predictions by task, as they come, in bounded memory. Reads no files.

    task         output   target                    metrics
    binary       [B]      0 or 1                    auc, log_loss, calibration, accuracy, average_precision
    regression   [B]      any number                rmse, mae, r2, bias, calibration
    ranking      [B]      grades within groups      ndcg@k, mrr, group_auc; for 0 or 1 also those of binary
    multiclass   [B, K]   the number of a class     accuracy, log_loss, macro_f1, accuracy@k

Sums are kept exactly, in double precision. Only AUC and average precision need every row: see `distribution`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from samovar.errors import BadInput
from samovar.scoring.distribution import Distribution
from samovar.scoring.ranking import Ranking

Task: TypeAlias = Literal["binary", "multiclass", "regression", "ranking"]
Metrics: TypeAlias = dict[str, Any]
OwnMetric: TypeAlias = Callable[[Any, Mapping[str, Any], Mapping[str, Any]], Any]
Floats = NDArray[np.float64]

_SMALLEST = 1e-15
_CHUNK = 1 << 20
"""Numbers that are collected before they are counted."""
_NDCG_K, _ACCURACY_K = 10, 5


@dataclass(frozen=True)
class Measuring:
    """How to measure an evaluation.

    Args:
        task: None: inferred from output and target.
        weights: The column of weights; None: all rows count the same.
        k: Of `ndcg@k` and `accuracy@k`; None: 10 and 5.
        own: Functions of the user by name, called with predictions, targets and keys.
    """

    task: Task | None = None
    weights: str | None = None
    k: int | None = None
    own: Mapping[str, OwnMetric] = field(default_factory=dict)


class Measurement:
    """The rows of one output and one target so far.

    Args:
        how: Task and k; weights come with the rows.
        name: Of the evaluation, for messages.

    Example:
        >>> measurement = Measurement(Measuring())
        >>> measurement.add(np.array([1.5, 2.5]), np.array([1.0, 2.0]))
        >>> found = measurement.result()
        >>> found["task"], found["rmse"], found["bias"]
        ('regression', 0.5, -0.5)
    """

    def __init__(self, how: Measuring, name: str = "evaluation") -> None:
        self._how = how
        self._name = name
        self._waiting: list[tuple[NDArray[Any], ...]] = []
        self._num_waiting = 0
        self._meter: _Numbers | _Classes | None = None

    def add(
        self,
        targets: NDArray[Any],
        predictions: NDArray[Any],
        weights: NDArray[Any] | None = None,
        starts: NDArray[Any] | None = None,
    ) -> None:
        """Add rows. The arrays are kept for a while: pass copies if they may change.

        Args:
            targets: [N].
            predictions: [N] or [N, K].
            weights: [N], 0 or more.
            starts: [N], 1 at the first row of each group: makes it a ranking. Groups must be whole.

        Raises:
            BadInput: The rows do not fit the task that was set, or a weight is negative or not finite.
        """
        weights = np.ones(len(targets), np.float32) if weights is None else weights
        if self._how.task == "ranking" and starts is None:
            raise self._bad("a ranking needs the column 'group_start'. Brew with pivot_column")
        if predictions.ndim == 2 and predictions.shape[1] == 1:
            predictions = predictions[:, 0]
        if (self._how.task == "multiclass") != (predictions.ndim == 2) and self._how.task is not None:
            shape = "[B, K]" if self._how.task == "multiclass" else "[B]"
            raise self._bad(f"the task {self._how.task!r} needs predictions {shape}, got {list(predictions.shape)}")
        self._waiting.append((targets, predictions, weights, *(() if starts is None else (starts,))))
        self._num_waiting += predictions.size
        if self._num_waiting >= _CHUNK:
            self._count()

    def result(self) -> Metrics:
        """The metrics so far, with `task`; a value that is not defined is None. Rows that have no task, such as
        predictions [N, K] of a target that is no class, only have `num_examples`."""
        self._count()
        return {"num_examples": 0} if self._meter is None else self._meter.result()

    def _count(self) -> None:
        if not self._waiting:
            return
        targets, predictions, weights, *starts = map(np.concatenate, zip(*self._waiting, strict=True))
        self._waiting, self._num_waiting = [], 0
        if not (np.isfinite(weights).all() and (weights >= 0).all()):
            raise self._bad(f"weights must be 0 or more, got {weights[~(weights >= 0) | ~np.isfinite(weights)][0]}")
        if self._meter is None:
            is_matrix = predictions.ndim == 2
            self._meter = _Classes(self._how, predictions.shape[1]) if is_matrix else _Numbers(self._how, bool(starts))
        problem = self._meter.add(*(each.astype(np.float64) for each in (targets, predictions, weights, *starts)))
        if problem is not None and self._how.task is not None:
            raise self._bad(f"the task is {self._how.task!r}, {problem}")

    def _bad(self, problem: str) -> BadInput:
        return BadInput(f"{self._name}: {problem}")


class _Numbers:
    """Predictions [N]: binary, regression, or ranking within groups. Which of them is known at the end."""

    def __init__(self, how: Measuring, has_groups: bool) -> None:
        self._task = how.task
        self._ranking = Ranking(how.k or _NDCG_K) if has_groups and how.task in (None, "ranking") else None
        self._distribution = Distribution()
        self._num_examples = 0
        self._is_binary = self._is_probability = self._is_finite = True
        self._sums: dict[str, float] = dict.fromkeys(
            ("weight", "target", "prediction", "log_loss", "correct", "squares", "absolute", "error"), 0.0
        )
        self._target_mean = self._target_squares = 0.0  # squares: of deviations from the mean

    def add(self, y: Floats, p: Floats, w: Floats, starts: Floats | None = None) -> str | None:
        """Count rows. Returns what does not fit the task, if anything."""
        self._num_examples += len(y)
        self._is_binary &= bool(np.isin(y, (0.0, 1.0)).all())
        self._is_probability &= bool(((p >= 0) & (p <= 1)).all())
        self._is_finite &= bool(np.isfinite(p).all())
        with np.errstate(invalid="ignore", over="ignore"):  # of numbers that are not finite; what comes of them is None
            self._add_deviations(y, w)
            error = p - y
            sums = {"weight": w, "target": w * y, "prediction": w * p, "error": w * error}
            sums |= {"squares": w * error**2, "absolute": w * abs(error)}
            if self._is_binary and self._is_probability:
                sums |= {"log_loss": w * log_losses(y, p), "correct": w * ((p >= 0.5) == (y == 1))}
            for name, values in sums.items():
                self._sums[name] += float(values.sum())
        if self._is_binary and self._is_finite:
            self._distribution.add(y, p, w)
        if self._ranking is not None and starts is not None:
            self._ranking.add(y, p, w, starts)
        if self._task == "binary" and not self._is_binary:
            return f"but the target has {y[~np.isin(y, (0.0, 1.0))][0]}, not only 0 and 1"
        return None

    def _add_deviations(self, y: Floats, w: Floats) -> None:
        """Squares of deviations, joined chunk by chunk: the difference of two large sums would lose all digits."""
        before, weight = self._sums["weight"], float(w.sum())
        if weight == 0:
            return
        mean = float((w * y).sum()) / weight
        step = mean - self._target_mean
        self._target_squares += float((w * (y - mean) ** 2).sum()) + step**2 * before * weight / (before + weight)
        self._target_mean += step * weight / (before + weight)

    def result(self) -> Metrics:
        weight = self._sums["weight"]

        def mean(name: str) -> float | None:
            return _finite(self._sums[name] / weight) if weight > 0 else None

        task = self._task or ("ranking" if self._ranking else "binary" if self._is_binary else "regression")
        found: Metrics = {"task": task, "num_examples": self._num_examples}
        found |= {"mean_target": mean("target"), "mean_prediction": mean("prediction")}
        total = self._sums["target"]
        calibration = {"calibration": _finite(self._sums["prediction"] / total) if total > 0 else None}
        if task == "regression":
            rmse, spread = mean("squares"), self._target_squares
            found |= {"rmse": None if rmse is None else rmse**0.5, "mae": mean("absolute")}
            found |= {"r2": _finite(1 - self._sums["squares"] / spread) if spread > 0 else None, "bias": mean("error")}
            return found | calibration
        if self._is_binary:
            has_loss = self._is_probability and self._num_examples > 0
            found |= {"auc": self._distribution.auc() if self._is_finite else None}
            found |= {"log_loss": mean("log_loss") if has_loss else None, **calibration}
            found |= {"accuracy": mean("correct") if has_loss else None}
            found |= {"average_precision": self._distribution.average_precision() if self._is_finite else None}
        return found if self._ranking is None else found | self._ranking.result()


class _Classes:
    """Predictions [N, K]: one score, or one probability, per class."""

    def __init__(self, how: Measuring, num_classes: int) -> None:
        self._k = how.k or _ACCURACY_K
        self._num_classes = num_classes
        self._num_examples = 0
        self._is_class = self._is_probability = True
        self._weight = self._log_loss = self._correct = self._near = 0.0
        self._hits, self._predicted, self._actual = (np.zeros(num_classes) for _ in range(3))

    def add(self, y: Floats, p: Floats, w: Floats, starts: Floats | None = None) -> str | None:
        """Count rows. Returns what does not fit the task, if anything."""
        self._num_examples += len(y)
        is_class = (y >= 0) & (y < self._num_classes) & (y == np.floor(y))
        self._is_class &= bool(is_class.all())
        if not self._is_class:
            wrong = y[~is_class]
            return f"but the target has {wrong[0] if len(wrong) else 'other numbers'}, not 0 to {self._num_classes - 1}"
        truth, chosen = y.astype(np.int64), p.argmax(1)
        of_truth = p[np.arange(len(p)), truth]
        self._is_probability &= bool(((p >= 0) & (p <= 1)).all() and np.allclose(p.sum(1), 1, atol=1e-3))
        if self._is_probability:
            # Rounded to float32, they do not add up to 1 exactly.
            shares = np.clip(of_truth / p.sum(1), _SMALLEST, 1)
            self._log_loss -= float((w * np.log(shares)).sum())
        self._weight += float(w.sum())
        self._correct += float((w * (chosen == truth)).sum())
        self._near += float((w * ((p >= of_truth[:, None]).sum(1) <= self._k)).sum())
        self._hits += np.bincount(truth, w * (chosen == truth), self._num_classes)
        self._predicted += np.bincount(chosen, w, self._num_classes)
        self._actual += np.bincount(truth, w, self._num_classes)
        return None

    def result(self) -> Metrics:
        if not self._is_class:
            return {"num_examples": self._num_examples}
        found: Metrics = {"task": "multiclass", "num_examples": self._num_examples}
        weight, seen = self._weight, self._predicted + self._actual
        f1 = 2 * self._hits[seen > 0] / seen[seen > 0]
        found |= {"accuracy": self._correct / weight if weight > 0 else None}
        found |= {"log_loss": self._log_loss / weight if weight > 0 and self._is_probability else None}
        found |= {"macro_f1": float(f1.sum()) / len(f1) if len(f1) else None}
        if self._k < self._num_classes:
            found[f"accuracy@{self._k}"] = self._near / weight if weight > 0 else None
        return found


def log_losses(targets: Floats, predictions: Floats) -> Floats:
    """Of each row: the negative logarithm of the probability of the truth."""
    clipped = np.clip(predictions, _SMALLEST, 1 - _SMALLEST)
    return np.asarray(-np.where(targets == 1, np.log(clipped), np.log1p(-clipped)))


def _finite(number: float) -> float | None:
    return number if np.isfinite(number) else None
