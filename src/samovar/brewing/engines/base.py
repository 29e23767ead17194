"""The seam of brewing engines: they sort the rows of a source. What becomes of sorted rows is no matter of theirs."""

import importlib
from abc import ABC, abstractmethod
from collections.abc import Generator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from samovar.brewing.order import DATE, FILE, GRANULAR, ROW, Clock, Order
from samovar.brewing.progress import Progress
from samovar.brewing.ragged import as_numpy, hashable
from samovar.brewing.sources import Source
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
    """As `Engine.scan_schema` gave it."""
    columns: tuple[str, ...]
    order: Order
    clock: Clock | None = None
    """Adds the dates, and leaves rows outside its range out. A row whose time is null comes first, with null dates."""
    shuffle_seed: int | None = None

    @property
    def read_columns(self) -> list[str]:
        """What is needed from the files."""
        extra = [self.order.pivot, self.order.stability, self.clock.field if self.clock else None]
        return list(dict.fromkeys([*self.columns, *(column for column in extra if column is not None)]))

    @property
    def added_columns(self) -> list[str]:
        """What the engine puts beside `columns`: the key it sorted by, and each row's place in its source."""
        dates = [DATE, GRANULAR] if self.clock else []
        return [name for name in dict.fromkeys([*dates, *self.order.key, FILE, ROW]) if name not in self.columns]

    def shuffle_pivots(self, pivots: pa.Array) -> pa.Array:
        """Random numbers to sort groups by: XXH64 of the pivot with the seed derive(seed, "shuffle")."""
        return hash_array(hashable(pivots), self._shuffle_word)

    def shuffle_places(self, files: pa.Array, rows: pa.Array) -> pa.Array:
        """Random numbers to sort rows by: the same of the word that has the file's number above the row's 40 bits."""
        words = (as_numpy(files).astype(np.uint64) << np.uint64(40)) | as_numpy(rows).astype(np.uint64)
        return pa.array(hash_integers(words, self._shuffle_word))

    @property
    def _shuffle_word(self) -> int:
        assert self.shuffle_seed is not None
        return derive(self.shuffle_seed, "shuffle")


class Engine(ABC):
    progress: Progress | None = None
    """Who wants to know how far a sort is."""

    @abstractmethod
    def scan_schema(self, source: Source, notes: list[str] | None = None) -> pa.Schema:
        """The columns that every file of a source has, with one type for all files. `notes` gets what the user should
        look at."""

    @abstractmethod
    def sorted(self, query: Query) -> Generator[pa.RecordBatch]:
        """`query.columns` and `query.added_columns` of all rows, by the order's key, then by file and row number."""


def find_engine(name: str, memory_limit_bytes: int | None = None) -> Engine:
    if name not in _ENGINES:
        raise ConfigError(f"engine {name!r}: unknown, expected one of {', '.join(_ENGINES)}: choose one of them")
    module, _, attribute = _ENGINES[name].partition(":")
    engine: Engine = getattr(importlib.import_module(module), attribute)(memory_limit_bytes)
    return engine
