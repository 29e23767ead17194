"""Reads the minibatches of a table in order, decoded ahead by threads of this process. A reader's state is one integer.

consumer ──asks──▶ blocks of a few minibatches ──▶ [downloaders: bytes] ──▶ parsers: decode ──▶ in order, as tensors
                   as many ahead as fit into max_cache_size

Blocks that are uncompressed, mapped and already verified need no threads: their tensors are made on demand.

`SharedReader` serves several readers, one ahead of the other, and decodes each block once: an hour is evaluated first
and trained on next.

    training               evaluation
        ▼                      ▼
        [ kept for training   ]  the reader goes on ──▶
          at most max_kept_bytes

The last reader of a block takes ownership; earlier readers get copies, so no reader sees another's changes. A reader
that wants a minibatch which is no longer kept, or too far ahead, reads it by itself.
"""

import os
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from samovar.errors import BadInput, CorruptData
from samovar.native import DecodedMinibatches, MinibatchDecoder
from samovar.tables.cell import CellColumns
from samovar.tables.files import Places, Source, TableFile
from samovar.tables.record import Record, make_minibatches

MINIBATCHES_PER_BLOCK = 8
REMOTE_BLOCK_BYTES = 8 << 20  # a request over a network takes as long as some hundred kilobytes
_MAX_DOWNLOADERS = 16
_FIRST_AHEAD = 2  # blocks
DEFAULT_CACHE_BYTES = 64 << 20
POOLED_BYTES = 64 << 20


@dataclass(frozen=True)
class ReadOptions:
    """How to read a table: threads and memory. No option changes what is read.

    Example:
        >>> options = ReadOptions(num_parsers=1, max_cache_size=16 << 20)
        >>> samovar.open_table("clicks").read(options=options).close()
    """

    num_downloaders: int | None = None
    """Threads that fetch bytes; chosen from the machine by default, like the next two."""
    num_parsers: int | None = None
    """Threads that decode minibatches."""
    max_cache_size: int | None = None
    """Bytes of decoded minibatches that may wait."""

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if value is not None and value < 1:
                raise BadInput(f"{name} must be at least 1, got {value}")

    def divided(self, count: int) -> "ReadOptions":
        """The options of each of `count` readers that share one cache.

        Args:
            count: The number of readers.
        """
        share = None if self.max_cache_size is None else max(1, self.max_cache_size // count)
        return replace(self, max_cache_size=share)


@dataclass(frozen=True)
class ReadPlan:
    """`ReadOptions` with every choice made."""

    num_downloaders: int
    num_parsers: int
    max_cache_size: int
    is_light: bool
    """Cells are used in place and stay in memory, so there is little to parse."""
    may_map: bool
    """Cells may be used in place, as those of an uncompressed table can."""
    is_adaptive: bool = False
    """Downloads at once are as many as the consumer turns out to need."""

    @classmethod
    def choose(
        cls, options: ReadOptions, *, is_light: bool = False, may_map: bool = True, is_remote: bool = False
    ) -> Self:
        """One parser where there is little to parse: more would only compete with the consumer for the GIL."""
        cores = os.cpu_count() or 1
        return cls(
            options.num_downloaders or (_MAX_DOWNLOADERS if is_remote else min(4, cores)),
            options.num_parsers or (1 if is_light else min(3, cores)),
            options.max_cache_size or DEFAULT_CACHE_BYTES,
            is_light,
            may_map,
            is_adaptive=is_remote and options.num_downloaders is None,
        )


@dataclass(frozen=True)
class ReaderState:
    """The position of a reader, and the table it belongs to: enough to continue later, on another machine."""

    table_id: str
    version: int
    columns: tuple[str, ...]
    minibatch: int
    """The next one to return."""

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "columns": list(self.columns)}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Self:
        return cls(**{**record, "columns": tuple(record["columns"])})


@dataclass(frozen=True)
class Block:
    """A few neighbouring minibatches of one file."""

    file: TableFile
    columns: CellColumns
    """The columns that are read."""
    places: Places
    """Of their cells in the file, [minibatches, columns, 3]."""
    first: int
    """Number of its first minibatch in the table."""
    hours: Sequence[int | None]
    num_examples: NDArray[np.uint64]
    """Of each minibatch."""
    sizes: Sequence[int]
    """Memory that each minibatch takes."""
    checked: NDArray[np.bool_]
    """Which minibatches already passed their checksums; the parser writes here."""

    @property
    def num_bytes(self) -> int:
        return sum(self.sizes)

    def damaged(self, index: int, column: str, what: str) -> CorruptData:
        """The error for one cell of the minibatch at `index`."""
        return CorruptData(
            f"{self.file.name}: minibatch {self.first + index}, column {column!r}: its cell {what}. "
            "Restore the file from a copy, or brew the table again"
        )


@dataclass(frozen=True)
class DecodedBlock:
    """A block in memory."""

    block: Block
    decoded: DecodedMinibatches
    source: Source
    is_mapped: bool
    """Cells may be in the mapped file itself."""

    @property
    def end(self) -> int:
        """The number after its last minibatch."""
        return self.block.first + len(self.block.sizes)

    def records(self) -> Iterator[Record]:
        """Its minibatches."""
        block, counts = self.block, self.block.num_examples.tolist()
        minibatches = make_minibatches(block.columns, self.decoded, self.source.data, counts)
        for index, (hour, num_examples) in enumerate(zip(block.hours, counts, strict=True)):
            try:
                values = next(minibatches)
            except ValueError as error:
                what, column = error.args
                raise block.damaged(index, column, what) from error
            yield Record(values, block.first + index, hour, num_examples, is_private=not self.is_mapped)


class BlockReader(Iterator[DecodedBlock]):
    """Returns decoded blocks in order. Close it, or read to the end."""

    def __init__(self, blocks: Iterator[Block], plan: ReadPlan) -> None:
        self._plan = plan
        self._decoder = MinibatchDecoder(POOLED_BYTES)
        self._parsed = self._read(blocks)

    def __next__(self) -> DecodedBlock:
        return next(self._parsed)

    def close(self) -> None:
        self._parsed.close()

    def _read(self, blocks: Iterator[Block]) -> Generator[DecodedBlock, None, None]:
        downloaders = ThreadPoolExecutor(self._plan.num_downloaders, thread_name_prefix="download")
        parsers = ThreadPoolExecutor(self._plan.num_parsers, thread_name_prefix="parse")
        waiting: deque[tuple[Block, Future[DecodedBlock] | None]] = deque()
        cached = 0
        ahead = _FIRST_AHEAD if self._plan.is_adaptive else sys.maxsize
        upcoming = next(blocks, None)
        try:
            while upcoming is not None or waiting:
                while upcoming is not None and (
                    not waiting or (cached + upcoming.num_bytes <= self._plan.max_cache_size and len(waiting) < ahead)
                ):
                    is_ready = self._plan.is_light and bool(upcoming.checked.all())
                    waiting.append((upcoming, None if is_ready else self._parse_ahead(upcoming, downloaders, parsers)))
                    cached += upcoming.num_bytes
                    upcoming = next(blocks, None)
                block, parsed = waiting.popleft()
                if parsed is not None and not parsed.done():  # the consumer waits
                    ahead = min(2 * ahead, sys.maxsize)
                yield parsed.result() if parsed else self._parse(block)
                cached -= block.num_bytes
        finally:
            # Do not wait for the threads: the garbage collector may close an abandoned reader on any thread, even one
            # of these, while it holds a lock that `Thread.join` needs. A closed decoder reads no file.
            for pool in (downloaders, parsers):
                pool.shutdown(wait=False, cancel_futures=True)
            self._decoder.close()

    def _parse_ahead(
        self, block: Block, downloaders: ThreadPoolExecutor, parsers: ThreadPoolExecutor
    ) -> Future[DecodedBlock]:
        is_here = block.file.can_map
        return parsers.submit(
            self._parse, block, None if is_here else downloaders.submit(block.file.fetch, block.places)
        )

    def _parse(self, block: Block, download: Future[Source] | None = None) -> DecodedBlock:
        """All cells of the block in one call and nothing else: a line of Python here delays the consumer, which waits
        for the GIL, by more time than the line takes."""
        source = block.file.fetch(block.places) if download is None else download.result()
        try:
            decoded = self._decoder.decode(
                source.data,
                source.places.reshape(-1, 3),
                block.num_examples,
                block.columns.specs,
                are_checked=bool(block.checked.all()),
                may_map=self._plan.may_map,
            )
            block.checked[:] = True
            return DecodedBlock(block, decoded, source, self._plan.may_map)
        except ValueError as error:
            what, cell = error.args
            index, column = divmod(cell, len(block.columns.names))
            raise block.damaged(index, block.columns.names[column], what) from error


class TableReader(Iterator[Record]):
    """Returns the records of a table one by one; made by `Table.read`. Close it, or read to the end.

    Args:
        blocks: What to read, in order.
        start: The state before the first record.
        plan: Columns, threads and memory.

    Example:
        >>> with samovar.open_table("clicks").read(["clicked"]) as reader:
        ...     record = next(reader)
        >>> reader.position
        1
    """

    def __init__(self, blocks: Iterator[Block], start: ReaderState, plan: ReadPlan) -> None:
        self._start = start
        self.position = start.minibatch
        """The next minibatch to return."""
        self._records = self._read(BlockReader(blocks, plan))

    def __next__(self) -> Record:
        record = next(self._records)
        self.position = record.number + 1
        return record

    @property
    def state(self) -> ReaderState:
        """Where to continue; see `Table.position_of`."""
        return replace(self._start, minibatch=self.position)

    def close(self) -> None:
        """Stop reading ahead."""
        self._records.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _read(self, blocks: BlockReader) -> Generator[Record, None, None]:
        with closing(blocks):
            for parsed in blocks:
                yield from parsed.records()


@dataclass(eq=False)
class _Follower:
    next: int
    """The next minibatch that it needs."""


class SharedReader:
    """Some columns of a table, for several readers that each go forward. Use it from one thread."""

    def __init__(
        self,
        names: Sequence[str],
        open_blocks: Callable[[int], BlockReader],
        read_alone: Callable[[int, int], TableReader],
        max_kept_bytes: int,
    ) -> None:
        self.names = names
        self._open_blocks = open_blocks
        self._read_alone = read_alone
        self._max_kept_bytes = max_kept_bytes
        self._followers: list[_Follower] = []
        self._reader: BlockReader | None = None
        self._kept: deque[DecodedBlock] = deque()
        self._kept_bytes = 0
        self._first, self._end = 0, 0
        """Minibatches [first, end) are kept."""
        self._num_read, self._bytes_read = 0, 0

    def read(self, start: int, stop: int) -> Generator[Record, None, None]:
        """The minibatches [start, stop). Close it, or read to the end."""
        if not self._is_near(start):
            with self._read_alone(start, stop) as reader:
                yield from reader
            return
        follower = _Follower(start)
        self._join(follower)
        try:
            while follower.next < stop:
                with closing(self._read_some(follower, stop)) as records:
                    for record in records:
                        follower.next = record.number + 1
                        if follower.next == stop:
                            self._leave(follower)  # this generator may never be resumed
                        yield record
        finally:
            self._leave(follower)

    def _is_near(self, number: int) -> bool:
        """Whether everything between what was read and this minibatch can be kept for the other readers."""
        return self._reader is None or (number - self._end) * self._bytes_read <= self._max_kept_bytes * self._num_read

    def _join(self, follower: _Follower) -> None:
        if self._reader is None:
            self._reader = self._open_blocks(follower.next)
            self._first = self._end = follower.next
        self._followers.append(follower)

    def _leave(self, follower: _Follower) -> None:
        if follower not in self._followers:
            return
        self._followers.remove(follower)
        while self._kept and not self._is_wanted(self._kept[0]):
            self._forget_first()
        if self._reader is not None and not self._followers:
            self._reader.close()
            self._reader = None

    def _read_some(self, follower: _Follower, stop: int) -> Generator[Record, None, None]:
        if follower.next < self._first:
            with self._read_alone(follower.next, min(stop, self._first)) as reader:
                yield from reader
            return
        parsed = self._take(follower)
        for record in parsed.records():
            if follower.next <= record.number < stop:
                yield record

    def _take(self, follower: _Follower) -> DecodedBlock:
        while follower.next >= self._end:
            self._read_on()
        parsed = next(each for each in self._kept if follower.next < each.end)
        if self._is_wanted(parsed, ignoring=follower):
            return replace(parsed, decoded=parsed.decoded.copy())
        while self._first < parsed.end:
            self._forget_first()
        return parsed

    def _is_wanted(self, parsed: DecodedBlock, ignoring: _Follower | None = None) -> bool:
        return any(each.next < parsed.end for each in self._followers if each is not ignoring)

    def _read_on(self) -> None:
        assert self._reader is not None
        parsed = next(self._reader)
        self._kept.append(parsed)
        self._end = parsed.end
        self._kept_bytes += parsed.block.num_bytes
        self._bytes_read += parsed.block.num_bytes
        self._num_read += len(parsed.block.sizes)
        while self._kept_bytes > self._max_kept_bytes and len(self._kept) > 1:
            self._forget_first()

    def _forget_first(self) -> None:
        parsed = self._kept.popleft()
        self._first = parsed.end
        self._kept_bytes -= parsed.block.num_bytes
