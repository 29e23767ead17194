"""Values of a minibatch as cells: bytes with a header, a codec and a checksum. native's cell.h draws the layout.

Here is the writing side and what can be read from a header; `native.MinibatchDecoder` decodes. Knows no files.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa

from samovar import native
from samovar.errors import BadInput, ConfigError
from samovar.tables.keys import KeyType, key_type
from samovar.tables.schema import ColumnSchema, Ids, Value

HEADER_BYTES = 56
ALIGNMENT = 8
DENSE, PLAIN_IDS, DISTINCT_IDS, KEYS = range(4)
_KINDS = {"categorical": 0, "real": 1, "key": 2}
_PADDING_AT = 10
_DEFAULT_LEVEL = {"zstd": 5, "lz4": 0, "none": 0}


@dataclass(frozen=True)
class Compression:
    """The codec of cells and its level.

    Example:
        >>> Compression.parse("zstd:3")
        Compression(codec='zstd', level=3)
    """

    codec: str = "zstd"
    level: int = 5

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `zstd`, `zstd:1` to `zstd:22`, `lz4` or `none`; ConfigError for anything else."""
        codec, colon, level = text.partition(":")
        if codec not in _DEFAULT_LEVEL or (
            colon and not (codec == "zstd" and level.isdigit() and 1 <= int(level) <= 22)
        ):
            raise ConfigError(f"compression must be 'zstd', 'zstd:1' to 'zstd:22', 'lz4' or 'none', got {text!r}")
        return cls(codec, int(level) if colon else _DEFAULT_LEVEL[codec])


def encode_cell(column: ColumnSchema, value: Value, compression: Compression) -> bytes:
    """One value as a cell without padding; `place_cell` adds it."""
    if column.kind == "categorical":
        if not isinstance(value, Ids) or value.lengths.ndim != column.rank:
            raise _wrong_value(column, value, f"Ids with lengths of rank {column.rank}")
        return native.encode_bag(value.data, value.lengths, compression.codec, compression.level)
    if column.kind == "real":
        if not isinstance(value, np.ndarray) or value.dtype != np.float32 or value.ndim != column.rank:
            raise _wrong_value(column, value, f"a float32 array of rank {column.rank}")
        return native.encode_dense(value, compression.codec, compression.level)
    keys = key_type(column.source_type)
    if not isinstance(value, pa.Array) or value.type != keys.type:
        raise _wrong_value(column, value, f"an Arrow array of {keys.type}")
    stored = keys.to_bytes(value)
    try:
        return native.encode_keys(
            stored.raw, keys.values, keys.width, stored.has_nulls, len(value), stored.num_bytes,
            compression.codec, compression.level,
        )  # fmt: skip
    except ValueError as error:
        raise BadInput(f"column {column.name!r} {error}") from error


class CellColumns:
    """The columns of the cells that are read, as the decoder checks them."""

    def __init__(self, columns: Sequence[ColumnSchema]) -> None:
        self.names = [column.name for column in columns]
        self.keys: dict[str, KeyType] = {
            column.name: key_type(column.source_type) for column in columns if column.kind == "key"
        }
        self.specs = np.array([self._spec(column) for column in columns], np.uint32).reshape(-1, 4)
        """[columns, 4]: kind, rank, and how keys are stored."""

    def _spec(self, column: ColumnSchema) -> tuple[int, int, int, int]:
        keys = self.keys.get(column.name)
        return _KINDS[column.kind], column.rank, keys.values if keys else 0, keys.width if keys else 0


def _wrong_value(column: ColumnSchema, value: object, expected: str) -> BadInput:
    kind = getattr(value, "dtype", getattr(value, "type", ""))
    found = f"{type(value).__name__} {kind} {getattr(value, 'shape', '')}".strip()
    return BadInput(f"column {column.name!r}: its converter must return {expected}, got {found}")


def place_cell(cell: bytes, position: int) -> bytes:
    """The cell with the padding that aligns its payload when the cell starts at byte `position` of its file."""
    padding = -(position + HEADER_BYTES) % ALIGNMENT
    if padding == 0:
        return cell
    head = cell[:_PADDING_AT] + bytes([padding]) + cell[_PADDING_AT + 1 : HEADER_BYTES]
    return head + bytes(padding) + cell[HEADER_BYTES:]


def decoded_bytes(cell: bytes | bytearray) -> int:
    """The memory that the cell takes when it is read."""
    layout, length_bytes = cell[5], cell[8]
    raw = int.from_bytes(cell[40:48], "little")
    if layout in (DENSE, KEYS):
        return raw
    dims = np.frombuffer(cell, np.uint32, 3, 12)
    num_lengths = int(np.prod(dims[: cell[9]], dtype=np.int64))
    num_ids, num_distinct = int.from_bytes(cell[24:32], "little"), int.from_bytes(cell[32:36], "little")
    lengths = 4 * num_lengths if length_bytes else 0
    return lengths + (8 * num_ids if layout == PLAIN_IDS else 8 * num_distinct + 4 * num_ids)
