"""JSON lines, one object per line, and JSON arrays: a file that is one list of objects, laid out in any way."""

import codecs
import re
from collections.abc import Iterator
from functools import partial

import pyarrow as pa
from pyarrow import json
from pyarrow import types as arrow_types

from samovar.brewing.formats.base import FileScan, Format, HashedFile, open_utf8
from samovar.brewing.formats.column_types import ColumnTypes, infer_json
from samovar.config.places import Place
from samovar.errors import BadInput

_BLOCK_BYTES = 8 << 20
_START_BYTES = 1 << 16
_MAX_OBJECT_BYTES = 64 << 20  # memory must not depend on what a file leaves out
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]]|"', re.DOTALL)
"""A string, a bracket, or a quote whose string is not closed yet."""


class JsonFormat(Format):
    name = "json"
    is_text = True

    def scan(self, file: HashedFile, types: ColumnTypes) -> FileScan | None:
        names: dict[str, None] = {}
        num_rows, has_lines = 0, False
        for block in _blocks(file.path, open_utf8(file.path, self.encoding, file)):
            str(block, "utf-8")  # Arrow's reader takes any bytes
            _refuse_null(block, file.path, num_rows)
            rows = json.read_json(pa.BufferReader(block), _one_block(block))
            for name in rows.schema.names:
                types.learn_typed(name, infer_json(rows.column(name), partial(_parses_as, block, name)), file.path)
                names[name] = None
            num_rows, has_lines = num_rows + rows.num_rows, True
        return FileScan(list(names), num_rows) if has_lines else None

    def read(self, path: Place, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        for block in _blocks(path, open_utf8(path, self.encoding)):
            yield from _parse(block, schema).to_batches()


def _blocks(path: Place, stream: pa.NativeFile) -> Iterator[pa.Buffer]:
    """Whole lines, some megabytes at a time, without blocks that are blank. The objects of an array become lines."""
    with stream:
        start = stream.read(_BLOCK_BYTES).removeprefix(codecs.BOM_UTF8).lstrip()
        while not start and (piece := stream.read(_BLOCK_BYTES)):
            start = piece.lstrip()
        split = _ArraySplitter(path) if start.startswith(b"[") else _LineSplitter(path)
        piece = start
        while piece:
            block = split.feed(piece)
            if block.strip():
                yield pa.py_buffer(block)
            piece = stream.read(_BLOCK_BYTES)
        rest = split.finish()
        if rest.strip():
            yield pa.py_buffer(rest)


class _LineSplitter:
    def __init__(self, path: Place) -> None:
        self._path = path
        self._rest = b""

    def feed(self, piece: bytes) -> bytes:
        """The lines that are whole now."""
        lines, newline, tail = piece.rpartition(b"\n")
        if not newline:
            self._rest += piece
            _check_size(self._path, len(self._rest), "a line")
            return b""
        block, self._rest = self._rest + lines + newline, tail
        return block

    def finish(self) -> bytes:
        return self._rest


class _ArraySplitter:
    """Finds where the objects of an array begin and end, without parsing them."""

    def __init__(self, path: Place) -> None:
        self._path = path
        self._rest = b""
        self._scanned = 0
        """How much of the rest was looked at: up to here no string is open."""
        self._done = 0
        """Where its last token ended."""
        self._begin: int | None = None
        """Where the object begins that is not closed yet."""
        self._depth = 0
        self._num_objects = 0
        self._is_closed = False

    def feed(self, piece: bytes) -> bytes:
        """The objects that are whole now, one per line."""
        self._rest += piece
        objects, done, scanned = [], self._done, len(self._rest)
        for token in _TOKEN.finditer(self._rest, self._scanned):
            mark = token[0]
            if mark == b'"':
                scanned = token.start()
                break  # the rest of the string is in the next piece
            if self._depth <= 1:
                self._refuse_between(done, token.start(), mark)
            done = token.end()
            if mark in (b"{", b"["):
                self._depth += 1
                if self._depth == 2:
                    self._begin = token.start()
            elif mark in (b"}", b"]"):
                self._depth -= 1
                if self._depth == 1 and self._begin is not None:
                    objects.append(self._rest[self._begin : done].translate(_BLANKS))  # strings have no line breaks
                    self._begin, self._num_objects = None, self._num_objects + 1
                self._is_closed |= self._depth == 0
        keep = done if self._begin is None else self._begin
        self._rest, self._done, self._scanned = self._rest[keep:], done - keep, scanned - keep
        self._begin = None if self._begin is None else 0
        _check_size(self._path, len(self._rest), f"row {self._num_objects} of the array")
        return b"".join(each + b"\n" for each in objects)

    def _refuse_between(self, begin: int, end: int, mark: bytes) -> None:
        """In an array are objects with commas between them, and behind it is nothing."""
        between = self._rest[begin:end].strip()
        if mark == b"{" and self._num_objects > 0:
            between = between.removeprefix(b",").strip()
        expected = b"[" if self._depth == 0 else b"{]"
        if between or self._is_closed or mark not in expected:
            raise BadInput(
                f"{self._path} row {self._num_objects}: expected an object with a comma before the next, as in "
                "[{...}, {...}]. Correct the file"
            )

    def finish(self) -> bytes:
        if not self._is_closed:
            raise BadInput(f"{self._path} row {self._num_objects}: the array is never closed; the file may be cut off")
        if self._rest.strip():
            raise BadInput(
                f"{self._path}: there is more after the array, {self._rest.strip()[:20]!r}. Remove it, or write one "
                "object per line"
            )
        return b""


def _check_size(path: Place, num_bytes: int, what: str) -> None:
    if num_bytes > _MAX_OBJECT_BYTES:
        raise BadInput(
            f"{path}: {what} is longer than {_MAX_OBJECT_BYTES >> 20} MiB; expected one object per line, or an "
            "array of objects. The file may be damaged"
        )


_BLANKS = bytes.maketrans(b"\r\n", b"  ")


def _refuse_null(block: pa.Buffer, path: Place, num_rows: int) -> None:
    """Arrow's reader crashes on a block that begins with null."""
    start = bytes(memoryview(block)[:_START_BYTES]).lstrip()
    if start.startswith(b"null"):
        raise BadInput(f"{path} row {num_rows}: expected an object such as {{…}}, got null")


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
