"""Values of a minibatch as cells: bytes with a header, a codec and a checksum. native's cell.h draws the layout.

Here is the writing side and what can be read from a header; `native.MinibatchDecoder` decodes. Knows no files.
"""

import io
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from samovar import native
from samovar.errors import BadInput, ConfigError
from samovar.tables.schema import ColumnSchema, Ids, Value

HEADER_BYTES = 56
ALIGNMENT = 8
DENSE, PLAIN_IDS, DISTINCT_IDS, OPAQUE = range(4)
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
    if not isinstance(value, pa.Array):
        raise _wrong_value(column, value, "an Arrow array")
    return native.encode_opaque(_key_bytes(value), compression.codec, compression.level)


def _wrong_value(column: ColumnSchema, value: object, expected: str) -> BadInput:
    found = f"{type(value).__name__} {getattr(value, 'dtype', '')} {getattr(value, 'shape', '')}".strip()
    return BadInput(f"column {column.name!r}: its converter must return {expected}, got {found}")


def _key_bytes(array: pa.Array) -> bytes:
    """The keys of one minibatch as an Arrow IPC stream of one column."""
    sink = io.BytesIO()
    batch = pa.record_batch([array], names=["key"])
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return sink.getvalue()


def read_keys(data: NDArray[np.uint8]) -> pa.Array:
    with pa.ipc.open_stream(pa.py_buffer(data)) as stream:
        return stream.read_next_batch().column(0)


def place_cell(cell: bytes, position: int) -> bytes:
    """The cell with the padding that aligns its payload when the cell starts at byte `position` of its file."""
    padding = -(position + HEADER_BYTES) % ALIGNMENT
    if padding == 0:
        return cell
    head = cell[:_PADDING_AT] + bytes([padding]) + cell[_PADDING_AT + 1 : HEADER_BYTES]
    return head + bytes(padding) + cell[HEADER_BYTES:]


def decoded_bytes(cell: bytes) -> int:
    """The memory that the cell takes when it is read."""
    layout, length_bytes = cell[5], cell[8]
    raw = int.from_bytes(cell[40:48], "little")
    if layout in (DENSE, OPAQUE):
        return raw
    dims = np.frombuffer(cell, np.uint32, 3, 12)
    num_lengths = int(np.prod(dims[: cell[9]], dtype=np.int64))
    num_ids, num_distinct = int.from_bytes(cell[24:32], "little"), int.from_bytes(cell[32:36], "little")
    lengths = 4 * num_lengths if length_bytes else 0
    return lengths + (8 * num_ids if layout == PLAIN_IDS else 8 * num_distinct + 4 * num_ids)
