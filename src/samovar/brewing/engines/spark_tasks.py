"""What runs inside Spark's executors: reading the files of queries, and making parts from sorted rows. Knows no
session, and needs no pyspark.

ids of files ─▶ rows with their part, packed ─▶ Spark: shuffle by part, sort ─▶ unpacked ─▶ make_part ─▶ its result
"""

import base64
import json
import pickle
import re
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from samovar import errors
from samovar.brewing.engines.base import FileFunction, PartFunction, Query
from samovar.brewing.engines.spark_columns import pack, packed_type, unpack
from samovar.brewing.order import DATE, GRANULAR, SHUFFLE, Order
from samovar.brewing.parts import Part, find_part_numbers
from samovar.brewing.sources import FILE, ROW
from samovar.errors import SamovarError

PART = "part"
RESULT_SCHEMA = pa.schema([("number", pa.int32()), ("outcome", pa.binary())])
_MARK = "samovar-error:"
_ADDED = {DATE: pa.int64(), GRANULAR: pa.int64(), SHUFFLE: pa.uint64(), FILE: pa.int32(), ROW: pa.int64()}


@dataclass(frozen=True)
class Column:
    """A column of a query, on its way through Spark."""

    name: str
    alias: str
    kind: pa.DataType


def columns_of(query: Query, table: int) -> list[Column]:
    """What travels of the rows of a table. Spark knows columns by aliases: to it, `id` and `ID` may be one column."""
    names = [*query.columns, *query.added_columns]
    return [
        Column(
            name, f"t{table}c{number}", query.schema.field(name).type if name in query.schema.names else _ADDED[name]
        )
        for number, name in enumerate(names)
    ]


def packed_schema(queries: Sequence[Query]) -> pa.Schema:
    """The columns of all tables side by side. A row has values in those of its own table only."""
    fields = [pa.field(PART, pa.int32())]
    for table, query in enumerate(queries):
        for column in columns_of(query, table):
            where = f"{query.source.name}: column {column.name!r}"
            fields.append(pa.field(column.alias, packed_type(column.kind, where)))
    return pa.schema(fields)


@dataclass(frozen=True)
class CallForFiles:
    """Calls a function for files, given their numbers."""

    function: FileFunction[Any]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in _numbers(batches):
            yield _result(number, self.function(number, lambda num_bytes: None))


@dataclass(frozen=True)
class ReadRows:
    """Reads files, given their numbers in `files`."""

    queries: Sequence[Query]
    files: Sequence[tuple[int, int]]
    """The number of the table, and of the file in its source."""
    parts: Sequence[Part]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        schema = packed_schema(self.queries)
        for number in _numbers(batches):
            table, file = self.files[number]
            query = self.queries[table]
            columns = columns_of(query, table)
            for batch in query.read(query.read_columns, [file]):
                rows = query.in_range(query.with_keys(batch))
                if rows.num_rows > 0:
                    packed = {column.alias: pack(rows.column(column.name)) for column in columns}
                    packed[PART] = self._part_numbers(rows, query.order)
                    yield pa.RecordBatch.from_arrays([_column(packed, f, rows.num_rows) for f in schema], schema=schema)

    def _part_numbers(self, rows: pa.RecordBatch, order: Order) -> pa.Array:
        if order.unit_column is None:
            return pa.repeat(pa.scalar(0, pa.int32()), rows.num_rows)
        return pa.array(find_part_numbers(self.parts, order.units(rows.column(order.unit_column))))


def _column(packed: dict[str, pa.Array], field: pa.Field, num_rows: int) -> pa.Array:
    return packed[field.name] if field.name in packed else pa.nulls(num_rows, field.type)


@dataclass(frozen=True)
class MakePart:
    """Makes one part, given its sorted rows. An error is returned like a result: Spark would try again, and nobody
    would know whether another part has an earlier one."""

    queries: Sequence[Query]
    parts: Sequence[Part]
    make_part: PartFunction[Any]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        first = next(batches, None)
        if first is None:
            return
        part = self.parts[first.column(0)[0].as_py()]
        demux = _Demux(self.queries, first, batches)
        streams = [demux.rows(table) for table in range(len(self.queries))]
        try:
            yield _result(part.number, (self.make_part(part, streams, lambda num_rows: None), None))
        except SamovarError as error:
            yield _result(part.number, (None, error))


class _Demux:
    """Hands out the rows of each table from a stream of all tables, which is sorted by their common key. Joined tables
    have the same keys, so few rows wait for those of another table."""

    def __init__(self, queries: Sequence[Query], first: pa.RecordBatch, batches: Iterator[pa.RecordBatch]) -> None:
        self._columns = [columns_of(query, table) for table, query in enumerate(queries)]
        self._waiting: list[deque[pa.RecordBatch]] = [deque() for _ in queries]
        self._batches = batches
        self._add(first)

    def rows(self, table: int) -> Generator[pa.RecordBatch]:
        while True:
            while self._waiting[table]:
                yield self._waiting[table].popleft()
            batch = next(self._batches, None)
            if batch is None:
                return
            self._add(batch)

    def _add(self, batch: pa.RecordBatch) -> None:
        for columns, waiting in zip(self._columns, self._waiting, strict=True):
            mine = batch
            if len(self._columns) > 1:
                place = next(column.alias for column in columns if column.name == FILE)
                mine = batch.filter(batch.column(place).is_valid())
            if mine.num_rows > 0:
                arrays = [unpack(mine.column(column.alias), column.kind) for column in columns]
                waiting.append(pa.RecordBatch.from_arrays(arrays, names=[column.name for column in columns]))


def _numbers(batches: Iterable[pa.RecordBatch]) -> Iterator[int]:
    for batch in batches:
        yield from batch.column(0).to_pylist()


def _result(number: int, outcome: Any) -> pa.RecordBatch:
    return pa.record_batch([[number], [pickle.dumps(outcome)]], schema=RESULT_SCHEMA)


# Errors of ours, through the text of Spark's


def run(payload: bytes, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run a task that the driver has pickled."""
    try:
        yield from pickle.loads(payload)(batches)
    except SamovarError as error:
        known = next(each.__name__ for each in type(error).__mro__ if vars(errors).get(each.__name__) is each)
        said = json.dumps([known, str(error)])
        raise RuntimeError(f"{_MARK}{base64.b64encode(said.encode()).decode()}:") from error


def find_error(text: str) -> SamovarError | None:
    """The error that a task raised. A text may also quote values of a stranger's file, so it is never unpickled."""
    for said in reversed(re.findall(rf"{_MARK}([A-Za-z0-9+/=]+):", text)):  # the cause is told before
        try:
            name, message = json.loads(base64.b64decode(said))
            kind = vars(errors)[name]
            found: SamovarError | None = kind(str(message)) if issubclass(kind, SamovarError) else None
        except (ValueError, TypeError, LookupError, RecursionError):
            continue  # a value that looks like it
        if found is not None:
            return found
    return None
