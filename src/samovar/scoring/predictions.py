"""Predictions as a Parquet file: keys, targets, prediction, and the hour of the model. Knows no loop.

prediction  float of an output [B], list of [B, K]; an output that is a dict gives a column each
model_hour  of an online model: the last hour that it was trained on
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray

from samovar.errors import BadInput
from samovar.results import OpenResult
from samovar.scoring.quality import PREDICTION, measure
from samovar.tables.export import arrow_type, parse_type, rows_of_column
from samovar.tables.record import MinibatchRecord, RecordValue
from samovar.tables.schema import ColumnSchema

MODEL_HOUR = "model_hour"
_ROWS_PER_GROUP = 1 << 16
_KEPT_BYTES = 1 << 20


@dataclass
class PredictionFile:
    """A part file in the making. It appears when the `with` block ends; without rows it never does."""

    result: OpenResult
    path: str
    columns: Mapping[str, ColumnSchema]
    """Of keys and targets."""
    model_hour: int | None = None
    num_examples: int = field(default=0, init=False)
    _stack: ExitStack = field(default_factory=ExitStack, init=False, repr=False)
    _writer: Any = field(default=None, init=False, repr=False)
    _sink: Any = field(default=None, init=False, repr=False)
    _pending: list[pa.RecordBatch] = field(default_factory=list, init=False, repr=False)
    _scored: dict[tuple[str, str], list[tuple[NDArray[Any], NDArray[Any]]]] = field(
        default_factory=dict, init=False, repr=False
    )
    """By output and target: wanted, predicted."""

    def add(self, record: MinibatchRecord, prediction: Any) -> None:
        """The examples of one minibatch, with what the model said of them."""
        outputs = _columns_of(prediction, record.num_examples)
        keys = {name: key_column(self.columns[name], value) for name, value in record.keys.items()}
        targets = {
            name: rows_of_column(self.columns[name], value, arrow_type(self.columns[name]))
            for name, value in record.targets.items()
            if name not in keys
        }
        self._refuse_repeated(outputs, [*keys, *targets])
        arrays = {**keys, **targets, **{name: _lists(array) for name, array in outputs.items()}}
        if self.model_hour is not None:
            hour = pa.scalar(self.model_hour, pa.timestamp("s", "UTC"))
            arrays[MODEL_HOUR] = pa.repeat(hour, record.num_examples)
        self._pending.append(pa.record_batch(list(arrays.values()), names=list(arrays)))
        self.num_examples += record.num_examples
        self._score(record, outputs)
        if sum(batch.num_rows for batch in self._pending) >= _ROWS_PER_GROUP:
            self._write()

    def _refuse_repeated(self, outputs: Mapping[str, Any], taken: Sequence[str]) -> None:
        if MODEL_HOUR in taken and self.model_hour is not None:
            raise BadInput(
                f"{self.path}: a key or target has the name {MODEL_HOUR!r}, which the model's own hour needs; expected "
                "another: rename it in the recipe"
            )
        for name in sorted(outputs.keys() & {*taken, MODEL_HOUR}):
            raise BadInput(
                f"{self.path}: the model's output {name!r} has the name of a key or target; expected another: "
                "rename it in `predict`"
            )

    def _score(self, record: MinibatchRecord, outputs: Mapping[str, NDArray[Any]]) -> None:
        """Keep what metrics need: outputs and targets that are a number an example, paired in their order where there
        are as many of both; else each output belongs to the first target."""
        numbers = [(name, array) for name, array in outputs.items() if array.ndim == 1]
        targets = [
            (name, value.reshape(-1).numpy())
            for name, value in record.targets.items()
            if isinstance(value, torch.Tensor) and value.numel() == record.num_examples
        ]
        if len(targets) != len(numbers):
            targets = targets[:1] * len(numbers)
        for (output, array), (target, wanted) in zip(numbers, targets, strict=False):  # there may be no target
            pair = wanted.copy(), array.copy()  # views would keep whole minibatches
            self._scored.setdefault((output, target), []).append(pair)

    def qualities(self) -> list[dict[str, Any]]:
        """How good it is: of each named output, of the only one, or only how many examples there are."""
        if not self._scored:
            return [{"num_examples": self.num_examples}]
        return [
            {
                **({} if output == PREDICTION else {"output": output}),
                "target": target,
                **measure(*map(np.concatenate, zip(*pairs, strict=True))),
            }
            for (output, target), pairs in self._scored.items()
        ]

    def _write(self) -> None:
        if not self._pending:
            return
        rows = pa.Table.from_batches(self._pending)
        if self._writer is None:
            self._sink = _Sink(self._stack.enter_context(self.result.create_in_background(self.path)))
            self._writer = pq.ParquetWriter(
                self._sink, rows.schema, compression="zstd", use_dictionary=_repeating(rows.schema)
            )
        self._writer.write_table(rows)
        self._pending = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._write()
            if self._writer is not None:
                self._writer.close()
                self._sink.pass_on()
        self._stack.__exit__(kind, error, trace)


def _repeating(schema: pa.Schema) -> list[str]:
    """Columns that are worth a dictionary. Of numbers that hardly repeat it doubles the time, and the file."""
    types = pa.types
    return [
        field.name
        for field in schema
        if field.name == MODEL_HOUR or types.is_string(field.type) or types.is_large_string(field.type)
    ]


class _Sink:
    """A store's writer as the file that Arrow writes to. Arrow gives a small file in dozens of pieces: they are put
    together, since each would be checksummed and written by itself."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer
        self._kept = bytearray()
        self._size = 0
        self.closed = False

    def write(self, data: Any) -> int:
        view = memoryview(data)
        self._kept += view
        self._size += view.nbytes
        if len(self._kept) >= _KEPT_BYTES:
            self.pass_on()
        return view.nbytes

    def tell(self) -> int:
        return self._size

    def pass_on(self) -> None:
        self._writer.write(bytes(self._kept))
        self._kept.clear()

    def flush(self) -> None: ...

    def close(self) -> None: ...

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False


def check_key(column: ColumnSchema) -> None:
    """A key is one plain value an example, or one integer id."""
    is_id = column.kind == "categorical" and column.rank == 1 and pa.types.is_integer(parse_type(column.source_type))
    if column.kind != "key" and not is_id:
        raise BadInput(
            f"key {column.name!r}: is a {column.kind} column of {column.source_type}; expected one plain value an "
            "example: name it in `keys` of the recipe and brew the table again, or choose another key"
        )


def key_column(column: ColumnSchema, value: RecordValue) -> pa.Array:
    """A key in the type that it was brewed from, null as null."""
    kind = parse_type(column.source_type)
    if isinstance(value, pa.Array):
        return value.cast(kind)
    ids = rows_of_column(column, value, pa.uint64())
    return ids.view(pa.int64()).cast(kind) if pa.types.is_signed_integer(kind) else ids.cast(kind)


def _columns_of(prediction: Any, num_examples: int) -> dict[str, NDArray[Any]]:
    named = prediction if isinstance(prediction, Mapping) else {PREDICTION: prediction}
    columns = {}
    for name, value in named.items():
        array = _as_numpy(value)
        if array.ndim not in (1, 2) or len(array) != num_examples:
            raise BadInput(
                f"predict: gave {name!r} of shape {list(array.shape)} for {num_examples} examples; expected "
                f"[{num_examples}] or [{num_examples}, K]: change `predict` in the script"
            )
        columns[str(name)] = array
    return columns


def _as_numpy(value: Any) -> NDArray[Any]:
    if not isinstance(value, torch.Tensor):
        return np.asarray(value)
    kept = value.detach().cpu()
    return (kept.float() if kept.dtype == torch.bfloat16 else kept).numpy()  # numpy has no such type


def _lists(array: NDArray[Any]) -> pa.Array:
    if array.ndim == 1:
        return pa.array(array)
    starts = np.arange(len(array) + 1, dtype=np.int32) * np.int32(array.shape[1])
    return pa.ListArray.from_arrays(pa.array(starts), pa.array(array.reshape(-1)))
