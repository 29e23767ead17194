"""The limit: only zstd over the cells of a table, memory to memory. Verifies nothing and makes no tensors.

zstandard's own threads decompress the frames of several minibatches per call: Python is called once for thousands of
frames and holds no lock meanwhile. Its buffers are freed before the next call, so malloc can reuse them.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import zstandard
from benchmarks.loaders.base import Batch

from samovar.tables import Table
from samovar.tables.cell import HEADER_BYTES
from samovar.tables.files import TableFile

ROWS_PER_CALL = 40
ZSTD = 1
_CODEC_AT, _PADDING_AT, _RAW_BYTES = 6, 10, slice(40, 48)


@dataclass(frozen=True)
class Frames:
    """Compressed cells of a few minibatches."""

    data: Any
    sizes: bytes
    """Decompressed size of each frame, uint64."""


def find_frames(table: Table) -> list[Frames]:
    found = []
    for entry in table.manifests[-1].segment.files:
        cells = TableFile(table.store, entry, len(table.columns)).cells
        content = bytes(table.store.map(entry.path))
        for first in range(0, entry.num_minibatches, ROWS_PER_CALL):
            rows = cells[first : first + ROWS_PER_CALL].ravel()
            found.append(_pack([content[cell["offset"] : cell["offset"] + cell["size"]] for cell in rows]))
    return found


def _pack(cells: list[bytes]) -> Frames:
    packed = [cell for cell in cells if cell[_CODEC_AT] == ZSTD]  # the others did not compress
    frames = [cell[HEADER_BYTES + cell[_PADDING_AT] :] for cell in packed]
    ends = np.cumsum([0, *map(len, frames)], dtype=np.uint64)
    places = np.stack([ends[:-1], np.diff(ends)], axis=1)
    sizes = b"".join(cell[_RAW_BYTES] for cell in packed)
    return Frames(zstandard.BufferWithSegments(b"".join(frames), places.tobytes()), sizes)


def decompress(found: Sequence[Frames], ready: Sequence[Batch], threads: int) -> Iterator[Batch]:
    """Yields ready-made tensors as soon as the cells of their minibatches are decompressed."""
    decompressor = zstandard.ZstdDecompressor()

    def run(frames: Frames) -> None:
        decompressor.multi_decompress_to_buffer(frames.data, decompressed_sizes=frames.sizes, threads=threads)

    with ThreadPoolExecutor(1) as pool:
        for number, _ in enumerate(pool.map(run, found)):
            yield from ready[number * ROWS_PER_CALL : (number + 1) * ROWS_PER_CALL]
