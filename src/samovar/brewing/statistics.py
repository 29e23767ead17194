"""Numbers scaled or cut into bins by what all rows of a table look like: one pass over the rows that the table will
have, before they are sorted. The numbers that it learns are kept with the column, so that a row is scored as it was
trained. Knows no recipes.

    standard   (x - mean) / deviation, limited to ±10; missing is 0, the mean     float32 [B]
    bins       the number of the bin, from 0; missing is an empty bag             Ids, lengths [B]

Bins have about the same number of rows. Their edges come from a sample of rows, chosen by a hash of their places: it is
the same for every engine and whatever the order of rows.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from samovar.brewing.arrays import as_numpy
from samovar.brewing.converters import Converter, Locate
from samovar.brewing.engines import Engine, Query
from samovar.brewing.engines.base import OnRead
from samovar.brewing.sources import FILE, ROW
from samovar.errors import BadInput, CorruptData
from samovar.native import hash_integers
from samovar.seeds import derive
from samovar.tables.schema import ColumnSchema, Ids

SAMPLE_ROWS = 1 << 18
MAX_DEVIATIONS = 10.0


@dataclass(frozen=True)
class StandardConverter(Converter):
    """Deviations from the mean."""

    kind = "real"
    role = "standard"
    rank = 1
    mean: float | None = None
    """None: not learned yet."""
    deviation: float | None = None
    """That of a column that never changes is 1."""

    @property
    def options(self) -> dict[str, Any]:
        return {"mean": self.mean, "deviation": self.deviation}

    def convert(self, array: pa.Array, locate: Locate = lambda row: f"row {row}") -> NDArray[np.float32]:
        assert self.mean is not None
        assert self.deviation is not None
        values = _doubles(array)
        scaled = np.clip((values - self.mean) / self.deviation, -MAX_DEVIATIONS, MAX_DEVIATIONS)
        return np.where(np.isnan(values), 0.0, scaled).astype(np.float32)


@dataclass(frozen=True)
class BinnedConverter(Converter):
    """The bin of a number, as an id."""

    kind = "categorical"
    role = "bins"
    rank = 1
    bins: int = 0
    """At most this many."""
    edges: tuple[float, ...] | None = None
    """The first value of each bin but the first, ascending. None: not learned yet."""

    @property
    def options(self) -> dict[str, Any]:
        return {"bins": self.bins, "edges": None if self.edges is None else list(self.edges)}

    def convert(self, array: pa.Array, locate: Locate = lambda row: f"row {row}") -> Ids:
        assert self.edges is not None
        values = _doubles(array)
        is_known = ~np.isnan(values)
        bins = np.searchsorted(np.array(self.edges, np.float64), values[is_known], side="right")
        return Ids(bins.astype(np.uint64), is_known.astype(np.int32))


def _doubles(array: pa.Array) -> NDArray[np.float64]:
    """Missing is NaN."""
    if pa.types.is_null(array.type):
        return np.full(len(array), np.nan)
    numbers = array.cast(pa.uint8()) if pa.types.is_boolean(array.type) else array
    values: NDArray[np.float64] = as_numpy(pc.cast(numbers, pa.float64(), safe=False).fill_null(np.nan))
    return values


# What the rows say


@dataclass
class _Seen:
    """One column, in the rows so far."""

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0
    """The sum of squared distances from the mean."""
    sample: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    hashes: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(0, np.uint64))

    def add(self, values: NDArray[np.float64], hashes: NDArray[np.uint64]) -> None:
        is_known = np.isfinite(values)
        values, hashes = values[is_known], hashes[is_known]
        if len(values) == 0:
            return
        self._add_moments(values)
        self.sample, self.hashes = np.concatenate([self.sample, values]), np.concatenate([self.hashes, hashes])
        if len(self.sample) > 2 * SAMPLE_ROWS:
            self.cut()

    def _add_moments(self, values: NDArray[np.float64]) -> None:
        mean = float(values.mean())
        self._add_known_moments(len(values), mean, float(np.square(values - mean).sum()))

    def _add_known_moments(self, count: int, mean: float, squares: float) -> None:
        """Chan's formula, as in `RunningScale`."""
        total = self.count + count
        distance = mean - self.mean
        self.squares += squares + distance**2 * self.count * count / total
        self.mean += distance * count / total
        self.count = total

    def join(self, other: "_Seen") -> None:
        """Add what was seen in the file that comes next."""
        if self.count == 0:
            self.count, self.mean, self.squares = other.count, other.mean, other.squares
            self.sample, self.hashes = other.sample, other.hashes
        elif other.count > 0:
            self._add_known_moments(other.count, other.mean, other.squares)
            self.sample = np.concatenate([self.sample, other.sample])
            self.hashes = np.concatenate([self.hashes, other.hashes])
            self.cut()

    def cut(self) -> None:
        """Keep the values with the smallest hashes."""
        chosen = np.argsort(self.hashes, kind="stable")[:SAMPLE_ROWS]
        self.sample, self.hashes = self.sample[chosen], self.hashes[chosen]

    def fill(self, converter: Converter) -> Converter:
        if isinstance(converter, StandardConverter):
            deviation = (self.squares / self.count) ** 0.5 or 1.0
            if not math.isfinite(self.mean + deviation):
                raise BadInput(f"column {converter.name!r}: its numbers are too large for a mean and a deviation")
            return replace(converter, mean=self.mean, deviation=deviation)
        assert isinstance(converter, BinnedConverter)
        self.cut()
        cuts = np.arange(1, converter.bins) / converter.bins
        edges = np.unique(np.quantile(self.sample, cuts, method="inverted_cdf")) if self.count else np.zeros(0)
        inner = edges[edges > self.sample.min()] if self.count else edges
        return replace(converter, edges=tuple(inner.tolist()))


LEARNED = {StandardConverter.role: ("mean", "deviation"), BinnedConverter.role: ("edges",)}
"""By role, the options that were learned from rows."""


def with_statistics(
    converters: Mapping[str, Converter], query: Query, engine: Engine, known: Iterable[ColumnSchema] = ()
) -> dict[str, Converter]:
    """The same converters; those that need statistics get them: from the columns of another table, `known`, or else
    from the rows of a query."""
    found = dict(converters)
    for column in known:
        if column.name in found and is_unlearned(found[column.name]):
            found[column.name] = _recall(found[column.name], column.converter or {})
    wanted = {name: each for name, each in found.items() if is_unlearned(each)}
    if not wanted:
        return found
    seen = {name: _Seen() for name in wanted}
    columns = {name: each.column for name, each in wanted.items()}
    for seen_in_file in engine.map_files(query.source, _LookAtFile(query, columns)):
        for name, each in seen_in_file.items():
            seen[name].join(each)
    for name, converter in wanted.items():
        if seen[name].count == 0 and isinstance(converter, StandardConverter):
            raise BadInput(
                f"{query.source.name}: column {name!r} has no number in the chosen rows, so it cannot be scaled. "
                "Remove its scale, or choose other rows"
            )
        found[name] = seen[name].fill(converter)
    return found


def refuse_unlearned(converters: Iterable[Converter], known: Iterable[ColumnSchema], where: str) -> None:
    """Refuse columns that need statistics which another table, called `where`, does not have."""
    roles = {column.name: (column.converter or {}).get("role") for column in known}
    for each in converters:
        if is_unlearned(each) and roles.get(each.name) != each.role:
            raise BadInput(
                f"statistics: {where} has learned nothing for column {each.name!r}, which has the role {each.role!r}. "
                "Name a table whose recipe has the column in this role"
            )


def _recall(converter: Converter, recorded: Mapping[str, Any]) -> Converter:
    if recorded.get("role") != converter.role:
        return converter
    learned: dict[str, Any] = {name: recorded.get(name) for name in LEARNED[str(converter.role)]}
    if None in learned.values():
        raise CorruptData(
            f"statistics: the numbers of column {converter.name!r} ({converter.role}) are damaged. Restore the table "
            "from a copy"
        )
    if "edges" in learned:
        learned["edges"] = tuple(learned["edges"])
    return replace(converter, **learned)


def is_unlearned(converter: Converter) -> bool:
    """Whether a converter needs statistics and has none."""
    if isinstance(converter, StandardConverter):
        return converter.mean is None or converter.deviation is None
    return isinstance(converter, BinnedConverter) and converter.edges is None


@dataclass(frozen=True)
class _LookAtFile:
    """Looks at the rows of one file that the table will have."""

    query: Query
    columns: Mapping[str, str]
    """By the name in the table."""

    def __call__(self, file: int, on_read: OnRead) -> dict[str, _Seen]:
        query, clock = self.query, self.query.clock
        seen = {name: _Seen() for name in self.columns}
        needed = list(dict.fromkeys([*self.columns.values(), *([clock.field] if clock else [])]))
        seed = derive(0, "statistics")
        for batch in query.read(needed, [file]):
            taken = batch
            if clock is not None and (clock.start is not None or clock.stop is not None):
                dates = query.seconds(batch.column(clock.field), batch.column(FILE), batch.column(ROW))
                taken = batch.filter(clock.in_range(dates))
            files, rows = (as_numpy(taken.column(name)).astype(np.uint64) for name in (FILE, ROW))
            hashes = hash_integers((files << np.uint64(40)) | rows, seed)
            for name, column in self.columns.items():
                seen[name].add(_doubles(taken.column(column)), hashes)
        return seen
