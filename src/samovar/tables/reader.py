"""Rows of a table as records, in order, decoded ahead by threads of this process. Its whole state is one integer.

consumer ──asks──▶ blocks of a few rows ──▶ [downloaders: bytes] ──▶ parsers: decode ──▶ in order, tensors made
                   as many ahead as fit into max_cache_size

What lies uncompressed in memory and was checked before needs no threads: its tensors are made when they are asked for.

Rows that several read one ahead of the other, decoded once: an hour is evaluated first, and trained on next.

    training               evaluation
        ▼                      ▼
        [ kept for training   ]  the reader goes on ──▶
          at most max_kept_bytes

Who comes last to a block is given it, all others before him copies: what one does to its tensors no other sees.
Whoever finds a row no longer kept, or not near, reads for himself.
"""

import os
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from samovar.errors import BadInput, Damaged
from samovar.native import DecodedRow, RowDecoder
from samovar.tables.files import Places, Source, TableFile
from samovar.tables.record import Record, make_rows

ROWS_PER_BLOCK = 8
DEFAULT_CACHE_BYTES = 64 << 20
POOLED_BYTES = 64 << 20
SPARE_BYTES = 4096  # of a block, for alignment; lengths that are all one are in memory, but not in its size: twice that


@dataclass(frozen=True)
class Reading:
    """How to read. None of it changes what is read."""

    num_downloaders: int
    num_parsers: int
    max_cache_size: int
    is_light: bool
    """Cells are used where they lie, and they stay in memory: there is little to parse."""
    may_map: bool
    """Cells may be used where they lie: those of an uncompressed table."""

    @classmethod
    def choose(
        cls,
        num_downloaders: int | None,
        num_parsers: int | None,
        max_cache_size: int | None,
        *,
        is_light: bool = False,
        may_map: bool = True,
    ) -> Self:
        """What the user gave, and for the rest what suits the machine: one parser where there is little to parse, since
        more of them only take the interpreter's lock from the consumer."""
        given = {"num_downloaders": num_downloaders, "num_parsers": num_parsers, "max_cache_size": max_cache_size}
        for name, value in given.items():
            if value is not None and value < 1:
                raise BadInput(f"{name}: found {value}; expected 1 or more: give more, or leave it out")
        cores = os.cpu_count() or 1
        enough = 1 if is_light else min(3, cores)
        return cls(
            num_downloaders or min(4, cores),
            num_parsers or enough,
            max_cache_size or DEFAULT_CACHE_BYTES,
            is_light,
            may_map,
        )


@dataclass(frozen=True)
class ReaderState:
    """Where a reader is, and of what: enough to go on later, elsewhere."""

    table_id: str
    version: int
    columns: tuple[str, ...]
    row: int
    """The next one to hand out."""

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "columns": list(self.columns)}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Self:
        return cls(**{**record, "columns": tuple(record["columns"])})


@dataclass(frozen=True)
class Block:
    """Some neighbouring rows of one file."""

    file: TableFile
    places: Places
    """Of the wanted cells in the file, [rows, columns, 2]."""
    row: int
    """In the table, of the first."""
    hours: Sequence[tuple[int | None, int]]
    """Hour and number of examples of each row."""
    sizes: Sequence[int]
    """Memory that each row takes."""
    checked: NDArray[np.bool_]
    """Which rows had the right checksums when they were read before; the parser writes here."""

    @property
    def num_bytes(self) -> int:
        return sum(self.sizes)


@dataclass(frozen=True)
class Parsed:
    """A block in memory."""

    block: Block
    decoded: DecodedRow
    source: Source
    is_mapped: bool
    """Cells may lie in the file that was mapped."""

    @property
    def end(self) -> int:
        """The row after its last."""
        return self.block.row + len(self.block.sizes)

    def records(self, names: Sequence[str]) -> Iterator[Record]:
        """Its minibatches; `names` are those of the columns that were read."""
        rows = make_rows(names, self.decoded, self.source.data, len(self.block.hours))
        for index, ((hour, num_examples), values) in enumerate(zip(self.block.hours, rows, strict=True)):
            yield Record(values, self.block.row + index, hour, num_examples, is_private=not self.is_mapped)


class BlockReader(Iterator[Parsed]):
    """Hands out blocks in order. Close it, or read to the end."""

    def __init__(self, blocks: Iterator[Block], names: Sequence[str], reading: Reading) -> None:
        self._names = names
        self._reading = reading
        self._decoder = RowDecoder(POOLED_BYTES)
        self._parsed = self._read(blocks)

    def __next__(self) -> Parsed:
        return next(self._parsed)

    def close(self) -> None:
        self._parsed.close()

    def _read(self, blocks: Iterator[Block]) -> Generator[Parsed, None, None]:
        downloaders = ThreadPoolExecutor(self._reading.num_downloaders, thread_name_prefix="download")
        parsers = ThreadPoolExecutor(self._reading.num_parsers, thread_name_prefix="parse")
        waiting: deque[tuple[Block, Future[Parsed] | None]] = deque()
        cached = 0
        upcoming = next(blocks, None)
        try:
            while upcoming is not None or waiting:
                while upcoming is not None and (
                    not waiting or cached + upcoming.num_bytes <= self._reading.max_cache_size
                ):
                    is_ready = self._reading.is_light and bool(upcoming.checked.all())
                    waiting.append((upcoming, None if is_ready else self._parse_ahead(upcoming, downloaders, parsers)))
                    cached += upcoming.num_bytes
                    upcoming = next(blocks, None)
                block, parsed = waiting.popleft()
                yield parsed.result() if parsed else self._parse(block)
                cached -= block.num_bytes
        finally:
            # Nobody waits for their end: an abandoned reader is ended by the garbage collector, on any thread, be it
            # one of these, and in the middle of starting another, when it holds a lock that `Thread.join` needs. But no
            # file is read any more.
            for pool in (downloaders, parsers):
                pool.shutdown(wait=False, cancel_futures=True)
            self._decoder.close()

    def _parse_ahead(
        self, block: Block, downloaders: ThreadPoolExecutor, parsers: ThreadPoolExecutor
    ) -> Future[Parsed]:
        is_here = block.file.can_map
        return parsers.submit(
            self._parse, block, None if is_here else downloaders.submit(block.file.fetch, block.places)
        )

    def _parse(self, block: Block, download: Future[Source] | None = None) -> Parsed:
        """All cells of the block in one call, and nothing else: every line of Python here would fight with the
        consumer for the interpreter's lock, and lose more time on that than the line takes."""
        source = block.file.fetch(block.places) if download is None else download.result()
        try:
            decoded = self._decoder.decode(
                source.data,
                source.places.reshape(-1, 2),
                max_bytes=2 * block.num_bytes + SPARE_BYTES,
                are_checked=bool(block.checked.all()),
                may_map=self._reading.may_map,
            )
            block.checked[:] = True
            return Parsed(block, decoded, source, self._reading.may_map)
        except ValueError as error:
            what, cell = error.args
            row, column = divmod(cell, len(self._names))
            raise Damaged(
                f"{block.file.name}: row {block.row + row}, column {self._names[column]!r}: its cell {what}; "
                "expected the bytes that were written: restore the file from a copy, or brew the table again"
            ) from error


class TableReader(Iterator[Record]):
    """Hands out records one by one. Close it, or read to the end."""

    def __init__(self, blocks: Iterator[Block], start: ReaderState, reading: Reading) -> None:
        self._start = start
        self.position = start.row
        """The next row to hand out."""
        self._records = self._read(BlockReader(blocks, start.columns, reading))

    def __next__(self) -> Record:
        record = next(self._records)
        self.position = record.row + 1
        return record

    @property
    def state(self) -> ReaderState:
        return replace(self._start, row=self.position)

    def close(self) -> None:
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
                yield from parsed.records(self._start.columns)


@dataclass(eq=False)
class _Follower:
    row: int
    """The next one that it wants."""


class SharedRows:
    """Some columns of a table, for all who read them in order. For one thread."""

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
        self._kept: deque[Parsed] = deque()
        self._kept_bytes = 0
        self._first, self._end = 0, 0
        """Rows [first, end) are kept."""
        self._rows_read, self._bytes_read = 0, 0

    def read(self, start: int, stop: int) -> Generator[Record, None, None]:
        """The rows [start, stop). Close it, or read to the end."""
        if not self._is_near(start):
            with self._read_alone(start, stop) as reader:
                yield from reader
            return
        follower = _Follower(start)
        self._join(follower)
        try:
            while follower.row < stop:
                with closing(self._read_some(follower, stop)) as records:
                    for record in records:
                        follower.row = record.row + 1
                        if follower.row == stop:
                            self._leave(follower)  # it may never be asked to go on
                        yield record
        finally:
            self._leave(follower)

    def _is_near(self, row: int) -> bool:
        """Whether all between it and what was read can be kept for those who come later."""
        return self._reader is None or (row - self._end) * self._bytes_read <= self._max_kept_bytes * self._rows_read

    def _join(self, follower: _Follower) -> None:
        if self._reader is None:
            self._reader = self._open_blocks(follower.row)
            self._first = self._end = follower.row
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
        if follower.row < self._first:
            with self._read_alone(follower.row, min(stop, self._first)) as reader:
                yield from reader
            return
        parsed = self._take(follower)
        for record in parsed.records(self.names):
            if follower.row <= record.row < stop:
                yield record

    def _take(self, follower: _Follower) -> Parsed:
        while follower.row >= self._end:
            self._read_on()
        parsed = next(each for each in self._kept if follower.row < each.end)
        if self._is_wanted(parsed, besides=follower):
            return replace(parsed, decoded=parsed.decoded.copy())
        while self._first < parsed.end:
            self._forget_first()
        return parsed

    def _is_wanted(self, parsed: Parsed, besides: _Follower | None = None) -> bool:
        return any(each.row < parsed.end for each in self._followers if each is not besides)

    def _read_on(self) -> None:
        assert self._reader is not None
        parsed = next(self._reader)
        self._kept.append(parsed)
        self._end = parsed.end
        self._kept_bytes += parsed.block.num_bytes
        self._bytes_read += parsed.block.num_bytes
        self._rows_read += len(parsed.block.sizes)
        while self._kept_bytes > self._max_kept_bytes and len(self._kept) > 1:
            self._forget_first()

    def _forget_first(self) -> None:
        parsed = self._kept.popleft()
        self._first = parsed.end
        self._kept_bytes -= parsed.block.num_bytes
