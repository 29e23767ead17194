"""The seam of brewing engines: an engine sorts the rows of a source. It does not know what becomes of them."""

import importlib
from abc import ABC, abstractmethod
from collections.abc import Generator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from samovar.brewing.arrays import as_numpy, hashable
from samovar.brewing.clock import Clock
from samovar.brewing.order import DATE, GRANULAR, Order
from samovar.brewing.progress import Progress
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

    @property
    def read_columns(self) -> list[str]:
        """The columns to read from the files."""
        extra = [self.order.pivot, self.order.stability, self.clock.field if self.clock else None]
        return list(dict.fromkeys([*self.columns, *(column for column in extra if column is not None)]))

    @property
    def added_columns(self) -> list[str]:
        """What the engine returns beside `columns`: the key that it sorted by, and each row's place in its source."""
        dates = [DATE, GRANULAR] if self.clock else []
        return [name for name in dict.fromkeys([*dates, *self.order.key, FILE, ROW]) if name not in self.columns]

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
