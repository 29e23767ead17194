"""The seam of brewing engines: an engine sorts the rows of a source. It does not know what becomes of them."""

import importlib
from abc import ABC, abstractmethod
from collections.abc import Collection, Generator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from samovar.brewing.arrays import as_numpy, hashable
from samovar.brewing.clock import Clock
from samovar.brewing.order import DATE, GRANULAR, Order
from samovar.brewing.progress import Progress
from samovar.brewing.rates import Rate, sum_columns
from samovar.brewing.row_filter import ALL_ROWS, RowFilter
from samovar.brewing.sources import FILE, ROW, Source
from samovar.errors import ConfigError
from samovar.native import hash_array, hash_integers
from samovar.seeds import derive

_ENGINES = {
    "duckdb": "samovar.brewing.engines.duckdb:DuckDBEngine",
    "memory": "samovar.brewing.engines.memory:MemoryEngine",
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

    @property
    def _derived_seed(self) -> int:
        assert self.shuffle_seed is not None
        return derive(self.shuffle_seed, "shuffle")


class Engine(ABC):
    def __init__(self, memory_limit_bytes: int | None = None, progress: Progress | None = None) -> None:
        self.memory_limit_bytes = memory_limit_bytes
        """What sorting may use. None means the engine's default."""
        self.progress = progress or Progress()

    @abstractmethod
    def sorted(self, query: Query) -> Generator[pa.RecordBatch]:
        """`query.columns` and `query.added_columns` of all rows, by the order's key, then by file and row number."""


def find_engine(name: str, memory_limit_bytes: int | None = None, progress: Progress | None = None) -> Engine:
    if name not in _ENGINES:
        raise ConfigError(f"no engine {name!r}. Available: {', '.join(_ENGINES)}")
    module, _, attribute = _ENGINES[name].partition(":")
    engine: Engine = getattr(importlib.import_module(module), attribute)(memory_limit_bytes, progress)
    return engine
