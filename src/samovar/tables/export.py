"""A tensor table turned back into ordinary rows, one per example, for any SQL tool. Knows how rows became cells.

What brewing drops cannot come back: strings stay hashes, nulls in lists are gone, padded sequences stay padded.
"""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import torch

from samovar.errors import AlreadyExists, BadInput
from samovar.store.disk import publish
from samovar.tables.record import Bag, Record, RecordValue
from samovar.tables.schema import HOUR, ColumnSchema, TableSchema, parse_type
from samovar.tables.table import Table

_WRITERS: dict[str, Callable[[Path, pa.Schema], Any]] = {
    ".parquet": partial(pq.ParquetWriter, compression="zstd"),
    ".csv": csv.CSVWriter,
    ".arrow": pa.ipc.new_file,
}


def export_rows(table: Table, path: Path | str) -> int:
    """Write all examples of a table as ordinary rows.

    Args:
        table: An opened tensor table.
        path: A new file that ends with .parquet, .csv or .arrow, which names the format.

    Returns:
        How many rows were written.

    Raises:
        BadInput: The suffix names no format.
        AlreadyExists: The file exists.

    Example:
        >>> export_rows(samovar.open_table("clicks"), "rows.parquet")
        200
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in _WRITERS:
        raise BadInput(f"{path}: the name must end with .parquet, .csv or .arrow, which names the format")
    if path.exists():
        raise AlreadyExists(f"{path} already exists, and export never overwrites. Choose another name")
    schema = _arrow_schema(table.schema)
    written = _without_lists(schema) if suffix == ".csv" else schema
    with publish(path, replace=False, verb="export to") as file, _WRITERS[suffix](file.path, written) as writer:
        for record in table.read():
            writer.write_batch(_lists_as_texts(_rows_of(table.schema, record, schema), written))
    return table.num_examples


def _without_lists(schema: pa.Schema) -> pa.Schema:
    """CSV has no lists: they are written as JSON."""
    return pa.schema([(field.name, pa.string() if pa.types.is_list(field.type) else field.type) for field in schema])


def _lists_as_texts(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    if rows.schema == schema:
        return rows
    arrays = [
        pa.array([None if each is None else json.dumps(each) for each in array.to_pylist()], pa.string())
        if pa.types.is_list(array.type)
        else array
        for array in rows.columns
    ]
    return pa.record_batch(arrays, schema=schema)


def _rows_of(columns: TableSchema, record: Record, schema: pa.Schema) -> pa.RecordBatch:
    """The examples of one minibatch."""
    hour = None if record.hour is None else record.hour * 1_000_000
    arrays = [pa.array([hour] * record.num_examples, schema.field(HOUR).type)]
    for column in columns.columns:
        arrays.append(rows_of_column(column, record[column.name], schema.field(column.name).type))
    return pa.record_batch(arrays, schema=schema)


def _arrow_schema(columns: TableSchema) -> pa.Schema:
    fields = [pa.field(HOUR, pa.timestamp("us", "UTC"))]
    return pa.schema([*fields, *(pa.field(column.name, arrow_type(column)) for column in columns.columns)])


def arrow_type(column: ColumnSchema) -> pa.DataType:
    """The Arrow type of an example's value as an ordinary column."""
    if column.kind == "key":
        return parse_type(column.source_type)
    item = pa.float32() if column.kind == "real" else pa.uint64()
    for _ in range(_depth(column)):
        item = pa.list_(item)
    return item


def _depth(column: ColumnSchema) -> int:
    """Levels of lists in one example."""
    if column.kind == "real":
        return column.rank - 1
    lists = column.source_type.count("list<")
    is_text = column.source_type.endswith("string")
    depth = max(lists, 1) if is_text else lists
    return min(max(depth, column.rank - 1), column.rank, 2)  # the type of a stranger's column may not fit its rank


def rows_of_column(column: ColumnSchema, value: RecordValue, kind: pa.DataType) -> pa.Array:
    """One value per example."""
    if isinstance(value, torch.Tensor):
        return _lists(value.reshape(-1).numpy(), list(value.shape), kind)
    if isinstance(value, Bag):
        return _rows_of_bag(value, _depth(column), kind)
    return value.cast(kind)


def _lists(items: np.ndarray, shape: list[int], kind: pa.DataType) -> pa.Array:
    """Rectangular nested lists."""
    array = pa.array(items)
    for size, count in zip(shape[:0:-1], _counts(shape), strict=True):
        array = pa.ListArray.from_arrays(pa.array(np.arange(count + 1, dtype=np.int32) * np.int32(size)), array)
    return array.cast(kind)


def _counts(shape: list[int]) -> list[int]:
    """The number of lists at each level, innermost first."""
    return [int(np.prod(shape[:level], dtype=np.int64)) for level in range(len(shape) - 1, 0, -1)]


def _rows_of_bag(bag: Bag, depth: int, kind: pa.DataType) -> pa.Array:
    ids = pa.array(bag.data.numpy().view(np.uint64))
    lengths = bag.data_len.numpy()
    if depth == 0:
        return _single(ids, lengths)
    kept = lengths.reshape(*lengths.shape[:depth], -1).sum(axis=depth)
    array = pa.ListArray.from_arrays(pa.array(_offsets(kept.reshape(-1))), ids)
    if depth == 2:
        starts = np.arange(len(kept) + 1, dtype=np.int32) * np.int32(kept.shape[1])
        array = pa.ListArray.from_arrays(pa.array(starts), array)
    return array.cast(kind)


def _single(ids: pa.Array, lengths: np.ndarray) -> pa.Array:
    """One id per example, null where there is none."""
    places = np.where(lengths > 0, np.cumsum(lengths) - lengths, 0)
    return ids.take(pa.array(places, mask=lengths == 0)) if len(ids) else pa.nulls(len(lengths), pa.uint64())


def _offsets(lengths: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
