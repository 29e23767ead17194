"""A tensor table as a whole: its versions, schema, hours, and the way to read it. Knows no training."""

import os
from bisect import bisect_right
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from samovar import native
from samovar.config.places import PathLike, as_place
from samovar.config.values import suggest
from samovar.errors import BadInput, Conflict, CorruptData, UnknownColumn
from samovar.hours import Period
from samovar.notebook import html_table
from samovar.results.directory import check_place
from samovar.store import Store, open_store
from samovar.tables.blocks import FileContents
from samovar.tables.cell import CellColumns, Compression
from samovar.tables.dataset import RecordDataset
from samovar.tables.files import TableFile
from samovar.tables.manifest import FileEntry, HourEntry, Manifest, list_versions, read_manifests
from samovar.tables.reader import (
    DEFAULT_CACHE_BYTES,
    Block,
    BlockReader,
    ReaderState,
    ReadOptions,
    ReadPlan,
    SharedReader,
    TableReader,
)
from samovar.tables.schema import TableSchema
from samovar.tables.writer import NO_HOUR


class Table(RecordDataset):
    """One version of a tensor table: a table whose row is a ready minibatch. Made by `open_table`.

    Later versions do not change what this one reads.

    A table is a `torch.utils.data.IterableDataset` of `Record`. Give it to a `DataLoader` with `batch_size=None`, since
    a record is a minibatch already, and without workers, since the table reads ahead in threads. `state_dict` and
    `load_state_dict` save and restore the place, exactly. `select` leaves out columns, which are then not read.

    Args:
        store: The directory.
        manifests: Those of the versions up to this one.

    Example:
        >>> table = samovar.open_table("clicks")
        >>> table
        Table(clicks, version 1: 2 minibatches, 6 examples, user, clicked)
        >>> for record in table.read(["clicked"]):
        ...     print(record.number, record["clicked"])
        0 tensor([0., 1., 0.])
        1 tensor([1., 1., 0.])

        In an ordinary training loop, resumed after the first minibatch:

        >>> from torch.utils.data import DataLoader
        >>> data = table.select(["clicked"])
        >>> for record in DataLoader(data, batch_size=None):
        ...     break
        >>> again = samovar.open_table("clicks").select(["clicked"])
        >>> again.load_state_dict(data.state_dict())
        >>> for record in DataLoader(again, batch_size=None):
        ...     print(record.number, record["clicked"])
        1 tensor([1., 1., 0.])
    """

    def __init__(self, store: Store, manifests: Sequence[Manifest]) -> None:
        super().__init__()
        self.store = store
        self.name = store.name
        self._manifests = manifests
        self._selected: Sequence[str] | None = None
        self._checked: dict[tuple[str, tuple[int, ...]], tuple[Hashable | None, NDArray[np.bool_]]] = {}

    @property
    def id(self) -> str:
        """A hash of the recipe and its sources."""
        return self._manifests[0].table_id

    @property
    def version(self) -> int:
        """The version that was opened."""
        return self._manifests[-1].version

    @property
    def versions(self) -> Sequence[int]:
        """All versions that exist now."""
        return list_versions(self.store)

    @property
    def schema(self) -> TableSchema:
        """The columns that are selected, all by default."""
        schema = self._manifests[-1].schema
        if self._selected is None:
            return schema
        return replace(schema, columns=tuple(schema.columns[number] for number, _ in self._find(self._selected)))

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return self.schema.names

    def select(self, columns: Sequence[str]) -> Self:
        """The same table with fewer columns, or in another order. No byte of other columns is read.

        Args:
            columns: The names to keep.

        Returns:
            A table with these columns, whose loops and `state_dict` are its own.

        Raises:
            UnknownColumn: The table has no such column.

        Example:
            >>> samovar.open_table("clicks").select(["clicked"]).columns
            ['clicked']
        """
        selected = copy(self)
        RecordDataset.__init__(selected)
        selected._selected = [name for _, name in self._find(columns)]
        return selected

    @property
    def manifests(self) -> Sequence[Manifest]:
        """The manifests of this version and of all earlier ones."""
        return self._manifests

    @property
    def compression(self) -> str:
        """How the cells are compressed."""
        return self._manifests[-1].compression

    @property
    def period(self) -> Period:
        """What an online table is split by: an hour unless its recipe has another `uri`."""
        return self._manifests[-1].period

    @property
    def complete_until(self) -> int | None:
        """Of a live table: all hours before this one are present. Seconds since 1970 UTC."""
        return self._manifests[-1].complete_until

    @property
    def num_minibatches(self) -> int:
        """How many minibatches there are."""
        last = self._manifests[-1].segment
        return last.first_minibatch + last.num_minibatches

    @property
    def num_examples(self) -> int:
        """How many examples there are."""
        return sum(manifest.segment.num_examples for manifest in self._manifests)

    def __len__(self) -> int:
        """The number of minibatches."""
        return self.num_minibatches

    def __bool__(self) -> bool:
        return True  # an empty table is a table

    def __repr__(self) -> str:
        sizes = f"{self.num_minibatches} minibatches, {self.num_examples} examples"
        return f"Table({self.name}, version {self.version}: {sizes}, {', '.join(self.columns)})"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        title = (
            f"{self.name}, version {self.version}: {self.num_minibatches:,} minibatches, {self.num_examples:,} examples"
        )
        sizes = self.column_bytes()
        rows = [(each.name, each.kind, each.rank, f"{sizes[each.name]:,}") for each in self.schema.columns]
        return html_table(title, ("column", "kind", "rank", "bytes"), rows)

    @cached_property
    def hours(self) -> Mapping[int | None, range]:
        """The minibatches of each hour, or other period, by its start (seconds since 1970 UTC), in order; those of an
        offline table are under None."""
        numbers: dict[int | None, range] = {}
        for entry in self._hour_entries():
            start = numbers[entry.hour].start if entry.hour in numbers else entry.first_minibatch
            numbers[entry.hour] = range(start, entry.first_minibatch + entry.num_minibatches)
        return numbers

    def file_of(self, minibatch: int) -> str:
        """The path of the file that holds a minibatch.

        Args:
            minibatch: Its number.
        """
        last = 0
        for manifest in self._manifests:
            for entry in manifest.segment.files:
                last += entry.num_minibatches
                if minibatch < last:
                    return entry.path
        raise self._no_minibatch(minibatch)

    def minibatches_between(self, start_hour: int, end_hour: int) -> range:
        """The minibatches of the hours [start_hour, end_hour).

        Args:
            start_hour: The first hour, in seconds since 1970 UTC.
            end_hour: The hour to stop before.
        """
        found = [numbers for hour, numbers in self.hours.items() if hour is not None and start_hour <= hour < end_hour]
        return range(found[0].start, found[-1].stop) if found else range(0)

    def _hour_entries(self) -> Iterator[HourEntry]:
        for manifest in self._manifests:
            yield from manifest.segment.hours

    def batch_sizes(self) -> dict[int, int]:
        """The number of minibatches of each size, by number of examples."""
        counts: Counter[int] = Counter()
        for manifest in self._manifests:
            for entry in manifest.segment.files:
                counts.update(self._file(manifest, entry).minibatches["num_examples"].tolist())
        return dict(counts)

    def column_bytes(self) -> dict[str, int]:
        """How many bytes the cells of each column take in the files."""
        sizes: Counter[str] = Counter()
        for manifest in self._manifests:
            sizes.update(manifest.segment.column_bytes)
        return {name: sizes[name] for name in self.columns}

    def read(
        self,
        columns: Sequence[str] | None = None,
        start: int = 0,
        stop: int | None = None,
        options: ReadOptions = ReadOptions(),
    ) -> TableReader:
        """Read the minibatches [start, stop) as records, in order.

        Args:
            columns: The columns to read, all by default. No byte of other columns is touched.
            start: The first minibatch.
            stop: The one after the last, the table's end by default.
            options: Threads and memory, chosen from the machine by default.

        Returns:
            An iterator of `Record`. Close it, or read to its end.

        Raises:
            UnknownColumn: The table has no such column.
            BadInput: The table does not have these minibatches.

        Example:
            >>> for record in samovar.open_table("clicks").read(["user"]):
            ...     print(record.number, record["user"].data)
            0 tensor([124, 456])
            1 tensor([124, 789])
        """
        wanted = self._find(self.columns if columns is None else columns)
        last = self.num_minibatches if stop is None else stop
        if not 0 <= start <= last <= self.num_minibatches:
            if last - start == 1:
                raise self._no_minibatch(start)
            raise BadInput(f"{self.name} has {self.num_minibatches} minibatches, got a range from {start} to {last}")
        plan = self._plan(options)
        blocks = self._blocks(start, last, [number for number, _ in wanted], plan.max_cache_size)
        return self._reader(blocks, wanted, start, plan)

    def _no_minibatch(self, number: int) -> BadInput:
        if self.num_minibatches == 0:
            return BadInput(f"{self.name} has no minibatches, got {number}")
        return BadInput(f"{self.name} has minibatches 0 to {self.num_minibatches - 1}, got {number}")

    def _plan(self, options: ReadOptions) -> ReadPlan:
        codec = Compression.parse(self.compression).codec
        native.require_codec(codec)
        may_map = codec == "none"
        is_light = may_map and self.store.can_map and self._fits_into_memory
        return ReadPlan.choose(options, is_light=is_light, may_map=may_map, is_remote=not self.store.can_map)

    @property
    def _fits_into_memory(self) -> bool:
        """If so, what was read once is still in the page cache when it is read again."""
        size = sum(entry.size for manifest in self.manifests for entry in manifest.segment.files)
        return size < os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2

    def _reader(
        self, blocks: Iterator[Block], wanted: Sequence[tuple[int, str]], start: int, plan: ReadPlan
    ) -> TableReader:
        state = replace(self.state_at(start), columns=tuple(name for _, name in wanted))
        return TableReader(blocks, state, plan)

    def state_at(self, minibatch: int) -> ReaderState:
        """The state of a reader of all selected columns whose next minibatch is this one.

        Args:
            minibatch: Its number.
        """
        return ReaderState(self.id, self.version, tuple(self.columns), minibatch)

    def read_minibatches(
        self,
        numbers: Iterable[int],
        columns: Sequence[str] | None = None,
        options: ReadOptions = ReadOptions(),
    ) -> TableReader:
        """Read minibatches in any order, for example that of a shuffled epoch. A contiguous range is read by `read`.

        Args:
            numbers: Their numbers.
            columns: The columns to read. Default: all.
            options: Threads and memory. Default: chosen from the machine.
        """
        if isinstance(numbers, range) and numbers.step == 1:
            return self.read(columns, numbers.start, max(numbers.start, numbers.stop), options)
        wanted = self._find(self.columns if columns is None else columns)
        blocks = self._single_blocks(numbers, [number for number, _ in wanted])
        return self._reader(blocks, wanted, 0, self._plan(options))

    def share(
        self,
        columns: Sequence[str],
        options: ReadOptions = ReadOptions(),
        max_kept_bytes: int | None = None,
    ) -> SharedReader:
        """A reader for several consumers, one ahead of the other, that decodes each minibatch once.

        Args:
            columns: The columns to read.
            options: Threads and memory. Default: chosen from the machine.
            max_kept_bytes: How much may be kept for the consumers behind. Default: the size of the cache.
        """
        wanted = self._find(columns)
        plan = replace(self._plan(options), is_light=False, may_map=False)

        def open_blocks(start: int) -> BlockReader:
            blocks = self._blocks(start, self.num_minibatches, [number for number, _ in wanted], plan.max_cache_size)
            return BlockReader(blocks, plan)

        def read_alone(start: int, stop: int) -> TableReader:
            return self.read(columns, start, stop, options)

        return SharedReader(columns, open_blocks, read_alone, max_kept_bytes or DEFAULT_CACHE_BYTES)

    def position_of(self, state: ReaderState) -> int:
        """The minibatch at which a reader's state continues: in the same table, or one that only grew since.

        Args:
            state: A reader's.

        Raises:
            Conflict: It belongs to another table, a later version or other columns.
        """
        problems = []
        if state.table_id != self.id:
            problems.append(f"of table {state.table_id}, this is {self.id}")
        if state.version > self.version:
            problems.append(f"of version {state.version}, this is {self.version}")
        if state.columns != tuple(self.columns):
            problems.append(f"with columns {', '.join(state.columns)}, not {', '.join(self.columns)}")
        if problems:
            raise Conflict(
                f"{self.name}: the saved position is {'; '.join(problems)}. It is valid only for the same table, or "
                "one that extends it, and the same columns"
            )
        return state.minibatch

    def _find(self, names: Sequence[str]) -> list[tuple[int, str]]:
        stored = self._manifests[-1].schema.names
        kept = stored if self._selected is None else self._selected
        numbers = {name: stored.index(name) for name in kept}
        for name in names:
            if name not in numbers:
                raise UnknownColumn(f"{self.name}: no column {name!r}{suggest(name, numbers)}")
        return [(numbers[name], name) for name in names]

    def _blocks(self, start: int, stop: int, numbers: list[int], max_bytes: int) -> Iterator[Block]:
        before = 0
        for manifest in self._manifests:
            for entry in manifest.segment.files:
                first, last = max(start - before, 0), min(stop - before, entry.num_minibatches)
                if first < last:
                    contents = self._contents(manifest, self._file(manifest, entry), before, numbers)
                    yield from contents.blocks(first, last, max_bytes)
                before += entry.num_minibatches

    def _single_blocks(self, minibatches: Iterable[int], numbers: list[int]) -> Iterator[Block]:
        """One block per minibatch, in the order given; each file is opened once."""
        starts, files, count = [], [], 0
        for manifest in self._manifests:
            for entry in manifest.segment.files:
                starts.append(count)
                files.append((manifest, self._file(manifest, entry)))
                count += entry.num_minibatches
        opened: dict[int, FileContents] = {}
        for minibatch in minibatches:
            if not 0 <= minibatch < count:
                raise self._no_minibatch(minibatch)
            file = bisect_right(starts, minibatch) - 1
            if file not in opened:
                opened[file] = self._contents(*files[file], starts[file], numbers)
            yield opened[file].block(minibatch - starts[file], 1)

    def _file(self, manifest: Manifest, entry: FileEntry) -> TableFile:
        """Opened again for each reader: a tensor of an uncompressed table that is changed in place changes only the
        mapping that it was read from."""
        return TableFile(self.store, entry, len(manifest.schema.columns))

    def _checked_minibatches(self, file: TableFile, numbers: list[int]) -> NDArray[np.bool_]:
        """Which minibatches of the file passed their checksums in these columns; none when the file has changed."""
        key, stamp = (file.entry.path, tuple(numbers)), file.stamp
        last_stamp, checked = self._checked.get(key, (None, None))
        if checked is None or stamp is None or stamp != last_stamp:
            checked = np.zeros(file.entry.num_minibatches, np.bool_)
            self._checked[key] = stamp, checked
        return checked

    def _contents(self, manifest: Manifest, file: TableFile, first: int, numbers: list[int]) -> FileContents:
        sizes = file.cells["decoded"][:, numbers].sum(axis=1, dtype=int).tolist()
        hours = [None if hour == NO_HOUR else hour for hour in file.minibatches["hour"].tolist()]
        num_examples = np.ascontiguousarray(file.minibatches["num_examples"])
        try:
            columns = CellColumns([manifest.schema.columns[number] for number in numbers])
        except BadInput as error:
            raise CorruptData(f"{self.name}: the schema of version {manifest.version}: {error}") from error
        checked = self._checked_minibatches(file, numbers)
        return FileContents(file, columns, first, sizes, hours, num_examples, file.places(numbers), checked)


def open_table(place: PathLike | Store, version: int | None = None) -> Table:
    """Open the tensor table in a directory.

    Args:
        place: Its path or URL, or a store.
        version: An earlier version; the newest by default.

    Returns:
        The table, pinned to that version.

    Raises:
        NotAResult: There is no table.
        BadInput: The table has no such version.

    Example:
        >>> table = samovar.open_table("clicks")
        >>> table.num_minibatches, table.num_examples, table.columns
        (2, 6, ['user', 'clicked'])
    """
    if isinstance(place, Store):
        store = place
    else:
        store = open_store(as_place(place, "the table"))
        check_place(store, "table")
    return Table(store, read_manifests(store, version))
