"""A tensor table as a whole: its versions, schema, hours, and the way to read it. Knows no training."""

import os
from bisect import bisect_right
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from samovar import native
from samovar.config.values import nearest
from samovar.errors import BadInput, Conflict, Damaged, NotOurs, UnknownColumn
from samovar.store import LocalStore, Store
from samovar.tables.cell import Compression
from samovar.tables.files import Places, TableFile
from samovar.tables.manifest import FileEntry, HourEntry, Manifest, list_versions, read_manifests
from samovar.tables.reader import (
    DEFAULT_CACHE_BYTES,
    ROWS_PER_BLOCK,
    Block,
    BlockReader,
    ReaderState,
    Reading,
    SharedRows,
    TableReader,
)
from samovar.tables.schema import TableSchema
from samovar.tables.writer import MAX_ROW_MEMORY, NO_HOUR


class Table:
    """One version of a tensor table; a later version does not change what this one reads."""

    def __init__(self, store: Store, manifests: Sequence[Manifest]) -> None:
        self.store = store
        self.name = store.name
        self._manifests = manifests
        self._checked: dict[tuple[str, tuple[int, ...]], tuple[Hashable | None, NDArray[np.bool_]]] = {}

    @property
    def id(self) -> str:
        return self._manifests[0].table_id

    @property
    def version(self) -> int:
        return self._manifests[-1].version

    @property
    def versions(self) -> list[int]:
        """All versions that there are now."""
        return list_versions(self.store)

    @property
    def schema(self) -> TableSchema:
        return self._manifests[-1].schema

    @property
    def columns(self) -> list[str]:
        return self.schema.names

    @property
    def manifests(self) -> Sequence[Manifest]:
        """Of this version and all before it."""
        return self._manifests

    @property
    def compression(self) -> str:
        return self._manifests[-1].compression

    @property
    def complete_until(self) -> int | None:
        """Of a live table: all hours before this one are here."""
        return self._manifests[-1].complete_until

    @property
    def num_rows(self) -> int:
        """Minibatches."""
        last = self._manifests[-1].segment
        return last.first_row + last.num_rows

    @property
    def num_examples(self) -> int:
        return sum(manifest.segment.num_examples for manifest in self._manifests)

    @cached_property
    def hours(self) -> Mapping[int | None, range]:
        """Rows of each hour (seconds since 1970 UTC), in order; an offline table has all rows under None."""
        rows: dict[int | None, range] = {}
        for entry in self._hour_entries():
            start = rows[entry.hour].start if entry.hour in rows else entry.first_row
            rows[entry.hour] = range(start, entry.first_row + entry.num_rows)
        return rows

    def file_of(self, row: int) -> str:
        """The path of the file that holds a row."""
        last = 0
        for manifest in self._manifests:
            for entry in manifest.segment.files:
                last += entry.num_rows
                if row < last:
                    return entry.path
        raise BadInput(f"{self.name}: row {row} was asked for; it has {last}: choose rows inside it")

    def rows_between(self, start_hour: int, end_hour: int) -> range:
        """Rows of the hours [start_hour, end_hour)."""
        found = [rows for hour, rows in self.hours.items() if hour is not None and start_hour <= hour < end_hour]
        return range(found[0].start, found[-1].stop) if found else range(0)

    def _hour_entries(self) -> Iterator[HourEntry]:
        for manifest in self._manifests:
            yield from manifest.segment.hours

    def batch_sizes(self) -> dict[int, int]:
        """How many minibatches there are of each number of examples."""
        counts: Counter[int] = Counter()
        for manifest in self._manifests:
            for entry in manifest.segment.files:
                counts.update(self._file(manifest, entry).rows["num_examples"].tolist())
        return dict(counts)

    def read(
        self,
        columns: Sequence[str] | None = None,
        start: int = 0,
        stop: int | None = None,
        *,
        num_downloaders: int | None = None,
        num_parsers: int | None = None,
        max_cache_size: int | None = None,
    ) -> TableReader:
        """Rows [start, stop) as records, in order. The last three are chosen from the machine when absent.

        >>> for record in open_table("clicks").read(["BannerText", "IsClick"]):
        ...     record["BannerText"].data, record["BannerText"].data_len, record["IsClick"]
        """
        wanted = self._find(self.columns if columns is None else columns)
        last = self.num_rows if stop is None else stop
        if not 0 <= start <= last <= self.num_rows:
            raise BadInput(
                f"{self.name}: rows {start} to {last} were asked for; it has {self.num_rows}: choose rows inside it"
            )
        reading = self._reading(num_downloaders, num_parsers, max_cache_size)
        blocks = self._blocks(start, last, [number for number, _ in wanted], reading.max_cache_size)
        return self._reader(blocks, wanted, start, reading)

    def _reading(self, num_downloaders: int | None, num_parsers: int | None, max_cache_size: int | None) -> Reading:
        codec = Compression.parse(self.compression).codec
        native.require_codec(codec)
        may_map = codec == "none"
        is_light = may_map and self.store.can_map and self._fits_into_memory
        return Reading.choose(num_downloaders, num_parsers, max_cache_size, is_light=is_light, may_map=may_map)

    @property
    def _fits_into_memory(self) -> bool:
        """What was read once is then still there when it is read again."""
        size = sum(entry.size for manifest in self.manifests for entry in manifest.segment.files)
        return size < os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2

    def _reader(
        self, blocks: Iterator[Block], wanted: Sequence[tuple[int, str]], start: int, reading: Reading
    ) -> TableReader:
        state = ReaderState(self.id, self.version, tuple(name for _, name in wanted), start)
        return TableReader(blocks, state, reading)

    def read_rows(
        self,
        rows: Sequence[int],
        columns: Sequence[str] | None = None,
        *,
        num_downloaders: int | None = None,
        num_parsers: int | None = None,
        max_cache_size: int | None = None,
    ) -> TableReader:
        """Rows in any order, for example an epoch's. A range of neighbours is read as `read` does."""
        if isinstance(rows, range) and rows.step == 1:
            return self.read(
                columns, rows.start, max(rows.start, rows.stop),
                num_downloaders=num_downloaders, num_parsers=num_parsers, max_cache_size=max_cache_size,
            )  # fmt: skip
        wanted = self._find(self.columns if columns is None else columns)
        reading = self._reading(num_downloaders, num_parsers, max_cache_size)
        return self._reader(self._single_blocks(rows, [number for number, _ in wanted]), wanted, 0, reading)

    def share(
        self,
        columns: Sequence[str],
        *,
        num_downloaders: int | None = None,
        num_parsers: int | None = None,
        max_cache_size: int | None = None,
        max_kept_bytes: int | None = None,
    ) -> SharedRows:
        """For several who read rows one ahead of the other: each is decoded once."""
        wanted = self._find(columns)
        reading = replace(self._reading(num_downloaders, num_parsers, max_cache_size), is_light=False, may_map=False)

        def open_blocks(start: int) -> BlockReader:
            blocks = self._blocks(start, self.num_rows, [number for number, _ in wanted], reading.max_cache_size)
            return BlockReader(blocks, columns, reading)

        def read_alone(start: int, stop: int) -> TableReader:
            return self.read(
                columns, start, stop,
                num_downloaders=num_downloaders, num_parsers=num_parsers, max_cache_size=max_cache_size,
            )  # fmt: skip

        return SharedRows(columns, open_blocks, read_alone, max_kept_bytes or DEFAULT_CACHE_BYTES)

    def row_of(self, state: ReaderState, columns: Sequence[str]) -> int:
        """The row at which a reader's state goes on here: in the same table, or one that only grew since."""
        problems = []
        if state.table_id != self.id:
            problems.append(f"of table {state.table_id}, this is {self.id}")
        if state.version > self.version:
            problems.append(f"of version {state.version}, this is {self.version}")
        if state.columns != tuple(columns):
            problems.append(f"with columns {', '.join(state.columns)}, not {', '.join(columns)}")
        if problems:
            raise Conflict(
                f"{self.name}: the position to go on from is {'; '.join(problems)}; expected the same table or one "
                "that extends it, and the same columns: read the table that it was made with, or start anew"
            )
        return state.row

    def _find(self, names: Sequence[str]) -> list[tuple[int, str]]:
        numbers = {name: number for number, name in enumerate(self.columns)}
        for name in names:
            if name not in numbers:
                guess = nearest(name, self.columns)
                hint = f"did you mean {guess!r}?" if guess else f"it has {', '.join(self.columns)}"
                raise UnknownColumn(f"{self.name}: no column {name!r}; {hint}: fix `columns`, or brew it")
        return [(numbers[name], name) for name in names]

    def _blocks(self, start: int, stop: int, numbers: list[int], max_bytes: int) -> Iterator[Block]:
        row = 0
        for manifest in self._manifests:
            for entry in manifest.segment.files:
                first, last = max(start - row, 0), min(stop - row, entry.num_rows)
                if first < last:
                    file = self._file(manifest, entry)
                    yield from self._blocks_of(file, row, first, last, numbers, max_bytes)
                row += entry.num_rows

    def _single_blocks(self, rows: Sequence[int], numbers: list[int]) -> Iterator[Block]:
        """A block for each row, in the order that is asked for; each file is opened once."""
        starts, files, count = [], [], 0
        for manifest in self._manifests:
            for entry in manifest.segment.files:
                starts.append(count)
                files.append(self._file(manifest, entry))
                count += entry.num_rows
        opened: dict[int, _FileRows] = {}
        for row in rows:
            if not 0 <= row < count:
                raise BadInput(f"{self.name}: row {row} was asked for; it has {count}: choose rows inside it")
            number = bisect_right(starts, row) - 1
            if number not in opened:
                opened[number] = self._file_rows(files[number], starts[number], numbers)
            yield opened[number].block(row - starts[number], 1)

    def _file(self, manifest: Manifest, entry: FileEntry) -> TableFile:
        """Opened anew for each reading: who changes a tensor of an uncompressed table in place changes only the
        mapping that it was read from."""
        return TableFile(self.store, entry, len(manifest.schema.columns))

    def _checked_rows(self, file: TableFile, numbers: list[int]) -> NDArray[np.bool_]:
        """Which rows of the file were found whole in these columns; none of them any more when the file has changed."""
        key, stamp = (file.entry.path, tuple(numbers)), file.stamp
        last_stamp, rows = self._checked.get(key, (None, None))
        if rows is None or stamp is None or stamp != last_stamp:
            rows = np.zeros(file.entry.num_rows, np.bool_)
            self._checked[key] = stamp, rows
        return rows

    def _blocks_of(
        self, file: TableFile, file_row: int, first: int, last: int, numbers: list[int], max_bytes: int
    ) -> Iterator[Block]:
        """Cut so that one block never fills the cache, if more than one row is in it."""
        rows = self._file_rows(file, file_row, numbers)
        while first < last:
            count, size = 1, rows.sizes[first]
            while count < min(ROWS_PER_BLOCK, last - first) and size + rows.sizes[first + count] <= max_bytes // 4:
                size += rows.sizes[first + count]
                count += 1
            yield rows.block(first, count)
            first += count

    def _file_rows(self, file: TableFile, file_row: int, numbers: list[int]) -> "_FileRows":
        sizes = file.cells["decoded"][:, numbers].sum(axis=1, dtype=int).tolist()
        hours = [(None if hour == NO_HOUR else hour, count) for hour, count in file.rows.tolist()]
        return _FileRows(file, file_row, sizes, hours, file.places(numbers), self._checked_rows(file, numbers))


@dataclass(frozen=True)
class _FileRows:
    """What is known of all rows of a file before they are read."""

    file: TableFile
    row: int
    """In the table, of the first."""
    sizes: list[int]
    hours: list[tuple[int | None, int]]
    places: Places
    checked: NDArray[np.bool_]

    def block(self, first: int, count: int) -> Block:
        for row in range(first, first + count):
            if self.sizes[row] > MAX_ROW_MEMORY:
                raise Damaged(
                    f"{self.file.name}: row {self.row + row} claims {self.sizes[row]:,} bytes of memory; expected at "
                    f"most {MAX_ROW_MEMORY:,}, as every writer keeps to: restore the file from a copy, or brew the "
                    "table again"
                )
        rows = slice(first, first + count)
        return Block(
            self.file, self.places[rows], self.row + first, self.hours[rows], self.sizes[rows], self.checked[rows]
        )


def open_table(path: Path | str | Store, version: int | None = None) -> Table:
    """The table in a folder, its newest version unless another is named."""
    store = path if isinstance(path, Store) else LocalStore(path)
    if isinstance(store, LocalStore) and not store.root.is_dir():
        raise NotOurs(f"{store.root}: nothing there; expected a tensor table: brew one, or check the path")
    return Table(store, read_manifests(store, version))
