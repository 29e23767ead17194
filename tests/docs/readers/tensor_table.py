"""Another reader of tensor tables, written from docs/tensor_table.md alone."""

import json
import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lz4.block
import numpy as np
import pyarrow as pa
import xxhash
import zstandard
from tests.docs.readers.result_directory import read_attributes

DENSE, IDS, DISTINCT, KEYS = range(4)
NULL, BITS, FIXED, BYTES, TEXT = range(5)
UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32}


@dataclass(frozen=True)
class Bag:
    data: Any
    data_len: Any


@dataclass(frozen=True)
class Row:
    hour: int | None
    num_examples: int
    values: dict[str, Any]


def read_table(directory: Path) -> Iterator[Row]:
    """All minibatches of the newest version."""
    for number, epoch in enumerate(read_attributes(directory)["versions"], 1):
        manifest = json.loads((directory / f"manifest/{number:06d}.e{epoch}.json").read_text())
        assert (manifest["format"], manifest["version"]) == (3, number)
        columns = {column["name"]: column["source_type"] for column in manifest["schema"]["columns"]}
        _check_segment(manifest["segment"])
        for file in manifest["segment"]["files"]:
            path = file["path"].replace(f"segments/{number:06d}/", f"segments/{number:06d}.e{epoch}/")
            yield from _read_file((directory / path).read_bytes(), file, columns)


def _check_segment(segment: dict[str, Any]) -> None:
    row = segment["first_minibatch"]
    for hour in segment["hours"]:
        assert hour["first_minibatch"] == row
        row += hour["num_minibatches"]
    assert (
        row - segment["first_minibatch"]
        == segment["num_minibatches"]
        == sum(file["num_minibatches"] for file in segment["files"])
    )


def _read_file(data: bytes, file: dict[str, Any], columns: dict[str, str]) -> Iterator[Row]:
    assert (len(data), xxhash.xxh64(data).hexdigest()) == (file["size"], file["checksum"])
    num_minibatches, begin = file["num_minibatches"], file["index_at"]
    heads_size, cells_size = 16 * num_minibatches, 16 * num_minibatches * len(columns)
    index = data[begin : begin + heads_size + cells_size]
    assert xxhash.xxh64(index).hexdigest() == file["index_checksum"]
    heads = list(struct.iter_unpack("<qQ", index[:heads_size]))
    cells = struct.iter_unpack("<QII", index[heads_size:])
    for hour, num_examples in heads:
        values = {}
        for name, source_type in columns.items():
            offset, size, decoded = next(cells)
            cell = data[offset : offset + size]
            assert compute_decoded(cell) == decoded
            values[name] = read_cell(cell, source_type)
        yield Row(None if hour == -(2**63) else hour, num_examples, values)


def compute_decoded(cell: bytes) -> int:
    layout, len_width, rank = cell[5], cell[8], cell[9]
    num_ids, num_distinct, _, raw_size = struct.unpack_from("<QIIQ", cell, 24)
    num_lengths = math.prod(struct.unpack_from(f"<{rank}I", cell, 12)) if len_width else 0
    if layout == IDS:
        return int(8 * num_ids + 4 * num_lengths)
    return int(8 * num_distinct + 4 * num_ids + 4 * num_lengths if layout == DISTINCT else raw_size)


def read_cell(cell: bytes, source_type: str) -> Any:
    magic, version, layout, codec, width, len_width, rank, padding, has_nulls = struct.unpack_from("<4s8B", cell)
    shape, (num_ids, num_distinct, _, raw_size, checksum) = (
        struct.unpack_from("<3I", cell, 12),
        struct.unpack_from("<QIIQQ", cell, 24),
    )
    assert (magic, version) == (b"SMVC", 2)
    stored = cell[56 + padding :]
    seed = xxhash.xxh64_intdigest(cell[:10] + b"\0" + cell[11:48])
    assert xxhash.xxh64_intdigest(stored, seed) == checksum
    payload = _decompress(stored, codec, raw_size)
    assert len(payload) == raw_size
    if layout == KEYS:
        return _read_keys(payload, shape[0], width, len_width or num_distinct, bool(has_nulls), source_type)
    if layout == DENSE:
        assert width == 1
        return np.frombuffer(payload, "<f4").reshape(shape[:rank])
    return _read_bag(payload, num_distinct if layout == DISTINCT else None, num_ids, width, len_width, shape[:rank])


def _decompress(stored: bytes, codec: int, raw_size: int) -> bytes:
    if codec == 1:
        return zstandard.ZstdDecompressor().decompress(stored, raw_size)
    return lz4.block.decompress(stored, raw_size) if codec == 2 else stored


def _read_keys(payload: bytes, count: int, stored: int, width: int, has_nulls: bool, source_type: str) -> pa.Array:
    first = {NULL: 0, BITS: -(-count // 8), FIXED: count * width}.get(stored, (count + 1) * width)
    end = first + (-(-count // 8) if has_nulls else 0)
    buffers = [pa.py_buffer(payload[first:end]) if has_nulls else None, pa.py_buffer(payload[:first])]
    if stored in (BYTES, TEXT):
        buffers.append(pa.py_buffer(payload[end:]))
    array = pa.Array.from_buffers(pa.type_for_alias(source_type), count, buffers)
    array.validate(full=True)
    return array


def _read_bag(
    payload: bytes, num_distinct: int | None, num_ids: int, width: int, len_width: int, shape: tuple[int, ...]
) -> Bag:
    num_stored = num_ids if num_distinct is None else num_distinct
    data = np.frombuffer(payload, "<u8", num_stored)
    at = 8 * num_stored
    if num_distinct is not None:
        data = data[np.frombuffer(payload, UNSIGNED[width], num_ids, at)]
        at += width * num_ids
    count = math.prod(shape)
    if len_width == 0:
        return Bag(data, np.ones(shape, np.int32))
    lengths = np.frombuffer(payload, UNSIGNED[len_width], count, at)
    assert at + len_width * count == len(payload)
    return Bag(data, lengths.astype(np.int32).reshape(shape))
