"""Rows in memory as a source: frames of pandas, polars, pyarrow and DuckDB, and all others that are Arrow streams. They
are copied to a temporary file, batch by batch, so that a relation may be larger than memory. Knows no recipes.

A frame has no file whose bytes could be hashed, so its values are: the same rows have the same fingerprint, whichever
library holds them and however they are cut into batches.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import types

from samovar.brewing.arrays import as_numpy, conform, is_text, leaf_of, plain_type, unnest
from samovar.brewing.columns import require_name
from samovar.brewing.formats.column_types import LearnedType
from samovar.brewing.sources import Fingerprint
from samovar.config.values import describe
from samovar.errors import BadInput
from samovar.native import Hasher
from samovar.results.lineage import IN_MEMORY

ROWS_PER_BATCH = 1 << 16
_UNREADABLE = (pa.ArrowException, duckdb.Error, OSError)


@dataclass(frozen=True)
class Frame:
    """Rows in memory, of any library."""

    kind: str
    """What it is, with an article, for messages."""
    names: Sequence[str]
    """All its columns; a name that occurs twice is listed twice."""
    open: Callable[[list[str]], pa.RecordBatchReader]
    """The rows of some columns. A stream can be read once only."""
    notes: Sequence[str] = ()
    hint_for_floats: str = ""

    @property
    def name(self) -> str:
        """What a recipe says instead of a path."""
        return f"{IN_MEMORY} ({self.kind})"


def find_frame(value: Any) -> Frame | None:
    """None for paths, and for what JSON can hold. Libraries that are not loaded cannot have made the value, and stay
    unloaded.

    Raises:
        BadInput: The value is something else, or its columns have no proper names.
    """
    if isinstance(value, str | int | float | list | tuple | dict | None) or hasattr(value, "__fspath__"):
        return None
    pandas, polars = sys.modules.get("pandas"), sys.modules.get("polars")
    if pandas is not None and isinstance(value, pandas.DataFrame):
        frame = _from_pandas(value, pandas)
    elif polars is not None and isinstance(value, polars.DataFrame | polars.LazyFrame):
        frame = _from_polars(value, polars)
    elif isinstance(value, duckdb.DuckDBPyRelation):
        frame = Frame("a DuckDB relation", value.columns, lambda columns: _read_relation(value, columns))
    elif isinstance(value, pa.RecordBatch):
        frame = _from_arrow(pa.Table.from_batches([value]).to_reader(), "a pyarrow RecordBatch")
    elif hasattr(value, "__arrow_c_stream__"):
        frame = _from_stream(value, f"a {_library(value)} {type(value).__name__}")
    else:
        raise BadInput(
            f"source must be one or more paths, a DataFrame of pandas or polars, an Arrow table or reader, or a DuckDB "
            f"relation, got {describe(value)}"
        )
    for name in frame.names:
        if not isinstance(name, str):
            raise BadInput(f"{frame.name}: the name of a column must be a string, got {name!r}; rename the columns")
    return frame


def _from_stream(value: Any, kind: str) -> Frame:
    try:
        return _from_arrow(pa.RecordBatchReader.from_stream(value), kind)
    except pa.ArrowInvalid:
        raise BadInput(f"expected rows with named columns, got {kind}, which is a single column") from None


def _library(value: object) -> str:
    return type(value).__module__.partition(".")[0]


# Libraries


def _from_pandas(frame: Any, pandas: Any) -> Frame:
    is_plain = isinstance(frame.index, pandas.RangeIndex) and frame.index.name is None
    notes = [] if is_plain else ["the index of the DataFrame is ignored; reset_index() makes it a column"]

    def read(columns: list[str]) -> pa.RecordBatchReader:
        arrays = [_convert_series(frame[column], f"a pandas DataFrame: column {column!r}") for column in columns]
        return pa.table(arrays, names=columns).to_reader(ROWS_PER_BATCH)

    hint = "pandas turns integers with missing values into floats, and astype('Int64') keeps them"
    return Frame("a pandas DataFrame", list(frame.columns), read, notes, hint)


def _convert_series(series: Any, where: str) -> Any:
    """NaN is missing, as pandas means it."""
    try:
        try:
            found = pa.array(series, from_pandas=True)
        except OverflowError:  # integers from 2**63
            found = pa.array(series, pa.uint64(), from_pandas=True)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise BadInput(f"{where} has values of several types, or of one that Arrow does not have ({error})") from None
    if isinstance(found.type, pa.BaseExtensionType):
        raise BadInput(f"{where} is {series.dtype}; convert it to numbers, strings or times first")
    return found


def _from_polars(frame: Any, polars: Any) -> Frame:
    is_lazy = isinstance(frame, polars.LazyFrame)
    kinds = frame.collect_schema() if is_lazy else frame.schema

    kind = f"a polars {'LazyFrame' if is_lazy else 'DataFrame'}"

    def read(columns: list[str]) -> pa.RecordBatchReader:
        chosen = frame.select(columns)
        found = chosen.collect() if is_lazy else chosen
        arrays = [_convert_polars(found.get_column(column), f"{kind}: column {column!r}") for column in columns]
        return pa.table(arrays, names=columns).to_reader(ROWS_PER_BATCH)

    return Frame(kind, list(kinds), read)


def _convert_polars(series: Any, where: str) -> Any:
    try:
        if str(series.dtype) != "Object":  # of which polars makes addresses in memory
            return series.to_arrow()
    except pa.ArrowException:  # a type that only polars has, such as Int128
        pass
    raise BadInput(f"{where} is {series.dtype}; cast it to another type first")


def _from_arrow(reader: pa.RecordBatchReader, kind: str) -> Frame:
    def read(columns: list[str]) -> pa.RecordBatchReader:
        schema = pa.schema([reader.schema.field(column) for column in columns])
        return pa.RecordBatchReader.from_batches(schema, (batch.select(columns) for batch in reader))

    return Frame(kind, reader.schema.names, read)


def _read_relation(relation: Any, columns: list[str]) -> pa.RecordBatchReader:
    quoted = ['"' + column.replace('"', '""') + '"' for column in columns]
    return relation.select(*quoted).to_arrow_reader(ROWS_PER_BATCH)


# The copy


def copy_rows(
    frame: Frame,
    columns: Sequence[str],
    path: Path | None,
    *,
    known_types: Mapping[str, str],
    on_rows: Callable[[int], object] = lambda num_rows: None,
) -> Fingerprint:
    """Copy some columns to an Arrow file, and return the fingerprint of their values. None only looks at the values."""
    for column in columns:
        require_name(frame.names, column, frame.name)
    try:
        reader = frame.open(list(columns))
        schema = pa.schema([(field.name, _type_of(field, known_types)) for field in reader.schema])
        values = _TableHash(schema)
        with ExitStack() as stack:
            write = None
            if path is not None:
                options = pa.ipc.IpcWriteOptions(compression="lz4")
                write = stack.enter_context(pa.ipc.new_file(str(path), schema, options=options)).write_batch
            for rows in _batches(reader, schema):
                values.update(rows)
                if write is not None:
                    write(rows)
                on_rows(rows.num_rows)
    except _UNREADABLE as error:
        raise BadInput(f"{frame.name}: cannot be read ({error})") from None
    return values.fingerprint()


def _type_of(field: pa.Field, known_types: Mapping[str, str]) -> pa.DataType:
    """A column of nulls only has the type that earlier versions of a live table know."""
    kind = plain_type(field.type)
    known = LearnedType.from_name(known_types.get(field.name, "")).type
    return known if types.is_null(leaf_of(kind)) and not types.is_null(known) else kind


def _batches(reader: pa.RecordBatchReader, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in reader:
        for start in range(0, batch.num_rows, ROWS_PER_BATCH):
            yield _conform(batch.slice(start, ROWS_PER_BATCH), schema)


def _conform(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    try:
        return conform(rows, schema)
    except pa.ArrowInvalid:  # a slice of more strings than small offsets can address, though it has few itself
        return conform(rows.take(pa.array(np.arange(rows.num_rows))), schema)


# The fingerprint


class _TableHash:
    def __init__(self, schema: pa.Schema) -> None:
        self._columns = {field.name: _ColumnHash(field.type) for field in schema}
        self._num_rows = 0

    def update(self, rows: pa.RecordBatch) -> None:
        self._num_rows += rows.num_rows
        for name, column in self._columns.items():
            column.update(rows.column(name))

    def fingerprint(self) -> Fingerprint:
        whole = Hasher()
        for name, column in sorted(self._columns.items()):
            whole.update(f"{name!r} {column.digest()}\n".encode())
        return {"name": IN_MEMORY, "num_rows": self._num_rows, "xxh64": f"{whole.digest():016x}"}


class _ColumnHash:
    """One hash per part of a column, so that it does not matter where batches begin: for each list level which lists
    are null and how long they are, then which values are null, the lengths of strings, and the values."""

    def __init__(self, kind: pa.DataType) -> None:
        self._kind = kind
        self._parts: dict[str, Hasher] = {}

    def update(self, array: pa.Array) -> None:
        ragged = unnest(array)
        for level, (lengths, is_null) in enumerate(zip(ragged.lengths, ragged.nulls, strict=True)):
            self._add(f"nulls {level}", np.zeros(len(lengths), bool) if is_null is None else is_null)
            self._add(f"lengths {level}", lengths)
        self._add("nulls", as_numpy(ragged.values.is_null()))
        self._add_values(ragged.values.drop_null())

    def digest(self) -> str:
        parts = (f"{name} {part.digest():016x}" for name, part in sorted(self._parts.items()))
        return f"{self._kind}: {', '.join(parts)}"

    def _add_values(self, values: pa.Array) -> None:
        kind = leaf_of(self._kind)
        if types.is_boolean(kind):
            self._add("values", as_numpy(values.cast(pa.uint8())))
        elif is_text(kind):
            self._add("lengths", as_numpy(pc.binary_length(values)))
            offsets = np.frombuffer(values.buffers()[1], np.int32)[values.offset :][: len(values) + 1]
            if len(values) > 0:
                self._add("values", np.frombuffer(values.buffers()[2], np.uint8)[offsets[0] : offsets[-1]])
        elif types.is_primitive(kind) or types.is_decimal(kind) or types.is_fixed_size_binary(kind):
            width = kind.bit_width // 8
            first = values.offset * width
            data = values.buffers()[1]
            self._add("values", np.frombuffer(data, np.uint8)[first : first + len(values) * width])
        elif not types.is_null(kind):  # structs and the like: no recipe takes them, which is reported later
            text = "".join(f"{value!r}\n" for value in values.to_pylist())
            self._add("values", np.frombuffer(text.encode(), np.uint8))

    def _add(self, part: str, data: NDArray[Any]) -> None:
        self._parts.setdefault(part, Hasher()).update(np.ascontiguousarray(data).data)
