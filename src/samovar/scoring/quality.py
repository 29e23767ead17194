"""How good predictions are: measured on arrays, and reported by hour, day or epoch for a result directory. Writes
nothing.
"""

import io
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from samovar.config import format_csv
from samovar.config.places import PathLike
from samovar.config.records import Count, as_corrupt, check_record
from samovar.errors import NotAResult
from samovar.results import ResultDirectory, open_directory
from samovar.results.artifacts import METRICS_LOG, read_log, read_log_end
from samovar.scoring.measuring import Measurement, Measuring, Task
from samovar.scoring.metric_names import COUNTS, FACTS, MEANS, lag_of, metrics_of
from samovar.store.reports import save_figure
from samovar.tables.schema import GROUP_START

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

PREDICTION = "prediction"  # the column of an output without a name
Row: TypeAlias = dict[str, Any]
Span: TypeAlias = Literal["hour", "day"]

_HEAD = ("name", "shift", "time", "num_examples", "mean_target", "mean_prediction")
_BINARY = ("auc", "log_loss", "calibration")


def measure(
    targets: NDArray[Any],
    predictions: NDArray[Any],
    *,
    weights: NDArray[Any] | None = None,
    starts: NDArray[Any] | None = None,
    task: Task | None = None,
    k: int | None = None,
) -> Row:
    """Measure predictions against targets [N], in double precision.

    Args:
        targets: The true values: 0 and 1, numbers, grades, or numbers of classes.
        predictions: What a model predicted, in the same order: [N], or [N, K] with one column per class.
        weights: [N], 0 or more. None: all rows count the same.
        starts: [N], 1 at the first row of each group, 0 at the others: measures the order within groups.
        task: "binary", "multiclass", "regression" or "ranking". None: inferred from targets and predictions.
        k: Of `ndcg@k` and `accuracy@k`. None: 10 and 5.

    Returns:
        The task, the number of examples, and the metrics of the task. A value that is not defined is None: AUC needs
        both classes, log-loss probabilities.

    Raises:
        BadInput: The rows do not fit the task.

    Example:
        >>> measure(np.array([1, 0, 1]), np.array([0.75, 0.5, 0.25]))["auc"]
        0.5
    """
    measurement = Measurement(Measuring(task=task, k=k), "measure")
    measurement.add(targets, predictions, weights, starts)
    return measurement.result()


def evaluations(directory: ResultDirectory, span: Span) -> list[Row]:
    """One row per evaluation, output and hour with examples; or per such day, measured on all of its predictions."""
    lines = read_evaluation_lines(directory)
    if span == "hour" or not any("hour" in line for line in lines):
        return [_row(line, line.get("hour", line.get("trained", ""))) for line in lines]
    days: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for line in lines:
        days[line["name"], line.get("output"), line.get("shift"), line.get("hour", "")[:10]].append(line)
    return [_row(_measure_day(directory, lines_of_day), day) for (*_, day), lines_of_day in days.items()]


def read_evaluation_lines(directory: ResultDirectory) -> list[dict[str, Any]]:
    """The lines of the metrics log about evaluations that had examples."""
    where = f"{directory.name}/logs/{METRICS_LOG}: a line of an evaluation"
    lines = [line for line in read_log(directory.store, METRICS_LOG) if line.get("kind") == "evaluation"]
    for line in lines:
        check_record(EvaluationLine, line, where)
    return [line for line in lines if line["num_examples"] > 0]  # the hours after the table have none


@dataclass(frozen=True)
class EvaluationLine:
    """What is read of such a line, beside its numbers."""

    name: str
    num_examples: Count
    hour: str = ""
    output: str | None = None
    target: str = ""
    shift: int | None = None
    lag: str | None = None
    trained: str = ""
    task: str | None = None
    weights: str | None = None
    k: int | None = None


def _row(line: dict[str, Any], time: str) -> Row:
    name = f"{line['name']} {line['output']}" if "output" in line else line["name"]
    metrics = metrics_of(line) or dict.fromkeys(_BINARY)
    lag = {"lag": line["lag"]} if "lag" in line else {}
    return {**{column: line.get(column) for column in _HEAD}, "name": name, "time": time, **lag, **metrics}


def _measure_day(directory: ResultDirectory, lines: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The AUC of a day is not the mean of its hours: measure the predictions in the files. Own metrics of the script
    are functions of an hour, and a day has none."""
    facts = {key: value for key, value in lines[0].items() if key in FACTS and key not in (*COUNTS, *MEANS)}
    measurement = Measurement(Measuring(lines[0].get("task"), k=lines[0].get("k")), f"{directory.name} {facts['name']}")
    is_empty = True
    for line in lines:
        path = next((each for each in paths_of(line) if directory.store.size(each) is not None), None)
        if "target" not in line or path is None:
            continue
        # In this thread only: Arrow's own threads may still hold the bytes when Python ends, which aborts the process.
        with as_corrupt(f"{directory.name}/{path}"):
            file = pq.ParquetFile(pa.BufferReader(directory.store.read(path)))
            target, output, weights = line["target"], line.get("output", PREDICTION), line.get("weights")
            starts = GROUP_START if line.get("task") == "ranking" else None
            wanted = [name for name in (target, output, weights, starts) if name is not None]
            part = {name: as_array(column) for name, column in columns_of(file, wanted).items()}
            measurement.add(part[target], part[output], part.get(weights or ""), part.get(starts or ""))
            is_empty = False
    if is_empty:
        return {**facts, "num_examples": sum(line["num_examples"] for line in lines)}
    with as_corrupt(f"{directory.name}/evaluation/{facts['name']}"):
        return {**facts, **measurement.result()}


def columns_of(file: pq.ParquetFile, names: Sequence[str]) -> dict[str, pa.ChunkedArray]:
    part = file.read(list(names), use_threads=False)
    return {name: part[name] for name in names}


def as_array(column: pa.ChunkedArray) -> NDArray[Any]:
    """A column of numbers, [N], or of lists of one length, [N, K]."""
    if not pa.types.is_list(column.type):
        return np.asarray(column.to_numpy(), np.float64)
    return np.asarray(column.combine_chunks().flatten().to_numpy(), np.float64).reshape(len(column), -1)


def paths_of(line: dict[str, Any]) -> list[str]:
    """Where the prediction file that a line of the metrics log is about may be: with minutes, if the periods of the
    table are no whole hours."""
    folder = f"evaluation/{line['name']}"
    if "hour" not in line:
        return [f"{folder}/predictions.parquet"]
    time = line["hour"].replace("-", "").replace(":", "")
    shift = f".shift{line['shift']}" if "shift" in line else ""
    return [f"{folder}/{hour}{shift}.parquet" for hour in (time, time[:11])]


@dataclass(frozen=True)
class Quality:
    """How good the evaluations of a result are: what `read_quality` returns.

    Attributes:
        rows: One mapping per evaluation and hour, day or epoch, with name, shift, time, num_examples, mean_target,
            mean_prediction, and the metrics of its task. A value that is not defined is None.
        best: Of an offline run with several evaluations, when it has ended: uri, epoch, trained, metric and value of
            the best.

    Example:
        >>> len(read_quality("models/click_1").rows)
        1
    """

    rows: Sequence[Row]
    best: Row | None = None

    @property
    def columns(self) -> Sequence[str]:
        """The keys of the rows, all of them."""
        return tuple(dict.fromkeys([*_HEAD, *(key for row in self.rows for key in row)]))

    @property
    def is_measured(self) -> bool:
        """Whether any row has more than the number of examples."""
        return any(value is not None for row in self.rows for value in metrics_of(row).values())

    def to_csv(self) -> str:
        """One line per row."""
        return format_csv(self.columns, (map(_show, map(row.get, self.columns)) for row in self.rows))

    def to_frame(self) -> "pandas.DataFrame":
        """One row per evaluation and hour, day or epoch."""
        import pandas  # takes half a second to import

        columns = list(self.columns) if self.rows else [*_HEAD, *_BINARY]
        return pandas.DataFrame([[row.get(column) for column in columns] for row in self.rows], columns=columns)

    def figure(self, losses: Sequence[tuple[str, float | None]] = ()) -> "Figure":
        """Plot every metric over time, one line per evaluation and shift.

        Args:
            losses: Names of URIs and their training losses, drawn above.
        """
        return _make_figure(self.rows, losses)

    def save(self, path: Path | str) -> None:
        """Draw the metrics into a file.

        Args:
            path: PNG, SVG or PDF by its suffix.

        Raises:
            BadInput: The file cannot be written.
        """
        save_figure(self.figure(), path)


def read_quality(path: PathLike, by: Span = "hour") -> Quality:
    """Read how good the evaluations of a model, or the predictions in a directory, are.

    Args:
        path: A model directory, finished or not, or a directory of predictions.
        by: One row per "hour" or per "day". Offline there is one row per evaluation.

    Returns:
        The rows, as mappings, a frame, CSV or a figure.

    Raises:
        NotAResult: There is no result at the path, or it has no evaluations.

    Example:
        >>> read_quality("models/click_1").to_frame()["auc"].tolist()
        [0.75]
    """
    directory = open_directory(path)
    rows = evaluations(directory, by)
    if rows:
        return Quality(rows, read_best(directory))
    if "evaluation" in directory.config:
        raise NotAResult(f"{path}: no evaluation has results yet; they appear with the next snapshot")
    if directory.kind in ("table", "stage"):
        raise directory.is_not("model", "prediction")
    raise NotAResult(f"{path} has no evaluations: its config has no section 'evaluation'")


def read_best(directory: ResultDirectory) -> Row | None:
    """The best evaluation of a run that has ended; None if there are not several."""
    lines = [line for line in read_log_end(directory.store, METRICS_LOG) if line.get("kind") == "best"]
    if not lines:
        return None
    check_record(_BestLine, lines[-1], f"{directory.name}/logs/{METRICS_LOG}: the line of the best evaluation")
    return {key: value for key, value in lines[-1].items() if key != "kind"}


@dataclass(frozen=True)
class _BestLine:
    uri: Count
    epoch: Count
    trained: str
    metric: str
    value: float


def _show(value: Any) -> str:
    return "" if value is None else str(value)


def _make_figure(rows: Sequence[Row], losses: Sequence[tuple[str, float | None]]) -> "Figure":
    from matplotlib.figure import Figure  # takes seconds to import

    class Shown(Figure):
        def _repr_png_(self) -> bytes:
            """For notebooks, which show figures of pyplot only."""
            picture = io.BytesIO()
            self.savefig(picture, format="png", dpi=80)
            return picture.getvalue()

    series: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        series[row["name"] if row["shift"] is None else f"{row['name']} +{lag_of(row)}"].append(row)
    values = [item for row in rows for item in metrics_of(row).items()]
    qualities = list(dict.fromkeys(quality for quality, value in values if value is not None))
    names = [*(["loss"] if losses else []), *(qualities or ([] if losses else _BINARY))]
    figure = Shown(figsize=(10, 3 * len(names)), layout="constrained")
    for axis, quality in zip(figure.subplots(len(names), 1, squeeze=False)[:, 0], names, strict=True):
        if quality == "loss":
            lines = {"training": [(name, value) for name, value in losses if value is not None]}
        else:
            lines = {
                name: [(row["time"], row[quality]) for row in of_series if row.get(quality) is not None]
                for name, of_series in series.items()
            }
        _draw_axis(axis, quality, lines)
    return figure


def _draw_axis(axis: Any, quality: str, lines: Mapping[str, Sequence[tuple[str, float]]]) -> None:
    times = list(dict.fromkeys(time for points in lines.values() for time, _ in points))
    # Hours are sorted, because shifts reach different ones first; names of URIs come in their order.
    is_hours = quality != "loss" and not any(time.startswith("epoch") for time in times)
    places = {time: place for place, time in enumerate(sorted(times) if is_hours else times)}
    for name, points in lines.items():
        axis.plot([places[time] for time, _ in points], [value for _, value in points], ".-", label=name)
    step = max(1, len(places) // 10)
    axis.set_xticks(list(places.values())[::step], list(places)[::step], rotation=15, ha="right")
    axis.set_ylabel(quality.replace("_", "-"))
    axis.grid(alpha=0.3)
    if lines:
        axis.legend()
