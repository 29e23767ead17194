"""JSON lines: one object per line."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyarrow import json
from pyarrow import types as arrow_types

from samovar.brewing.formats.base import FileScan, Format, HashedFile, open_text
from samovar.brewing.formats.column_types import ColumnTypes, infer_json

_BLOCK_BYTES = 8 << 20


class JsonFormat(Format):
    name = "json"
    is_text = True

    def scan(self, file: HashedFile, types: ColumnTypes) -> FileScan | None:
        names: dict[str, None] = {}
        num_rows, has_lines = 0, False
        for block in _blocks(open_text(file.path, file)):
            str(block, "utf-8")  # Arrow's reader takes any bytes
            rows = json.read_json(pa.BufferReader(block), _one_block(block))
            for name in rows.schema.names:
                types.learn_typed(name, infer_json(rows.column(name), partial(_parses_as, block, name)), file.path)
                names[name] = None
            num_rows, has_lines = num_rows + rows.num_rows, True
        return FileScan(list(names), num_rows) if has_lines else None

    def read(self, path: Path, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        for block in _blocks(open_text(path)):
            yield from _parse(block, schema).to_batches()


def _blocks(stream: pa.NativeFile) -> Iterator[pa.Buffer]:
    """Whole lines, some megabytes at a time, without blocks that are blank."""
    rest = b""
    with stream:
        while piece := stream.read(_BLOCK_BYTES):
            lines, newline, tail = piece.rpartition(b"\n")
            if not newline:
                rest += piece
                continue
            block, rest = rest + lines + newline, tail
            if block.strip():
                yield pa.py_buffer(block)
    if rest.strip():
        yield pa.py_buffer(rest)


def _parse(block: pa.Buffer, schema: pa.Schema) -> pa.Table:
    # Arrow's JSON reader makes broken lists of nulls, so these are read as lists of integers.
    schema = pa.schema([(field.name, _with_integers(field.type)) for field in schema])
    options = json.ParseOptions(explicit_schema=schema, newlines_in_values=False, unexpected_field_behavior="ignore")
    return json.read_json(pa.BufferReader(block), _one_block(block), options)


def _parses_as(block: pa.Buffer, name: str, kind: pa.DataType) -> bool:
    try:
        _parse(block, pa.schema([(name, kind)]))
    except pa.ArrowInvalid:
        return False
    return True


def _one_block(block: pa.Buffer) -> json.ReadOptions:
    return json.ReadOptions(block_size=block.size + 1)


def _with_integers(kind: pa.DataType) -> pa.DataType:
    if arrow_types.is_list(kind):
        return pa.list_(pa.int64() if arrow_types.is_null(kind.value_type) else _with_integers(kind.value_type))
    return kind
