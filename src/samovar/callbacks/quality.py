"""How good predictions are: AUC, log-loss, calibration. Pure functions of arrays, in double precision."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

_SMALLEST = 1e-15


def measure(targets: NDArray[Any], predictions: NDArray[Any]) -> dict[str, float | int | None]:
    """Of predictions [N] for targets [N]; what cannot be said of them is None."""
    y, p = targets.astype(np.float64), predictions.astype(np.float64)
    is_binary = bool(np.isin(y, (0.0, 1.0)).all())
    is_probability = bool(((p >= 0) & (p <= 1)).all())
    total = float(y.sum())
    return {
        "num_examples": len(y),
        "mean_target": float(y.mean()) if len(y) else None,
        "mean_prediction": _finite(float(p.mean())) if len(y) else None,
        "auc": auc(y, p) if is_binary else None,
        "log_loss": log_loss(y, p) if is_binary and is_probability and len(y) else None,
        "calibration": _finite(float(p.sum()) / total) if total > 0 else None,
    }


def auc(targets: NDArray[np.float64], predictions: NDArray[np.float64]) -> float | None:
    """The chance that a positive has the higher prediction, a tie counting half; None without both classes."""
    positives = int(targets.sum())
    negatives = len(targets) - positives
    if positives == 0 or negatives == 0 or not np.isfinite(predictions).all():
        return None
    _, inverse, counts = np.unique(predictions, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks = (2 * last - counts + 1) / 2  # the mean rank of those that are equal
    # Not `@`: BLAS would wake its threads, which then spin on the cores of the training.
    of_positives = float((np.bincount(inverse, targets, len(counts)) * ranks).sum())
    return (of_positives - positives * (positives + 1) / 2) / (positives * negatives)


def log_loss(targets: NDArray[np.float64], predictions: NDArray[np.float64]) -> float:
    kept = np.clip(predictions, _SMALLEST, 1 - _SMALLEST)
    return float(-np.mean(np.where(targets == 1, np.log(kept), np.log1p(-kept))))


def _finite(number: float) -> float | None:
    return number if np.isfinite(number) else None
