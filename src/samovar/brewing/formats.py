"""Files of rows as streams of Arrow batches, in their own order, with types that were decided for the whole source.

Text formats are read twice: once to learn the narrowest type that holds every value, once to get the values. So an
integer beyond 2**63 is exact wherever in the file it stands.

Line breaks inside the values of a CSV file: meant, or the mark of a quote that was never closed, which makes one
value of all rows up to the next quote. Knows the values and the end of the file, and parses nothing.
"""

from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.json as json
import pyarrow.parquet as parquet
from pyarrow import types

from samovar.brewing.learned_types import FALSE_WORDS, TRUE_WORDS, Learned, learn_array, learn_texts
from samovar.brewing.order import FILE, ROW
from samovar.brewing.ragged import as_numpy, is_list, leaf_of
from samovar.brewing.sources import ROWS_PER_BATCH, Source, SourceFile, no_rows
from samovar.errors import BadInput, UnknownColumn

_PIECE_BYTES = 1 << 20


@dataclass
class LineBreaks:
    """What was met in one file so far."""

    num_rows: int = 0
    num_values: int = 0
    """Values with line breaks."""
    most: int = 0
    """Line breaks of the value that has most."""
    longest: tuple[int, str] = (0, "")
    """Its row and column."""

    def count(self, column: str, texts: pa.Array) -> None:
        """The next rows of a column; `num_rows` stand before them."""
        counts = as_numpy(pc.count_substring(texts, "\n").fill_null(0))
        self.num_values += int(np.count_nonzero(counts))
        if counts.max(initial=0) > self.most:
            self.most, self.longest = int(counts.max()), (self.num_rows + int(counts.argmax()), column)

    def notes(self, file: SourceFile) -> list[str]:
        if self.num_values == 0:
            return []
        row, column = self.longest
        return [
            f"{file.path}: values with line breaks: {self.num_values}, the longest, of {self.most + 1} lines, in row "
            f"{row}, column {column!r}; if these are no texts, a quote is not closed there, and rows below it are lost"
        ]

    def refuse_open_quote(self, file: SourceFile, last: str | None) -> None:
        """`last` is the last value of the file: one whose quote is open reaches to the very last byte."""
        num_lines = 0 if last is None else last.strip().count("\n")
        if last is None or num_lines == 0:
            return
        raw = b'"' + last.replace('"', '""').encode()
        if _end_of(file, len(raw)) == raw:
            raise BadInput(
                f"{file.path}: row {self.num_rows - 1} opens a quote that is never closed, so that {num_lines} more "
                "lines are in its last value; expected a quote at its end: close or remove it"
            )


def _end_of(file: SourceFile, num_bytes: int) -> bytes:
    """The last bytes of the text, of which compressed files know only by reading all of it."""
    end = b""
    with pa.input_stream(str(file.path)) as opened:
        if opened.seekable():
            opened.seek(max(0, opened.size() - num_bytes))
        while piece := opened.read(max(_PIECE_BYTES, num_bytes)):
            end = (end + piece)[-num_bytes:]
    return end


_BLOCK_BYTES = 8 << 20
_UNREADABLE = (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError)


def scan_schema(source: Source, notes: list[str] | None = None) -> pa.Schema:
    """The columns that every file has, each with one type for all of them; a name that a file has twice stands twice.
    `notes` gets what the user should look at."""
    learned: dict[str, Learned] = {}
    fixed: dict[str, tuple[pa.DataType, SourceFile]] = {}
    names: list[str] | None = None
    doubled: set[str] = set()
    for file in source.files:
        try:
            here = _learn_file(file, source, learned, fixed, [] if notes is None else notes)
        except (*_UNREADABLE, UnicodeDecodeError) as error:
            raise _unreadable(file, error) from None
        if here is None:
            continue
        doubled |= {name for name, count in Counter(here).items() if count > 1}
        names = list(dict.fromkeys(here)) if names is None else [name for name in names if name in here]
    if names is None:
        raise no_rows([source])
    if not names:
        raise BadInput(f"{source.name}: its files have no column in common, expected the same columns in all of them")
    names += [name for name in names if name in doubled]
    return pa.schema([(name, _decide(name, learned.get(name), fixed.get(name), source)) for name in names])


def has_no_lines(source: Source) -> bool:
    """Whether all files are JSON lines and have none: there is no row, nor a column to check."""
    return all(file.format == "json" and next(_json_blocks(file), None) is None for file in source.files)


def read_in_order(
    source: Source, schema: pa.Schema, columns: Sequence[str], is_wanted: Sequence[bool] | None = None
) -> Generator[pa.RecordBatch]:
    """All rows, file by file; to `columns` are added the number of the file and of the row in it. `is_wanted` tells
    which files to read."""
    wanted = pa.schema([schema.field(column) for column in columns])
    with_places = wanted.append(pa.field(FILE, pa.int32())).append(pa.field(ROW, pa.int64()))
    for number, file in enumerate(source.files):
        if is_wanted is not None and not is_wanted[number]:
            continue
        row = 0
        for batch in read_file(file, wanted):
            rows = np.arange(row, row + batch.num_rows)
            places = [pa.array(np.full(batch.num_rows, number, np.int32)), pa.array(rows)]
            yield pa.RecordBatch.from_arrays([*batch.columns, *places], schema=with_places)
            row += batch.num_rows


def count_rows(source: Source) -> int | None:
    """All rows, from what its files say of themselves; None if one of them, a text, does not."""
    if any(file.format in ("csv", "json") for file in source.files):
        return None
    return sum(_count_rows(file) for file in source.files)


def _count_rows(file: SourceFile) -> int:
    if file.format == "parquet":
        return int(parquet.read_metadata(file.path).num_rows)
    reader = _arrow_reader(file)  # a memory map: only the heads of the batches are looked at
    if isinstance(reader, pa.RecordBatchFileReader):
        return sum(reader.get_batch(number).num_rows for number in range(reader.num_record_batches))
    return sum(batch.num_rows for batch in reader)


def read_file(file: SourceFile, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The columns of `schema`, in its order and types."""
    readers = {"parquet": _read_parquet, "arrow": _read_arrow, "csv": _read_csv, "json": _read_json}
    try:
        for batch in readers[file.format](file, schema):
            yield conform(batch, schema)
    except _UNREADABLE as error:
        raise _unreadable(file, error) from None


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The columns of `schema`, cast to its types where they differ only in how Arrow lays them out."""
    arrays = [_cast(batch.column(field.name), field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def plain(kind: pa.DataType) -> pa.DataType:
    """The one layout of a type that all engines hand out."""
    if types.is_dictionary(kind):
        return plain(kind.value_type)
    if is_list(kind) or types.is_list_view(kind) or types.is_large_list_view(kind):
        return pa.list_(plain(kind.value_type))
    if types.is_large_string(kind) or types.is_string_view(kind):
        return pa.string()
    if types.is_large_binary(kind) or types.is_binary_view(kind):
        return pa.binary()
    return kind


def _cast(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if array.type == kind:
        return array
    if types.is_null(kind):
        return pa.nulls(len(array))
    if types.is_null(leaf_of(kind)):
        return pa.ListArray.from_arrays(array.offsets, _cast(array.values, kind.value_type), mask=array.is_null())
    return array.cast(kind)


# What a file says of its columns


def _learn_file(
    file: SourceFile,
    source: Source,
    learned: dict[str, Learned],
    fixed: dict[str, tuple[pa.DataType, SourceFile]],
    notes: list[str],
) -> list[str] | None:
    """The names of its columns, None if it has no line; what is known of their types goes into `learned`, `fixed`."""
    if file.format == "csv":
        return _learn_csv(file, source, learned, notes)
    if file.format == "json":
        return _learn_json(file, source, learned)
    schema = parquet.read_schema(file.path) if file.format == "parquet" else _arrow_reader(file).schema
    for field in schema:
        before, where = fixed.get(field.name, (pa.null(), file))
        fixed[field.name] = (_widest(before, plain(field.type), field.name, where, file), file)
    return list(schema.names)


def _learn_csv(file: SourceFile, source: Source, learned: dict[str, Learned], notes: list[str]) -> list[str]:
    names = _csv_names(file)
    breaks = LineBreaks()
    last = pa.scalar(None, pa.string())
    for name in names:
        learned.setdefault(name, Learned.text() if name in source.text_columns else _known(name, source))
    for batch in _open_csv(file, dict.fromkeys(names, pa.string())):
        for name in dict.fromkeys(names):
            learned[name] = learned[name].or_text(learn_texts(batch.column(name), learned[name]))
            if learned[name].leaf == "string":
                breaks.count(name, batch.column(name))
        breaks.num_rows += batch.num_rows
        last = batch.column(names[-1])[-1] if batch.num_rows else last
    breaks.refuse_open_quote(file, last.as_py())
    notes += breaks.notes(file)
    return names


def _learn_json(file: SourceFile, source: Source, learned: dict[str, Learned]) -> list[str] | None:
    seen: dict[str, None] | None = None
    for block in _json_blocks(file):
        seen = {} if seen is None else seen
        str(block, "utf-8")  # Arrow's reader takes any bytes
        for name, found in _learn_json_block(block).items():
            before = learned.get(name, _known(name, source))
            learned[name] = before.strictly(found, f"{file.path}: column {name!r}")
            seen[name] = None
    return None if seen is None else list(seen)


def _known(name: str, source: Source) -> Learned:
    return Learned.from_name(source.known_types.get(name, ""))


def _decide(
    name: str, learned: Learned | None, fixed: tuple[pa.DataType, SourceFile] | None, source: Source
) -> pa.DataType:
    if fixed is None:
        assert learned is not None
        return learned.type
    if learned is None:
        return fixed[0]
    return _widest(fixed[0], learned.type, name, fixed[1], source.files[0])


def _widest(left: pa.DataType, right: pa.DataType, name: str, left_file: SourceFile, right_file: SourceFile) -> Any:
    """A type that holds the values of both exactly."""
    if left == right or types.is_null(right):
        return left
    if types.is_null(left):
        return right
    if types.is_list(left) and types.is_list(right):
        return pa.list_(_widest(left.value_type, right.value_type, name, left_file, right_file))
    for is_alike in (types.is_signed_integer, types.is_unsigned_integer, types.is_floating):
        if is_alike(left) and is_alike(right):
            return max(left, right, key=lambda kind: kind.bit_width)
    raise BadInput(
        f"column {name!r} is {left} in {left_file.path} and {right} in {right_file.path}; expected one type: "
        "cast it in one of them"
    )


def _learn_json_block(block: pa.Buffer) -> dict[str, Learned]:
    table = json.read_json(pa.BufferReader(block), json.ReadOptions(block_size=block.size + 1))
    learned = {}
    for name in table.schema.names:
        learned[name] = learn_array(table.column(name), partial(_parses_as, block, name))
    return learned


def _parses_as(block: pa.Buffer, name: str, kind: pa.DataType) -> bool:
    """Whether a column can be read as `kind`: Arrow's own guess for integers beyond 2**63 is double."""
    try:
        _parse_json(block, pa.schema([(name, kind)]))
    except pa.ArrowInvalid:
        return False
    return True


# Reading


def _read_parquet(file: SourceFile, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    with parquet.ParquetFile(file.path) as opened:
        _require(file, schema, opened.schema_arrow.names)
        yield from opened.iter_batches(ROWS_PER_BATCH, columns=schema.names)


def _read_arrow(file: SourceFile, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    reader = _arrow_reader(file)
    _require(file, schema, reader.schema.names)
    if isinstance(reader, pa.RecordBatchFileReader):
        yield from (reader.get_batch(number) for number in range(reader.num_record_batches))
    else:
        yield from reader


def _arrow_reader(file: SourceFile) -> Any:
    """The file or the stream layout of Arrow's IPC format, from a memory map."""
    try:
        return pa.ipc.open_file(pa.memory_map(str(file.path)))
    except pa.ArrowInvalid:
        return pa.ipc.open_stream(pa.memory_map(str(file.path)))


def _read_csv(file: SourceFile, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    _require(file, schema, _csv_names(file))
    # Arrow reads no column of type null; any other that is empty will do.
    yield from _open_csv(
        file, {field.name: pa.string() if types.is_null(field.type) else field.type for field in schema}
    )


def _open_csv(file: SourceFile, kinds: dict[str, pa.DataType]) -> csv.CSVStreamingReader:
    convert = csv.ConvertOptions(
        column_types=kinds,
        include_columns=list(kinds),
        null_values=[""],  # "NA" and "null" are words like others
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        true_values=list(TRUE_WORDS),
        false_values=list(FALSE_WORDS),
    )
    return csv.open_csv(
        str(file.path),
        csv.ReadOptions(block_size=_BLOCK_BYTES),
        csv.ParseOptions(delimiter=_delimiter(file), newlines_in_values=True),
        convert,
    )


def _csv_names(file: SourceFile) -> list[str]:
    reader = csv.open_csv(str(file.path), parse_options=csv.ParseOptions(delimiter=_delimiter(file)))
    return list(reader.schema.names)


def _delimiter(file: SourceFile) -> str:
    """The separator that the header line has most of."""
    with pa.input_stream(str(file.path)) as opened:
        header = opened.read(1 << 16).split(b"\n")[0]
    return max(",\t;|", key=lambda delimiter: header.count(delimiter.encode()))


def _read_json(file: SourceFile, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for block in _json_blocks(file):
        yield from _parse_json(block, schema).to_batches()


def _parse_json(block: pa.Buffer, schema: pa.Schema) -> pa.Table:
    # Arrow's JSON reader makes broken lists of nulls, so these are read as lists of integers.
    schema = pa.schema([(field.name, _with_integers(field.type)) for field in schema])
    options = json.ParseOptions(explicit_schema=schema, newlines_in_values=False, unexpected_field_behavior="ignore")
    return json.read_json(pa.BufferReader(block), json.ReadOptions(block_size=block.size + 1), options)


def _with_integers(kind: pa.DataType) -> pa.DataType:
    if types.is_list(kind):
        return pa.list_(pa.int64() if types.is_null(kind.value_type) else _with_integers(kind.value_type))
    return kind


def _json_blocks(file: SourceFile) -> Iterator[pa.Buffer]:
    """Whole lines, some megabytes at a time."""
    rest = b""
    with pa.input_stream(str(file.path)) as opened:
        while piece := opened.read(_BLOCK_BYTES):
            lines, newline, tail = piece.rpartition(b"\n")
            if newline:
                yield from _non_blank(rest + lines + newline)
                rest = tail
            else:
                rest += piece
    yield from _non_blank(rest)


def _non_blank(lines: bytes) -> Iterator[pa.Buffer]:
    if lines.strip():
        yield pa.py_buffer(lines)


def _require(file: SourceFile, schema: pa.Schema, names: Sequence[str]) -> None:
    for name in schema.names:
        if name not in names:
            raise UnknownColumn(
                f"{file.path}: no column {name!r}; it has {', '.join(names)}: mend the name or the file"
            )


def _unreadable(file: SourceFile, error: Exception) -> BadInput:
    cure = "mend the file, or leave it out"
    if isinstance(error, UnicodeDecodeError):
        cure = "expected UTF-8: convert the file, for example with iconv"
    elif "straddling object" in str(error):  # a row of more than a block
        cure = "look for a quote that is never closed"
    return BadInput(f"{file.path}: cannot be read as {file.format} ({error}): {cure}")
