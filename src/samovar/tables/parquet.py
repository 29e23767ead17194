"""Just enough of Parquet to write required INT64 and BYTE_ARRAY columns, plain and uncompressed, with the place of each
value known. Parquet libraries neither report that place nor align values. Any Parquet reader opens the result.

Field and type ids are those of the format's Thrift definition; the encoding is Thrift's compact protocol.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

MAGIC = b"PAR1"
Type = Literal["INT64", "BYTE_ARRAY"]
_TYPES = {"INT64": 2, "BYTE_ARRAY": 6}
_REQUIRED, _DATA_PAGE, _PLAIN, _RLE, _UNCOMPRESSED = 0, 0, 0, 3, 0
_I32, _I64, _BINARY, _LIST, _STRUCT = 5, 6, 8, 9, 12


@dataclass(frozen=True)
class Column:
    name: str
    type: Type


@dataclass
class Chunk:
    """A column's page in one row group."""

    column: Column
    offset: int
    size: int
    num_values: int


@dataclass
class Footer:
    """The metadata at the end of a file, collected while the file is written."""

    columns: Sequence[Column]
    num_rows: int = 0
    row_groups: list[tuple[int, list[Chunk]]] = field(default_factory=list)

    def add(self, num_rows: int, chunks: list[Chunk]) -> None:
        self.num_rows += num_rows
        self.row_groups.append((num_rows, chunks))

    def to_bytes(self) -> bytes:
        root = _struct((4, _BINARY, _text("table")), (5, _I32, _zigzag(len(self.columns))))
        leaves = [
            _struct(
                (1, _I32, _zigzag(_TYPES[column.type])), (3, _I32, _zigzag(_REQUIRED)), (4, _BINARY, _text(column.name))
            )
            for column in self.columns
        ]
        body = _struct(
            (1, _I32, _zigzag(1)),
            (2, _LIST, _list(_STRUCT, [root, *leaves])),
            (3, _I64, _zigzag(self.num_rows)),
            (4, _LIST, _list(_STRUCT, [_row_group(rows, chunks) for rows, chunks in self.row_groups])),
            (6, _BINARY, _text("samovar")),
        )
        return body + len(body).to_bytes(4, "little") + MAGIC


def page_header(size: int, num_values: int) -> bytes:
    """The header before a page of `size` bytes."""
    data_page = _struct(
        (1, _I32, _zigzag(num_values)), (2, _I32, _zigzag(_PLAIN)), (3, _I32, _zigzag(_RLE)), (4, _I32, _zigzag(_RLE))
    )
    return _struct(
        (1, _I32, _zigzag(_DATA_PAGE)), (2, _I32, _zigzag(size)), (3, _I32, _zigzag(size)), (5, _STRUCT, data_page)
    )


def _row_group(num_rows: int, chunks: list[Chunk]) -> bytes:
    total = sum(chunk.size for chunk in chunks)
    return _struct(
        (1, _LIST, _list(_STRUCT, [_column_chunk(chunk) for chunk in chunks])),
        (2, _I64, _zigzag(total)),
        (3, _I64, _zigzag(num_rows)),
    )


def _column_chunk(chunk: Chunk) -> bytes:
    meta = _struct(
        (1, _I32, _zigzag(_TYPES[chunk.column.type])),
        (2, _LIST, _list(_I32, [_zigzag(_PLAIN), _zigzag(_RLE)])),
        (3, _LIST, _list(_BINARY, [_text(chunk.column.name)])),
        (4, _I32, _zigzag(_UNCOMPRESSED)),
        (5, _I64, _zigzag(chunk.num_values)),
        (6, _I64, _zigzag(chunk.size)),
        (7, _I64, _zigzag(chunk.size)),
        (9, _I64, _zigzag(chunk.offset)),
    )
    return _struct((2, _I64, _zigzag(chunk.offset)), (3, _STRUCT, meta))


def _struct(*fields: tuple[int, int, bytes]) -> bytes:
    """Fields as (id, type, content), in increasing order of ids."""
    parts, last = [], 0
    for number, kind, content in fields:
        parts += [bytes([(number - last) << 4 | kind]), content]
        last = number
    return b"".join(parts) + b"\0"


def _list(kind: int, items: list[bytes]) -> bytes:
    size = len(items)
    head = bytes([size << 4 | kind]) if size < 15 else bytes([0xF0 | kind]) + _varint(size)
    return head + b"".join(items)


def _text(text: str) -> bytes:
    data = text.encode()
    return _varint(len(data)) + data


def _zigzag(value: int) -> bytes:
    return _varint(value * 2 if value >= 0 else -value * 2 - 1)


def _varint(value: int) -> bytes:
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)
