"""What the pages of evaluations, predictions, hash tables and tensor tables show, as plain values: read in a child
process, by the calls behind `metrics`, `embeddings` and `table`. Draws nothing.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from samovar.config import show_value
from samovar.errors import BadInput, NotAResult, SamovarError
from samovar.hours import show_hour
from samovar.results import ResultDirectory
from samovar.scoring.metric_names import metrics_of
from samovar.ui.answers import Answer, open_run

_COUNTERS = ("inserted", "reset", "freed", "skipped")
_IDS = ("new_ids.", "live_ids.")
_MOST_VALUES = 12
_MOST_BINS = 40
MOST_PREDICTION_BYTES = 128 << 20


def read_evaluation(path: str, by: str) -> Answer:
    """The metrics of the evaluations of a run, and how its predictions are calibrated."""
    from samovar.scoring import read_quality
    from samovar.scoring.reliability import read_reliability

    directory = open_run(path)
    quality = read_quality(path, "day" if by == "day" else "hour")
    reliability = read_reliability(directory, max_bytes=MOST_PREDICTION_BYTES)
    return {
        "name": path,
        "columns": list(quality.columns),
        "metrics": list(dict.fromkeys(name for row in quality.rows for name in metrics_of(row))),
        "rows": [dict(row) for row in quality.rows],
        "best": quality.best,
        "reliability": {name: list(map(asdict, bins)) for name, bins in reliability.bins.items()},
        "is_cut": reliability.is_cut,
        "predictions": [entry.path for entry in prediction_files(directory)],
    }


def prediction_files(directory: ResultDirectory) -> list[Any]:
    """The files of predictions of a run."""
    return [entry for entry in directory.store.list("evaluation") if entry.path.endswith(".parquet")]


def read_embeddings(path: str) -> Answer:
    """The hash tables of a model, and how many ids were new and live by URI."""
    from samovar.embeddings import stored_tables
    from samovar.runs.metrics import read_live_series

    directory = open_run(path)
    try:
        tables = [
            {
                "place": table.place,
                "name": table.name,
                "optimizer": table.optimizer,
                "dim": table.dim,
                "ttl": table.ttl,
                "ids": table.num_ids,
                "bytes": table.size_bytes,
                **{name: table.counters[name] for name in _COUNTERS},
                "ages": table.count_ages(),
            }
            for table in stored_tables(path)
        ]
        problem = None
    except NotAResult as error:  # no snapshot yet: the log may know more
        tables, problem = [], str(error)
    series = {
        name: {"steps": each.steps, "values": each.values}
        for name, each in read_live_series(directory).series.items()
        if name.startswith(_IDS)
    }
    if not tables and not series:
        raise BadInput(problem or f"{path} has no hash tables")
    return {"name": path, "tables": tables, "series": series, "problem": problem}


def read_table(path: str, minibatch: int | None) -> Answer:
    """The columns, hours and sizes of a tensor table, and one minibatch of it."""
    from samovar.tables import open_table

    open_run(path)
    table = open_table(path)
    sizes = table.column_bytes()
    return {
        "name": path,
        "id": table.id,
        "version": table.version,
        "versions": list(table.versions),
        "compression": table.compression,
        "minibatches": table.num_minibatches,
        "examples": table.num_examples,
        "uri": table.period.name,
        "plural": table.period.plural,
        "hours": [(show_hour(hour), len(found)) for hour, found in table.hours.items() if hour is not None],
        "complete_until": None if table.complete_until is None else show_hour(table.complete_until),
        "columns": [
            {
                "name": column.name,
                "kind": column.kind,
                "rank": column.rank,
                "source_type": column.source_type,
                "bytes": sizes[column.name],
            }
            for column in table.schema.columns
        ],
        "batch_sizes": dict(sorted(table.batch_sizes().items())),
        "minibatch": None if minibatch is None or not table.num_minibatches else _minibatch(table, minibatch),
    }


def _minibatch(table: Any, number: int) -> Answer:
    import torch

    from samovar.tables import Bag, plain_values

    record = next(table.read(start=number, stop=number + 1))
    columns = []
    for name, value in record.items():
        if isinstance(value, Bag):
            ids = [each % 2**64 for each in value.data[:_MOST_VALUES].tolist()]
            lengths = value.data_len.reshape(-1)
            columns.append({"name": name, "shape": f"data [{len(value.data)}]", "values": ids, "counts": None})
            columns.append(
                {
                    "name": f"{name}: ids per example",
                    "shape": str(list(value.data_len.shape)),
                    "values": lengths[:_MOST_VALUES].tolist(),
                    "counts": _histogram(lengths.tolist()),
                }
            )
        elif isinstance(value, torch.Tensor):
            flat = value.reshape(-1)
            columns.append(
                {
                    "name": name,
                    "shape": str(list(value.shape)),
                    "values": flat[:_MOST_VALUES].tolist(),
                    "counts": _histogram(flat.tolist()),
                }
            )
        else:
            values = list(map(str, plain_values(value[:_MOST_VALUES])))
            columns.append({"name": name, "shape": f"{value.type} [{len(value)}]", "values": values, "counts": None})
    hour = None if record.hour is None else show_hour(record.hour)
    return {"number": number, "hour": hour, "examples": record.num_examples, "columns": columns}


def _histogram(values: Sequence[float]) -> list[tuple[float, float, int]] | None:
    """How many finite values are in each span of equal width."""
    import numpy as np

    finite = np.asarray(values, np.float64)
    finite = finite[np.isfinite(finite)]
    if not len(finite):
        return None
    counts, edges = np.histogram(finite, bins=min(_MOST_BINS, max(1, len(np.unique(finite)))))
    return [(float(low), float(high), int(count)) for low, high, count in zip(edges, edges[1:], counts, strict=False)]


def read_predictions(path: str, file: str, request: dict[str, Any]) -> Answer:
    """Rows of the predictions of a run that meet a form: columns, one condition, order, limit."""
    from samovar.ui.queries import Form, query_form

    directory = open_run(path)
    files = [entry.path for entry in prediction_files(directory)]
    if not files:
        raise BadInput(f"{path} has no files of predictions")
    folder = file or files[0].rpartition("/")[0]
    found, is_cut = _load(directory, folder)
    answer = query_form(found, Form(**request))
    folders = list(dict.fromkeys(each.rpartition("/")[0] for each in files))
    return {**answer, "folder": folder, "folders": folders, "is_cut": is_cut}


def _load(directory: ResultDirectory, folder: str) -> tuple[Any, bool]:
    """The predictions of one evaluation as rows in memory; the newest files, if all of them are too large."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    entries = [entry for entry in prediction_files(directory) if entry.path.rpartition("/")[0] == folder]
    if not entries:
        raise BadInput(f"{directory.name} has no predictions in {folder}")
    parts: list[Any] = []
    total = 0
    for entry in reversed(entries):
        total += entry.size
        if parts and total > MOST_PREDICTION_BYTES:
            break
        try:
            parts.append(pq.read_table(pa.BufferReader(directory.store.read(entry.path)), use_threads=False))
        except pa.ArrowException as error:
            raise SamovarError(f"{directory.name}/{entry.path} cannot be read: {error}") from error
    return pa.concat_tables(reversed(parts), promote_options="default"), len(parts) < len(entries)


def run_sql(path: str, folder: str, text: str, runs: list[dict[str, Any]]) -> Answer:
    """One SELECT over the runs of the page and the predictions of one of them."""
    import pyarrow as pa

    from samovar.ui.queries import query_text

    names = list(dict.fromkeys(name for run in runs for name in run))
    columns = {name: pa.array([_plain(run.get(name)) for run in runs]) if runs else [] for name in names}
    tables = {"runs": pa.table(columns)} if names else {}
    if path:
        tables["predictions"] = _load(open_run(path), folder or _first_folder(path))[0]
    return query_text(tables, text)


def _first_folder(path: str) -> str:
    files = prediction_files(open_run(path))
    if not files:
        raise BadInput(f"{path} has no files of predictions")
    return str(files[0].path.rpartition("/")[0])


def _plain(value: Any) -> str | None:
    return None if value is None else show_value(value)
