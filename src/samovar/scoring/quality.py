"""How good predictions are: measured on arrays, and reported by hour or day for a result directory. Writes nothing."""

import io
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from samovar.config import format_csv
from samovar.results import ResultDirectory
from samovar.results.artifacts import METRICS_LOG, read_log

PREDICTION = "prediction"  # the column of an output without a name
COLUMNS = ("name", "shift", "time", "num_examples", "mean_target", "mean_prediction", "auc", "log_loss", "calibration")
"""Of a report."""
Row: TypeAlias = dict[str, Any]
Span: TypeAlias = Literal["hour", "day"]

_SMALLEST = 1e-15


def measure(targets: NDArray[Any], predictions: NDArray[Any]) -> dict[str, float | int | None]:
    """Measure predictions [N] against targets [N], in double precision.

    Returns:
        num_examples, mean_target, mean_prediction, auc, log_loss and calibration. A value that is not defined is None:
        AUC needs targets of 0 and 1, log-loss also predictions within [0, 1].

    Example:
        >>> measure(np.array([1, 0, 1]), np.array([0.75, 0.5, 0.25]))["auc"]
        0.5
    """
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
    """The probability that a positive has a higher prediction than a negative; a tie counts half. None if there is only
    one class."""
    positives = int(targets.sum())
    negatives = len(targets) - positives
    if positives == 0 or negatives == 0 or not np.isfinite(predictions).all():
        return None
    _, inverse, counts = np.unique(predictions, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks = (2 * last - counts + 1) / 2  # equal predictions share their mean rank
    # Not `@`: BLAS would wake its threads, which then spin on the cores that train.
    of_positives = float((np.bincount(inverse, targets, len(counts)) * ranks).sum())
    return (of_positives - positives * (positives + 1) / 2) / (positives * negatives)


def log_loss(targets: NDArray[np.float64], predictions: NDArray[np.float64]) -> float:
    clipped = np.clip(predictions, _SMALLEST, 1 - _SMALLEST)
    return float(-np.mean(np.where(targets == 1, np.log(clipped), np.log1p(-clipped))))


def _finite(number: float) -> float | None:
    return number if np.isfinite(number) else None


def evaluations(directory: ResultDirectory, span: Span) -> list[Row]:
    """One row per evaluation, output and hour; or per day with examples, measured on all predictions of that day."""
    lines = [line for line in read_log(directory.store, METRICS_LOG) if line["kind"] == "evaluation"]
    if span == "hour":
        return [_row(line, line.get("hour", "")) for line in lines]
    days: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for line in lines:
        if line["num_examples"] > 0:
            days[line["name"], line.get("output"), line.get("shift"), line.get("hour", "")[:10]].append(line)
    return [
        _row({**lines_of_day[0], **_measure_day(directory, lines_of_day)}, day)
        for (*_, day), lines_of_day in days.items()
    ]


def is_measured(rows: Sequence[Row]) -> bool:
    """Whether any row has more than the number of examples."""
    return any(row["mean_target"] is not None for row in rows)


def _row(line: dict[str, Any], time: str) -> Row:
    name = f"{line['name']} {line['output']}" if "output" in line else line["name"]
    return {**{column: line.get(column) for column in COLUMNS}, "name": name, "time": time}


def _measure_day(directory: ResultDirectory, lines: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The AUC of a day is not the mean of its hours: measure the predictions in the files."""
    targets, predictions = [], []
    for line in lines:
        path = _path_of(line)
        if "target" not in line or directory.store.size(path) is None:
            continue
        output = line.get("output", PREDICTION)
        part = pq.read_table(io.BytesIO(directory.store.read(path)), columns=[line["target"], output])
        targets.append(part[line["target"]].to_numpy())
        predictions.append(part[output].to_numpy())
    if not targets:
        return {"num_examples": sum(line["num_examples"] for line in lines)}
    return measure(np.concatenate(targets), np.concatenate(predictions))


def _path_of(line: dict[str, Any]) -> str:
    """The prediction file that a line of the metrics log is about."""
    folder = f"evaluation/{line['name']}"
    if "hour" not in line:
        return f"{folder}/predictions.parquet"
    hour = line["hour"].replace("-", "")[:11]
    return f"{folder}/{hour}.shift{line['shift']}.parquet" if "shift" in line else f"{folder}/{hour}.parquet"


def to_csv(rows: Sequence[Row]) -> str:
    return format_csv(COLUMNS, (map(_show, map(row.get, COLUMNS)) for row in rows))


def _show(value: Any) -> str:
    return "" if value is None else str(value)


def draw(rows: Sequence[Row], path: Path) -> None:
    """Plot AUC, log-loss and calibration over time, one line per evaluation and shift."""
    from matplotlib.figure import Figure  # takes seconds to import

    figure = Figure(figsize=(10, 9), layout="constrained")
    axes = figure.subplots(3, 1, sharex=True)
    series: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        series[f"{row['name']} +{row['shift']}h" if row["shift"] is not None else row["name"]].append(row)
    times = {time: place for place, time in enumerate(sorted({row["time"] for row in rows}))}
    for axis, quality in zip(axes, ("auc", "log_loss", "calibration"), strict=True):
        for name, of_series in series.items():
            known = [row for row in of_series if row[quality] is not None]
            axis.plot([times[row["time"]] for row in known], [row[quality] for row in known], ".-", label=name)
        axis.set_ylabel(quality.replace("_", "-"))
        axis.grid(alpha=0.3)
    step = max(1, len(times) // 10)
    axes[-1].set_xticks(list(times.values())[::step], list(times)[::step], rotation=30, ha="right")
    if series:
        axes[0].legend()
    figure.savefig(path, dpi=100)
