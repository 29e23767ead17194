"""Bodies of requests and responses: JSON and Arrow streams to rows, predictions to both, errors to JSON. Knows no
network and no models.

    {"rows": [{"user": 17}, …], "shared": {…}}
 ─▶ {"predictions": {"prediction": […]}, "model_hour": …, "version": 1}
 ─▶ {"error": {"message": …, "row": 3, "column": "user"}}
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from samovar.config.records import read_json
from samovar.config.values import describe, suggest
from samovar.errors import BadInput, CorruptData

ARROW = "application/vnd.apache.arrow.stream"
JSON = "application/json"
PREDICTION = "prediction"
Predictions: TypeAlias = Mapping[str, NDArray[Any]]
"""By the name of the output; the name of a single one is `prediction`."""
_KEYS = ("rows", "shared")
_ROW = re.compile(r"\brow (\d+)\b")
_COLUMN = re.compile(r"\bcolumn '([^']+)'")


def read_rows(body: bytes, content_type: str) -> Any:
    """The rows of a request, as `Signature.read_rows` takes them.

    Raises:
        BadInput: The body is not what its type says.
    """
    return _read_arrow(body) if content_type.startswith(ARROW) else _read_json(body)


def _read_json(body: bytes) -> list[dict[str, Any]]:
    try:
        found = read_json(body, "the request", max_bytes=len(body))
    except CorruptData as error:
        raise BadInput(str(error)) from None
    if not isinstance(found, dict) or not isinstance(found.get("rows"), list):
        raise BadInput(f'the request must be {{"rows": [{{…}}, …]}}, got {describe(found)}')
    for key in found:
        if key not in _KEYS:
            raise BadInput(f"the request has no key {key!r}{suggest(key, _KEYS)}")
    shared, rows = found.get("shared", {}), found["rows"]
    if not isinstance(shared, dict):
        raise BadInput(f"shared must be an object, got {describe(shared)}")
    for number, row in enumerate(rows):
        if not isinstance(row, dict):
            raise BadInput(f"row {number}: must be an object, got {describe(row)}")
    return [{**shared, **row} for row in rows] if shared else rows


def _read_arrow(body: bytes) -> pa.Table:
    try:
        table = pa.ipc.open_stream(body).read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise BadInput(f"the request is not an Arrow stream: {error}") from None
    return table


def named(found: Any) -> dict[str, NDArray[Any]]:
    """Predictions of a model as arrays by name."""
    outputs = found if isinstance(found, Mapping) else {PREDICTION: found}
    return {name or PREDICTION: np.asarray(value) for name, value in outputs.items()}


def write_json(predictions: Predictions, facts: Mapping[str, Any]) -> bytes:
    """A response: each number as the shortest text that gives its bits again, null if it is not finite."""
    columns = {name: _finite(array) for name, array in predictions.items()}
    return json.dumps({"predictions": columns, **facts}, allow_nan=False, separators=(",", ":")).encode()


def _finite(array: NDArray[Any]) -> Any:
    values = array.tolist()
    if array.dtype.kind != "f" or bool(np.isfinite(array).all()):
        return values
    return _without_nan(values)


def _without_nan(values: Any) -> Any:
    if isinstance(values, list):
        return [_without_nan(each) for each in values]
    return values if math.isfinite(values) else None


def write_arrow(predictions: Predictions, facts: Mapping[str, Any]) -> bytes:
    """A response as an Arrow stream; the facts are in the metadata of its schema."""
    arrays = [pa.array(list(each) if each.ndim > 1 else each) for each in predictions.values()]
    metadata = {name: json.dumps(value) for name, value in facts.items()}
    schema = pa.schema([(name, array.type) for name, array in zip(predictions, arrays, strict=True)], metadata=metadata)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(pa.record_batch(arrays, schema=schema))
    return bytes(sink.getvalue())


def write_error(message: str) -> bytes:
    """What is wrong, with the row and the column that the message names."""
    row, column = _ROW.search(message), _COLUMN.search(message)
    error: dict[str, Any] = {"message": message}
    if row is not None:
        error["row"] = int(row[1])
    if column is not None:
        error["column"] = column[1]
    return json.dumps({"error": error}).encode()


def split(predictions: Predictions, counts: Sequence[int]) -> list[Predictions]:
    """The predictions of requests that were scored together."""
    ends = np.cumsum(counts)
    return [
        {name: array[end - count : end] for name, array in predictions.items()}
        for end, count in zip(ends.tolist(), counts, strict=True)
    ]
