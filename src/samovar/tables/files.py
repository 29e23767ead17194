"""The cells of a table's files: their places, and the bytes to decode them from. Knows no threads."""

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samovar.errors import CorruptData, NotFound
from samovar.hours import FIRST_HOUR, LAST_HOUR
from samovar.native import hash_bytes
from samovar.store import Store
from samovar.tables.cell import ALIGNMENT
from samovar.tables.manifest import FileEntry
from samovar.tables.writer import (
    CELL_INDEX,
    MAX_MINIBATCH_BYTES,
    MAX_MINIBATCH_EXAMPLES,
    MAX_MINIBATCH_MEMORY,
    MINIBATCH_INDEX,
    NO_HOUR,
)

Places = NDArray[np.uint64]
"""[offset, size, size in memory] of each cell."""


@dataclass(frozen=True)
class Source:
    """Bytes that hold the wanted cells of a few minibatches of one file, and the place of each cell in them."""

    data: Any
    places: Places
    """[minibatches, columns, 3]"""


class TableFile:
    """One file of a segment, opened on use."""

    def __init__(self, store: Store, entry: FileEntry, num_columns: int) -> None:
        self._store = store
        self._num_columns = num_columns
        self.entry = entry
        self.name = f"{store.name}/{entry.path}"

    @property
    def can_map(self) -> bool:
        return self._store.can_map

    @cached_property
    def minibatches(self) -> NDArray[np.void]:
        """[minibatches] of (hour, number of examples)."""
        minibatches = np.frombuffer(self._index, MINIBATCH_INDEX, self.entry.num_minibatches)
        counts, hours = minibatches["num_examples"], minibatches["hour"]
        is_large = counts > MAX_MINIBATCH_EXAMPLES
        if is_large.any():
            row = int(is_large.argmax())
            limit = f"{MAX_MINIBATCH_EXAMPLES:,}"
            raise self._wrong_index(row, f"claims {counts[row]:,} examples, more than the limit of {limit}")
        is_beyond = (hours != NO_HOUR) & ((hours < FIRST_HOUR) | (hours > LAST_HOUR))
        if is_beyond.any():
            row = int(is_beyond.argmax())
            raise self._wrong_index(row, f"has hour {hours[row]}, which is beyond the calendar")
        return minibatches

    @cached_property
    def cells(self) -> NDArray[np.void]:
        """[minibatches, columns] of (offset, size, size in memory), all within the file and its limits."""
        skipped = self.entry.num_minibatches * MINIBATCH_INDEX.itemsize
        cells = np.frombuffer(self._index, CELL_INDEX, offset=skipped).reshape(
            self.entry.num_minibatches, self._num_columns
        )
        offset, size, end = cells["offset"], cells["size"], np.uint64(self.entry.index_at)
        is_outside = (offset > end) | (size > end - np.minimum(offset, end))
        if is_outside.any():
            raise self._wrong_index(int(is_outside.any(axis=1).argmax()), "has a cell outside the file")
        for sizes, limit, unit in (
            (size, MAX_MINIBATCH_BYTES + ALIGNMENT * self._num_columns, "bytes"),
            (cells["decoded"], MAX_MINIBATCH_MEMORY, "bytes of memory"),
        ):
            sums = sizes.sum(axis=1, dtype=np.int64)
            if sums.max(initial=0) > limit:
                row = int(sums.argmax())
                raise self._wrong_index(row, f"claims {sums[row]:,} {unit}, more than the limit of {limit:,}")
        return cells

    @cached_property
    def _index(self) -> bytes:
        if self.can_map:
            self._check_size()
        size = self.entry.num_minibatches * (MINIBATCH_INDEX.itemsize + self._num_columns * CELL_INDEX.itemsize)
        if self.entry.index_at + size > self.entry.size:
            raise CorruptData(
                f"{self.name}: the manifest says that the index of its {self.entry.num_minibatches:,} minibatches is "
                "outside the file. Restore the manifest from a copy, or brew the table again"
            )
        try:
            data = self._store.read(self.entry.path, self.entry.index_at, self.entry.index_at + size)
        except NotFound:
            self._check_size()
            raise
        if len(data) != size or f"{hash_bytes(data):016x}" != self.entry.index_checksum:
            raise self._damaged("the index of its cells is damaged")
        return data

    def _wrong_index(self, row: int, what: str) -> CorruptData:
        return self._damaged(f"minibatch {row} of the file {what}")

    def _damaged(self, what: str) -> CorruptData:
        return CorruptData(f"{self.name}: {what}. Restore the file from a copy, or brew the table again")

    @cached_property
    def _mapped(self) -> memoryview:
        return self._store.map(self.entry.path)

    @property
    def stamp(self) -> Hashable | None:
        """Differs once the file was changed; None if each read may bring other bytes, as over a network."""
        return self._store.etag(self.entry.path) if self.can_map else None

    def _check_size(self) -> None:
        """Runs before anything is mapped: reading past the end of a mapped file kills the process."""
        found = self._store.size(self.entry.path)
        if found != self.entry.size:
            state = "the file is missing" if found is None else f"the file has {found:,} bytes"
            raise CorruptData(
                f"{self.name}: {state}, its manifest says {self.entry.size:,}. "
                "Restore it from a copy, or brew the table again"
            )

    def places(self, columns: list[int]) -> Places:
        """The places of the cells of some columns, [minibatches, columns, 3]."""
        wanted = self.cells[:, columns]
        places = np.stack([wanted[name].astype(np.uint64) for name in CELL_INDEX.names or ()], axis=2)
        return np.ascontiguousarray(places)  # the decoder takes slices of it without a copy

    def fetch(self, places: Places) -> Source:
        """The cells at `places`, [minibatches, columns, 3]: mapped if the store can, else read."""
        return Source(self._mapped, places) if self.can_map else self._read(places)

    def _read(self, places: Places) -> Source:
        """Neighbouring cells of a column are read at once."""
        data, moved = bytearray(), places.copy()
        runs = [(column, *run) for column in range(places.shape[1]) for run in _runs(places[:, column])]
        ranges = [(int(places[first, column, 0]), int(places[last, column, :2].sum())) for column, first, last in runs]
        pieces = self._store.read_many(self.entry.path, ranges)
        for (column, first, last), (start, stop), piece in zip(runs, ranges, pieces, strict=True):
            if len(piece) != stop - start:
                raise self._damaged(f"the file is shorter than the {self.entry.size:,} bytes that its manifest says")
            moved[first : last + 1, column, 0] += np.uint64((len(data) - start) % 2**64)  # may wrap, as intended
            data += piece
        return Source(data, moved)


def _runs(places: Places) -> list[tuple[int, int]]:
    """First and last of each run of cells with nothing but length prefixes and padding between them. A cell that starts
    before the end of the last one, which no writer makes, is a run of its own."""
    gaps = places[1:, 0].astype(np.int64) - (places[:-1, 0] + places[:-1, 1]).astype(np.int64)
    cuts = np.flatnonzero((gaps > 64) | (gaps < 0))
    return list(zip([0, *(cuts + 1).tolist()], [*cuts.tolist(), len(places) - 1], strict=True))
