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
import torch
from numpy.typing import NDArray

from samovar.errors import BadInput
from samovar.results import OpenResult
from samovar.scoring.measuring import Measurement, Measuring
from samovar.scoring.quality import PREDICTION
from samovar.tables.export import arrow_type, rows_of_column
from samovar.tables.record import MinibatchRecord, RecordValue
from samovar.tables.schema import GROUP_START, ColumnSchema, parse_type

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
    num_examples: int = field(default=0, init=False)
    _stack: ExitStack = field(default_factory=ExitStack, init=False, repr=False)
    _writer: Any = field(default=None, init=False, repr=False)
    _sink: Any = field(default=None, init=False, repr=False)
    _pending: list[pa.RecordBatch] = field(default_factory=list, init=False, repr=False)
    _measured: dict[tuple[str, str], Measurement] = field(default_factory=dict, init=False, repr=False)
    """By output and target."""
    _kept: list[tuple[Any, dict[str, Any], dict[str, Any]]] = field(default_factory=list, init=False, repr=False)
    """For own metrics: the outputs, targets and keys of each minibatch."""

    def add(self, record: MinibatchRecord, prediction: Any) -> None:
        """Add the examples of one minibatch.

        Args:
            record: Its keys and targets.
            prediction: A tensor or array [B] or [B, K], or a dict of them.

        Raises:
            BadInput: The prediction has another shape or does not fit the task, or an output has the name of a key or
                target.
        """
        outputs = _columns_of(prediction, record.num_examples)
        keys = {name: _key_column(self.columns[name], value) for name, value in record.keys.items()}
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
        self.num_examples += record.num_examples
        self._measure(record, outputs)
        if self.how.own:
            self._keep(record, prediction)
        if sum(batch.num_rows for batch in self._pending) >= _ROWS_PER_GROUP:
            self._write()

    def _check_names(self, outputs: Mapping[str, Any], taken: Sequence[str]) -> None:
        if MODEL_HOUR in taken and self.model_hour is not None:
            raise BadInput(f"{self.path}: no key or target may be named {MODEL_HOUR!r}. Rename it in the recipe")
        for name in sorted(outputs.keys() & {*taken, MODEL_HOUR}):
            raise BadInput(
                f"{self.path}: the output {name!r} of `predict` has the name of another column. Rename the output"
            )

    def _measure(self, record: MinibatchRecord, outputs: Mapping[str, NDArray[Any]]) -> None:
        """Measure outputs by the targets that are one number per example. They are paired in order if there are equally
        many; otherwise every output belongs to the first target. Outputs [B, K] are measured if there is no other."""
        numbers = [(name, array) for name, array in outputs.items() if array.ndim == 1] or list(outputs.items())
        columns = {
            name: value.reshape(-1).numpy()
            for name, value in record.targets.items()
            if isinstance(value, torch.Tensor) and value.numel() == record.num_examples
        }
        starts = columns.pop(GROUP_START, None)
        weights = self._weights(record)
        targets = [(name, values) for name, values in columns.items() if name != self.how.weights]
        if len(targets) != len(numbers):
            targets = targets[:1] * len(numbers)
        for (output, array), (target, truth) in zip(numbers, targets, strict=False):  # there may be no target
            if (output, target) not in self._measured:
                self._measured[output, target] = Measurement(self.how, self.path)
            # A view would keep the whole minibatch in memory.
            rows = [None if each is None else each.copy() for each in (weights, starts)]
            self._measured[output, target].add(truth.copy(), array.copy(), *rows)

    def _weights(self, record: MinibatchRecord) -> NDArray[Any] | None:
        name = self.how.weights
        if name is None:
            return None
        found = record.targets.get(name, record.keys.get(name))
        if isinstance(found, pa.Array):
            found = torch.from_numpy(found.to_numpy(zero_copy_only=False))
        if not isinstance(found, torch.Tensor) or found.numel() != record.num_examples:
            raise BadInput(f"{self.path}: weights {name!r} must be one number per example")
        return np.asarray(found.reshape(-1).numpy())

    def _keep(self, record: MinibatchRecord, prediction: Any) -> None:
        outputs = {name: array.copy() for name, array in _columns_of(prediction, record.num_examples).items()}
        targets = {name: value.clone() for name, value in record.targets.items() if isinstance(value, torch.Tensor)}
        keys = {name: _key_column(self.columns[name], value) for name, value in record.keys.items()}
        self._kept.append(
            (
                outputs if isinstance(prediction, Mapping) else outputs[PREDICTION],
                {name: value.numpy() for name, value in targets.items()},
                {name: np.asarray(value.to_numpy(zero_copy_only=False)) for name, value in keys.items()},
            )
        )

    def qualities(self) -> list[dict[str, Any]]:
        """How good the predictions are, one dict per output; without targets, only the number of examples."""
        found = [
            {
                **({} if output == PREDICTION else {"output": output}),
                "target": target,
                **({} if self.how.weights is None else {"weights": self.how.weights}),
                **({} if self.how.k is None else {"k": self.how.k}),
                **measurement.result(),
            }
            for (output, target), measurement in self._measured.items()
        ]
        found = [each for each in found if "task" in each] or [{"num_examples": self.num_examples}]
        return [{**found[0], **self._own_metrics()}, *found[1:]]

    def _own_metrics(self) -> dict[str, float | None]:
        if not self._kept:
            return dict.fromkeys(self.how.own)
        rows = [_join(column) for column in zip(*self._kept, strict=True)]
        return {name: _as_metric(name, function(*rows)) for name, function in self.how.own.items()}

    def _write(self) -> None:
        if not self._pending:
            return
        rows = pa.Table.from_batches(self._pending)
        if self._writer is None:
            self._sink = _Sink(self._stack.enter_context(self.result.create_in_background(self.path)))
            self._writer = pq.ParquetWriter(
                self._sink, rows.schema, compression="zstd", use_dictionary=_columns_that_repeat(rows.schema)
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
                self._sink.write_buffer()
        self._stack.__exit__(kind, error, trace)


def _join(parts: Sequence[Any]) -> Any:
    """Arrays, or dicts of arrays, of all minibatches as one."""
    if not isinstance(parts[0], dict):
        return np.concatenate(parts)
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _as_metric(name: str, value: Any) -> float | None:
    try:
        number = None if value is None else float(value)
    except (TypeError, ValueError):
        raise BadInput(f"the metric {name!r} of the script must return a number, got {type(value).__name__}") from None
    return number if number is not None and np.isfinite(number) else None


def _columns_that_repeat(schema: pa.Schema) -> list[str]:
    """Columns that are worth a dictionary. For numbers that hardly repeat, a dictionary doubles time and size."""
    types = pa.types
    return [
        field.name
        for field in schema
        if field.name == MODEL_HOUR or types.is_string(field.type) or types.is_large_string(field.type)
    ]


class _Sink:
    """A store's writer as a file for Arrow. Arrow writes a small file in dozens of pieces; they are collected here,
    because each write is checksummed separately."""

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


def _key_column(column: ColumnSchema, value: RecordValue) -> pa.Array:
    """A key in the type that it was brewed from."""
    kind = parse_type(column.source_type)
    if isinstance(value, pa.Array):
        return value.cast(kind)
    ids = rows_of_column(column, value, pa.uint64())
    return ids.view(pa.int64()).cast(kind) if pa.types.is_signed_integer(kind) else ids.cast(kind)


def _columns_of(prediction: Any, num_examples: int) -> dict[str, NDArray[Any]]:
    named = prediction if isinstance(prediction, Mapping) else {PREDICTION: prediction}
    columns = {}
    for name, value in named.items():
        array = as_numpy(value)
        if array.ndim not in (1, 2) or len(array) != num_examples:
            raise BadInput(
                f"predict: {name!r} must have the shape [{num_examples}] or [{num_examples}, K], got "
                f"{list(array.shape)}"
            )
        columns[str(name)] = array
    return columns


def as_numpy(value: Any) -> NDArray[Any]:
    """An output of a model as an array."""
    if not isinstance(value, torch.Tensor):
        return np.asarray(value)
    tensor = value.detach().cpu()
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()  # numpy has no bfloat16


def _lists(array: NDArray[Any]) -> pa.Array:
    if array.ndim == 1:
        return pa.array(array)
    starts = np.arange(len(array) + 1, dtype=np.int32) * np.int32(array.shape[1])
    return pa.ListArray.from_arrays(pa.array(starts), pa.array(array.reshape(-1)))
