"""The seam of brewing engines: an engine brings our functions to the files of a source, and to its rows, sorted and cut
into parts. It does not know what becomes of them.

map_files   a function of one file:  fingerprint and types, rows per hour, statistics
map_parts   a function of one part:  join, cut, convert, write
"""

import importlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import pyarrow as pa

from samovar.brewing.arrays import as_numpy, hashable
from samovar.brewing.clock import Clock
from samovar.brewing.order import DATE, GRANULAR, NO_UNIT, SHUFFLE, Order
from samovar.brewing.parts import OnRows, Part, PartSplitter
from samovar.brewing.progress import Progress
from samovar.brewing.rates import Rate, sum_columns
from samovar.brewing.row_filter import ALL_ROWS, RowFilter
from samovar.brewing.sources import FILE, ROW, Source
from samovar.errors import ConfigError
from samovar.native import hash_array, hash_integers
from samovar.seeds import derive

T = TypeVar("T")
OnRead = Callable[[int], object]
"""Called with the number of bytes that were read since the last call."""
FileFunction = Callable[[int, OnRead], T]
"""A function of a file, by its number in the source. Engines may send it to other processes as a pickle."""
PartFunction = Callable[[Part, Sequence[Generator[pa.RecordBatch]], OnRows], T]
"""A function of a part and of its rows, one sorted stream per query. The same holds for it. It may be called twice for
one part, at the same time too."""
_ENGINES = {
    "duckdb": "samovar.brewing.engines.duckdb:DuckDBEngine",
    "memory": "samovar.brewing.engines.memory:MemoryEngine",
    "spark": "samovar.brewing.engines.spark:SparkEngine",
}


@dataclass(frozen=True)
class Query:
    """Rows of a source in a promised order."""

    source: Source
    schema: pa.Schema
    """The schema of the scanned source."""
    columns: tuple[str, ...]
    order: Order
    clock: Clock | None = None
    """Adds the dates and drops rows outside its range. A row whose time is null comes first, with null dates."""
    shuffle_seed: int | None = None
    rates: tuple[Rate, ...] = ()
    """Adds the sums of outcomes, which rows before the clock's range count for too."""
    row_filter: RowFilter = ALL_ROWS
    """Which rows there are at all."""
    is_sorted: bool = False
    """Whether the rows have the order and its key already. It is checked when they are joined."""

    @property
    def read_columns(self) -> list[str]:
        """The columns to read from the files."""
        extra = [self.order.pivot, self.order.stability, self.clock.field if self.clock else None]
        extra += [column for rate in self.rates for column in (rate.of, *rate.by)]
        return list(dict.fromkeys([*self.columns, *(column for column in extra if column is not None)]))

    def read(self, columns: Sequence[str], files: Collection[int] | None = None) -> Generator[pa.RecordBatch]:
        """The rows as they are in the files, with `columns` and each row's place. `files` chooses files by number."""
        return self.row_filter.read(self.source, self.schema, columns, files)

    @property
    def added_columns(self) -> list[str]:
        """What the engine returns beside `columns`: the key that it sorted by, the sums of `rates`, and each row's
        place in its source."""
        dates = [DATE, GRANULAR] if self.clock else []
        dates += [name for number in range(len(self.rates)) for name in sum_columns(number)]
        return [name for name in dict.fromkeys([*dates, *self.order.key, FILE, ROW]) if name not in self.columns]

    def seconds(self, times: pa.Array, files: pa.Array, rows: pa.Array) -> pa.Array:
        """The times of rows in seconds. A time that cannot be read is named with its place."""
        assert self.clock is not None
        return self.clock.seconds(times, lambda row: self.source.locate(files[row].as_py(), rows[row].as_py()))

    def shuffle_pivots(self, pivots: pa.Array) -> pa.Array:
        """Random numbers to sort groups by: XXH64 of the pivot with the seed derive(seed, "shuffle")."""
        return hash_array(hashable(pivots), self._derived_seed)

    def shuffle_places(self, files: pa.Array, rows: pa.Array) -> pa.Array:
        """Random numbers to sort rows by: the same hash, of file number << 40 | row number."""
        words = (as_numpy(files).astype(np.uint64) << np.uint64(40)) | as_numpy(rows).astype(np.uint64)
        return pa.array(hash_integers(words, self._derived_seed))

    def with_keys(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Raw rows with the columns of the order's key that are computed: the dates, or the hash to shuffle by."""
        if self.clock is not None:
            seconds = self.seconds(rows.column(self.clock.field), rows.column(FILE), rows.column(ROW))
            rows = rows.append_column(DATE, seconds).append_column(GRANULAR, self.clock.granules(seconds))
        if SHUFFLE in self.order.key:
            pivot = self.order.pivot
            places = self.shuffle_places(rows.column(FILE), rows.column(ROW)) if pivot is None else None
            rows = rows.append_column(SHUFFLE, places or self.shuffle_pivots(rows.column(pivot)))
        return rows

    def in_range(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Those of the rows, with their keys, that the clock takes."""
        if self.clock is None or (self.clock.start is None and self.clock.stop is None):
            return rows
        return rows.filter(self.clock.in_range(rows.column(DATE)))

    @property
    def _derived_seed(self) -> int:
        assert self.shuffle_seed is not None
        return derive(self.shuffle_seed, "shuffle")


@dataclass(frozen=True)
class CountRows:
    """Counts the rows in each unit of one file."""

    query: Query

    def __call__(self, file: int, on_read: OnRead) -> Mapping[int, int]:
        query, counts = self.query, Counter[int]()
        column = query.order.unit_column
        assert column is not None
        needed = [column] if query.is_sorted else [query.clock.field] if query.clock else []
        if not query.is_sorted and query.order.is_shuffled and query.order.pivot is not None:
            needed = [query.order.pivot]
        with closing(query.read(needed, [file])) as batches:
            for batch in batches:
                rows = batch if query.is_sorted else query.in_range(query.with_keys(batch))
                units, sizes = np.unique(query.order.units(rows.column(column)), return_counts=True)
                counts.update(dict(zip(units.tolist(), sizes.tolist(), strict=True)))
                on_read(rows.num_rows)
        return {unit: size for unit, size in counts.items() if unit != NO_UNIT}


class Engine(ABC):
    """Brings functions to files and to parts. Use it as a context manager: it may hold processes or connections."""

    is_remote: ClassVar[bool] = False
    """Whether the functions run on other machines."""

    def __init__(self, memory_limit_bytes: int | None = None, progress: Progress | None = None) -> None:
        self.memory_limit_bytes = memory_limit_bytes
        """What sorting may use. None means the engine's default."""
        self.progress = progress or Progress()

    @abstractmethod
    def map_files(self, source: Source, function: FileFunction[T]) -> Iterator[T]:
        """What a function returns for each file, in the order of the files."""

    @abstractmethod
    def map_parts(self, queries: Sequence[Query], parts: Sequence[Part], make_part: PartFunction[T]) -> Generator[T]:
        """What a function returns for each part, in the order of parts. The parts are all rows of the first query;
        rows of other queries are cut at the same units."""

    def count_rows(self, query: Query) -> Mapping[int, int]:
        """The number of rows in each unit of the order."""
        self.progress.begin("counting rows")
        total: Counter[int] = Counter()
        for counts in self.map_files(query.source, CountRows(query)):
            total.update(counts)
        return total

    def close(self) -> None:
        """Give back what the engine holds."""
        return

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def begin_writing(self, parts: Sequence[Part]) -> OnRows:
        """A function that reports written rows. With its first call, writing begins."""
        known = [part.num_rows for part in parts if part.num_rows is not None]
        total = sum(known) if len(known) == len(parts) else None
        has_begun = False

        def report(num_rows: int) -> None:
            nonlocal has_begun
            if not has_begun:
                has_begun = True
                self.progress.begin("writing", total)
            self.progress.advance(num_rows)

        return report


class LocalEngine(Engine):
    """An engine that sorts in this process."""

    @abstractmethod
    def sorted(self, query: Query) -> Generator[pa.RecordBatch]:
        """`query.columns` and `query.added_columns` of all rows, by the order's key, then by file and row number."""

    def map_files(self, source: Source, function: FileFunction[T]) -> Iterator[T]:
        for number in range(len(source.files)):
            yield function(number, self.progress.advance)

    def map_parts(self, queries: Sequence[Query], parts: Sequence[Part], make_part: PartFunction[T]) -> Generator[T]:
        report = self.begin_writing(parts)
        with ExitStack() as stack:
            splitters = [stack.enter_context(self.split(query)) for query in queries]
            for part in parts:
                yield make_part(part, [splitter.read(part) for splitter in splitters], report)

    @contextmanager
    def split(self, query: Query) -> Iterator[PartSplitter]:
        """The rows of a query, to be read part by part."""
        rows = query.read(query.columns) if query.is_sorted or not query.order.key else self.sorted(query)
        with closing(rows):
            yield PartSplitter(rows, query.order)


def find_engine(
    name: str,
    memory_limit_bytes: int | None = None,
    progress: Progress | None = None,
    options: Mapping[str, Any] = MappingProxyType({}),
) -> Engine:
    """An engine by its name, with the options that a recipe gives it."""
    if name not in _ENGINES:
        raise ConfigError(f"no engine {name!r}. Available: {', '.join(_ENGINES)}")
    module, _, attribute = _ENGINES[name].partition(":")
    engine: Engine = getattr(importlib.import_module(module), attribute)(memory_limit_bytes, progress, **options)
    return engine
