"""Sorted rows of one or several tables → minibatches: check, join, cut, convert. Knows no engine and writes nothing.

rows ─checked─▶ ┐
rows ─checked─▶ ┴join─▶ cut into minibatches ─▶ one converter a column ─▶ Minibatch

Sorted rows cut into minibatches: a pure function over streams that holds no more than one minibatch and one batch.

hour 10:00                                        hour 11:00
|    batch    |    batch    |    batch    |short| |    batch    | …      only an hour's last batch may be short
|aa bbb cc ddd ddd|eeee f gg hhhhhhh|                                    with a pivot, a group is never cut
"""

import itertools
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from samovar.brewing.converters import Converter, Locate
from samovar.brewing.join import Stream, join
from samovar.brewing.order import FILE, GRANULAR, ROW, Order, checked, differences
from samovar.brewing.ragged import as_numpy, hashable
from samovar.brewing.sources import Source
from samovar.errors import BadInput, ConfigError
from samovar.hours import HOUR_SECONDS
from samovar.native import hash_array
from samovar.tables.schema import Minibatch, TableSchema, Value


@dataclass(frozen=True)
class Cut:
    """The rows of one minibatch."""

    hour: int | None
    rows: pa.RecordBatch


@dataclass
class Tally:
    """What was met on the way, to be told to the user."""

    num_rows: int = 0
    num_batches: int = 0
    num_short_batches: int = 0
    num_spanning_pivots: int = 0
    """Groups whose pivot was met in the granule before too: rows of one pivot that were not kept together."""
    num_zeroed: Counter[str] = field(default_factory=Counter)
    """By real-valued column: nulls, which became zeros."""

    def count(self, cut: Cut, batch_size: int) -> None:
        self.num_rows += cut.rows.num_rows
        self.num_batches += 1
        self.num_short_batches += cut.rows.num_rows < batch_size


def cut(batches: Iterator[pa.RecordBatch], order: Order, batch_size: int, tally: Tally) -> Iterator[Cut]:
    """Minibatches of `batch_size` rows, or of whole groups that are at least as many."""
    pending: list[pa.RecordBatch] = []
    previous: pa.RecordBatch | None = None
    spans = _SpanCounter(order, tally)
    for batch in batches:
        if batch.num_rows == 0:
            continue
        spans.see(batch)
        begin = 0
        for end in _ends(batch, previous, order, batch_size, sum(piece.num_rows for piece in pending)):
            yield _finish([*pending, batch.slice(begin, end - begin)], order, batch_size, tally)
            pending, begin = [], end
        pending.append(batch.slice(begin))
        previous = batch
    if pending:
        yield _finish(pending, order, batch_size, tally)


def _ends(
    batch: pa.RecordBatch, previous: pa.RecordBatch | None, order: Order, batch_size: int, num_pending: int
) -> Iterator[int]:
    """Rows of `batch` at which a new minibatch begins. `num_pending` rows of the open one stand before it."""
    hours, groups = _hour_starts(batch, previous, order), _group_starts(batch, previous, order)
    begin = -num_pending
    while True:
        next_hour = _first_at_least(hours, begin + 1)
        full = begin + batch_size
        next_group = full if groups is None else _first_at_least(groups, full)
        ends = [end for end in (next_hour, next_group) if end is not None and end < batch.num_rows]
        if not ends:
            return
        begin = min(ends)
        yield begin


def _hour_starts(batch: pa.RecordBatch, previous: pa.RecordBatch | None, order: Order) -> NDArray[np.int64]:
    if not order.is_online:
        return np.zeros(0, np.int64)
    hours = hours_of(batch)
    before = hours[:1] if previous is None else hours_of(previous.slice(previous.num_rows - 1))
    return np.flatnonzero(np.diff(hours, prepend=before))


def _group_starts(batch: pa.RecordBatch, previous: pa.RecordBatch | None, order: Order) -> NDArray[np.int64] | None:
    """None: every row may begin a minibatch."""
    if order.pivot is None:
        return None
    return np.flatnonzero(differences(batch, previous, _group_columns(order)))


def _group_columns(order: Order) -> Sequence[str]:
    assert order.pivot is not None
    return [GRANULAR, order.pivot] if order.is_online else [order.pivot]


def hours_of(batch: pa.RecordBatch) -> NDArray[np.int64]:
    granular: NDArray[np.int64] = as_numpy(batch.column(GRANULAR))
    return granular - granular % HOUR_SECONDS


def _first_at_least(starts: NDArray[np.int64], position: int) -> int | None:
    index = int(np.searchsorted(starts, position))
    return int(starts[index]) if index < len(starts) else None


def _finish(pieces: list[pa.RecordBatch], order: Order, batch_size: int, tally: Tally) -> Cut:
    filled = [piece for piece in pieces if piece.num_rows > 0]
    rows = filled[0] if len(filled) == 1 else pa.concat_batches(filled)
    done = Cut(int(hours_of(rows.slice(0, 1))[0]) if order.is_online else None, rows)
    tally.count(done, batch_size)
    return done


class _SpanCounter:
    """Counts pivots that go on in the next granule. Remembers the pivots of two granules, as hashes."""

    def __init__(self, order: Order, tally: Tally) -> None:
        self._order = order
        self._tally = tally
        self._granule: int | None = None
        self._older: NDArray[np.uint64] = np.zeros(0, np.uint64)
        self._current: list[NDArray[np.uint64]] = []

    def see(self, batch: pa.RecordBatch) -> None:
        if self._order.pivot is None or not self._order.is_online:
            return
        starts = np.flatnonzero(differences(batch, None, _group_columns(self._order)))
        starts = np.concatenate([np.zeros(1, np.int64), starts])
        hashes = as_numpy(hash_array(hashable(batch.column(self._order.pivot).take(starts))))
        granules = as_numpy(batch.column(GRANULAR))[starts]
        edges = [0, *(np.flatnonzero(np.diff(granules)) + 1).tolist(), len(granules)]
        for begin, end in itertools.pairwise(edges):
            self._add(int(granules[begin]), hashes[begin:end])

    def _add(self, granule: int, hashes: NDArray[np.uint64]) -> None:
        if granule != self._granule:
            self._older = np.sort(np.concatenate(self._current)) if self._current else self._older
            self._granule, self._current = granule, []
        elif hashes[0] == self._current[-1][-1]:  # a group that goes on in the next batch
            hashes = hashes[1:]
        places = np.searchsorted(self._older, hashes)
        is_inside = places < len(self._older)
        self._tally.num_spanning_pivots += int((self._older[places[is_inside]] == hashes[is_inside]).sum())
        if len(hashes) > 0:
            self._current.append(hashes)


@dataclass(frozen=True)
class InputTable:
    """One table on its way in: its rows in the promised order, and what becomes of its columns."""

    source: Source
    rows: Generator[pa.RecordBatch]
    """The columns of the converters and of the order's key, and each row's place in its source."""
    converters: Mapping[str, Converter]


def make_schema(converters: Sequence[Mapping[str, Converter]], order: Order) -> TableSchema:
    """The columns of all tables; two tables cannot give the same one."""
    columns = [converter for table in converters for converter in table.values()]
    homes: dict[str, int] = {}
    for number, table in enumerate(converters, 1):
        for name in {name for each in table.values() for name in (each.column, each.name)}:
            if homes.setdefault(name, number) != number:
                raise ConfigError(
                    f"column {name!r}: comes from table {homes[name]} and from table {number}, expected one of them: "
                    "remove it from the other"
                )
    return TableSchema(tuple(converter.schema for converter in columns), order.key)


def make_minibatches(
    ingredients: Sequence[InputTable], order: Order, batch_size: int, tally: Tally
) -> Generator[Minibatch]:
    """All rows, each once."""
    with ExitStack() as stack:
        streams = []
        for number, each in enumerate(ingredients):
            # An engine's stream holds files: it ends here, whatever keeps a reference to it.
            rows = checked(stack.enter_context(closing(each.rows)), order.key, each.source)
            streams.append(Stream(each.source.name, _with_own_places(rows, number)))
        for piece in cut(join(streams, order.key), order, batch_size, tally):
            values: dict[str, Value] = {}
            for number, each in enumerate(ingredients):
                values |= _convert(piece, each, number, tally)
            yield Minibatch(piece.hour, piece.rows.num_rows, values)


def _convert(piece: Cut, ingredient: InputTable, number: int, tally: Tally) -> dict[str, Value]:
    locate = partial(_locate, piece.rows, ingredient.source, number)
    names = piece.rows.schema.names
    values = {}
    for name, converter in ingredient.converters.items():
        array = piece.rows.column(names.index(converter.column))
        values[name] = _convert_column(converter, array, locate)
        if converter.kind == "real" and array.null_count > 0:
            tally.num_zeroed[name] += array.null_count
    return values


def _convert_column(converter: Converter, array: pa.Array, locate: Locate) -> Value:
    try:
        return converter.convert(array, locate)
    except pa.ArrowException as error:
        raise BadInput(
            f"{locate(0)} and below: column {converter.column!r}: found {array.type} that cannot be used ({error}); "
            f"expected {converter.source_type}: mend the column"
        ) from error


def _with_own_places(batches: Iterator[pa.RecordBatch], number: int) -> Iterator[pa.RecordBatch]:
    """Rows keep their places apart when tables are joined."""
    for batch in batches:
        names = [f"{name}{number}" if name in (FILE, ROW) else name for name in batch.schema.names]
        yield batch.rename_columns(names)


def _locate(rows: pa.RecordBatch, source: Source, number: int, row: int) -> str:
    file, place = (rows.column(f"{name}{number}")[row].as_py() for name in (FILE, ROW))
    return source.locate(file, place)
