"""Predictions as a Parquet file, one row per example. Knows no models and no loop.

<keys>       in the type that they were brewed from, null as null
<targets>
prediction   a float for an output [B], a list for [B, K]; a dict of outputs makes one column each
model_hour   of an online model: the last hour that it was trained on, UTC
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from samovar.errors import BadInput
from samovar.results import OpenResult
from samovar.results.checked import CheckedWriter
from samovar.scoring.measuring import Measuring
from samovar.scoring.outputs import MeasuredOutputs, key_column, output_columns
from samovar.tables.export import arrow_type, rows_of_column
from samovar.tables.record import MinibatchRecord
from samovar.tables.schema import ColumnSchema, parse_type

MODEL_HOUR = "model_hour"
_ROWS_PER_GROUP = 1 << 16
_BUFFER_BYTES = 1 << 20


@dataclass
class PredictionFile:
    """A file that is being written. It appears when the `with` block ends, unless it has no rows.

    Args:
        result: The open result directory.
        path: Where the file goes in it.
        columns: The schemas of keys and targets.
        model_hour: The last hour that the model was trained on, in seconds since 1970 UTC; None offline.
        how: Task, weights and own metrics.

    Example:
        >>> import torch
        >>> hit, click = ColumnSchema("hit", "key", 1, "int64"), ColumnSchema("click", "real", 1, "float")
        >>> record = MinibatchRecord({}, {"click": torch.tensor([1.0, 0.0])}, {"hit": pa.array([5, 6])}, num_examples=2)
        >>> with PredictionFile(result, "evaluation/test.parquet", {"hit": hit, "click": click}) as file:
        ...     file.add(record, prediction=torch.tensor([0.75, 0.5]))
        >>> file.qualities()[0]["auc"]
        1.0
    """

    result: OpenResult
    path: str
    columns: Mapping[str, ColumnSchema]
    model_hour: int | None = None
    how: Measuring = field(default_factory=Measuring)
    _stack: ExitStack = field(default_factory=ExitStack, init=False, repr=False)
    _writer: Any = field(default=None, init=False, repr=False)
    _sink: Any = field(default=None, init=False, repr=False)
    _pending: list[pa.RecordBatch] = field(default_factory=list, init=False, repr=False)
    _measured: MeasuredOutputs = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._measured = MeasuredOutputs(self.path, self.columns, self.how)

    def add(self, record: MinibatchRecord, prediction: Any) -> None:
        """Add the examples of one minibatch.

        Args:
            record: Its keys and targets.
            prediction: A tensor or array [B] or [B, K], or a dict of them.

        Raises:
            BadInput: The prediction has another shape or does not fit the task, or an output has the name of a key or
                target.
        """
        outputs = output_columns(prediction, record.num_examples)
        keys = {name: key_column(self.columns[name], value) for name, value in record.keys.items()}
        targets = {
            name: rows_of_column(self.columns[name], value, arrow_type(self.columns[name]))
            for name, value in record.targets.items()
            if name not in keys
        }
        self._check_names(outputs, [*keys, *targets])
        arrays = {**keys, **targets, **{name: _lists(array) for name, array in outputs.items()}}
        if self.model_hour is not None:
            # Without a zone: some readers need another package for times with one.
            hour = pa.scalar(self.model_hour * 1000, pa.timestamp("ms"))
            arrays[MODEL_HOUR] = pa.repeat(hour, record.num_examples)
        self._pending.append(pa.record_batch(list(arrays.values()), names=list(arrays)))
        self._measured.add(record, prediction)
        if sum(batch.num_rows for batch in self._pending) >= _ROWS_PER_GROUP:
            self._write()

    def _check_names(self, outputs: Mapping[str, Any], taken: Sequence[str]) -> None:
        if MODEL_HOUR in taken and self.model_hour is not None:
            raise BadInput(f"{self.path}: no key or target may be named {MODEL_HOUR!r}. Rename it in the recipe")
        for name in sorted(outputs.keys() & {*taken, MODEL_HOUR}):
            raise BadInput(
                f"{self.path}: the output {name!r} of `predict` has the name of another column. Rename the output"
            )

    def qualities(self) -> list[dict[str, Any]]:
        """How good the predictions are, one dict per output; without targets, only the number of examples."""
        return self._measured.lines()

    def _write(self) -> None:
        rows = self._take_rows()
        if self._writer is None:
            self._sink = _Sink(self._create())
            self._writer = pq.ParquetWriter(self._sink, rows.schema, **_options(rows))
        self._writer.write_table(rows)

    def _write_whole(self) -> None:
        """Write a file of one row group: most hours have no more."""
        rows, buffer = self._take_rows(), pa.BufferOutputStream()
        with pq.ParquetWriter(buffer, rows.schema, **_options(rows)) as writer:
            writer.write_table(rows)
        self._create().write(memoryview(buffer.getvalue()))

    def _take_rows(self) -> pa.Table:
        rows = pa.Table.from_batches(self._pending)
        self._pending = []
        return rows

    def _create(self) -> CheckedWriter:
        return self._stack.enter_context(self.result.create_in_background(self.path))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            if self._pending:
                self._write_whole() if self._writer is None else self._write()
            if self._writer is not None:
                self._writer.close()
                self._sink.write_buffer()
        self._stack.__exit__(kind, error, trace)


def _options(rows: pa.Table) -> dict[str, Any]:
    return {"compression": "zstd", "use_dictionary": _columns_that_repeat(rows.schema)}


def _columns_that_repeat(schema: pa.Schema) -> list[str]:
    """Columns that are worth a dictionary. For numbers that hardly repeat, a dictionary doubles time and size."""
    types = pa.types
    return [
        field.name
        for field in schema
        if field.name == MODEL_HOUR or types.is_string(field.type) or types.is_large_string(field.type)
    ]


class _Sink:
    """A store's writer as a file for Arrow. Arrow writes dozens of pieces; they are collected here, because each write
    is checksummed separately."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer
        self._buffer = bytearray()
        self._size = 0
        self.closed = False

    def write(self, data: Any) -> int:
        view = memoryview(data)
        self._buffer += view
        self._size += view.nbytes
        if len(self._buffer) >= _BUFFER_BYTES:
            self.write_buffer()
        return view.nbytes

    def tell(self) -> int:
        return self._size

    def write_buffer(self) -> None:
        self._writer.write(bytes(self._buffer))
        self._buffer.clear()

    def flush(self) -> None: ...

    def close(self) -> None: ...

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False


def check_key(column: ColumnSchema) -> None:
    """Check that a column has one value per example: a brewed key, or one integer id.

    Raises:
        BadInput: It has not.
    """
    is_id = column.kind == "categorical" and column.rank == 1 and pa.types.is_integer(parse_type(column.source_type))
    if column.kind != "key" and not is_id:
        raise BadInput(
            f"key {column.name!r} must have one value per example, got a {column.kind} column of {column.source_type}. "
            "List it in `keys` of the recipe and brew the table again, or choose another key"
        )


def _lists(array: NDArray[Any]) -> pa.Array:
    if array.ndim == 1:
        return pa.array(array)
    starts = np.arange(len(array) + 1, dtype=np.int32) * np.int32(array.shape[1])
    return pa.ListArray.from_arrays(pa.array(starts), pa.array(array.reshape(-1)))
