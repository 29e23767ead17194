"""Sorted rows of one or several tables → minibatches: join, cut, convert. Knows no engine and writes nothing.

rows ─┐
rows ─┴ join ─▶ cut into minibatches ─▶ one converter per column ─▶ Minibatch

hour 10:00                                        hour 11:00
|    batch    |    batch    |    batch    |short| |    batch    | …      only an hour's last minibatch may be short
|aa bbb cc ddd ddd|eeee f gg hhhhhhh|                                    with a pivot, a group is never cut
"""

import itertools
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from samovar.brewing.arrays import as_numpy, hashable
from samovar.brewing.converters import Converter, Locate
from samovar.brewing.join import SortedTable, join, locate
from samovar.brewing.order import GRANULAR, Order, find_changes
from samovar.brewing.progress import BrewCounts
from samovar.errors import BadInput
from samovar.native import hash_array
from samovar.tables.schema import GROUP_START, Minibatch, Value


@dataclass(frozen=True)
class InputTable(SortedTable):
    """A table to be brewed: its rows in the promised order, and what its columns become."""

    converters: Mapping[str, Converter]


def make_minibatches(
    tables: Sequence[InputTable], order: Order, batch_size: int, counts: BrewCounts, marks_groups: bool = True
) -> Generator[Minibatch]:
    """All rows, each once. `counts` is kept up to date. With a pivot, the first row of each group is marked."""
    with ExitStack() as stack:
        for table in tables:  # an engine's stream holds files, and ends here even if something refers to it
            stack.enter_context(closing(table.rows))
        for rows in cut(join(tables, order.key), order, batch_size, counts):
            hour = int(_hours(rows.slice(0, 1), order)[0]) if order.is_online else None
            values = convert(rows, tables, counts)
            if order.pivot is not None and marks_groups:
                values[GROUP_START] = _mark_groups(rows, order)
            yield Minibatch(hour, rows.num_rows, values)


def convert(rows: pa.RecordBatch, tables: Sequence[InputTable], counts: BrewCounts) -> dict[str, Value]:
    """The values of one minibatch, by their name in the tensor table."""
    values: dict[str, Value] = {}
    for number, table in enumerate(tables):
        place = partial(locate, rows, table, number)
        for name, converter in table.converters.items():
            arrays = [rows.column(rows.schema.names.index(part.column)) for part in converter.parts]
            values[name] = _convert_column(converter, arrays, place)
            is_zeroed = converter.kind == "real" and converter.missing is None and converter.parts[0] is converter
            if is_zeroed and arrays[0].null_count > 0:
                counts.num_zeroed[name] += arrays[0].null_count
    return values


def _convert_column(converter: Converter, arrays: Sequence[pa.Array], place: Locate) -> Value:
    try:
        return converter.apply(arrays, place)
    except pa.ArrowException as error:
        raise BadInput(
            f"{place(0)} and below: cannot convert column {converter.column!r} ({error}): it is {arrays[0].type}, "
            f"expected {converter.source_type}"
        ) from error


def cut(
    batches: Iterable[pa.RecordBatch], order: Order, batch_size: int, counts: BrewCounts
) -> Generator[pa.RecordBatch]:
    """The rows of each minibatch: `batch_size` of them, or whole groups that make at least as many. Holds no more than
    one minibatch and one batch."""
    pending: list[pa.RecordBatch] = []
    previous: pa.RecordBatch | None = None
    spans = _SpanCounter(order, counts)
    for batch in batches:
        if batch.num_rows == 0:
            continue
        spans.add(batch)
        begin = 0
        for end in _ends(batch, previous, order, batch_size, sum(piece.num_rows for piece in pending)):
            yield _concatenate([*pending, batch.slice(begin, end - begin)], batch_size, counts)
            pending, begin = [], end
        pending.append(batch.slice(begin))
        previous = batch
    spans.finish()
    if pending:
        yield _concatenate(pending, batch_size, counts)


def _ends(
    batch: pa.RecordBatch, previous: pa.RecordBatch | None, order: Order, batch_size: int, num_pending: int
) -> Iterator[int]:
    """Rows of `batch` at which a new minibatch begins. The open minibatch has `num_pending` rows before `batch`."""
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
    hours = _hours(batch, order)
    before = hours[:1] if previous is None else _hours(previous.slice(previous.num_rows - 1), order)
    return np.flatnonzero(np.diff(hours, prepend=before))


def _group_starts(batch: pa.RecordBatch, previous: pa.RecordBatch | None, order: Order) -> NDArray[np.int64] | None:
    """None: a minibatch may begin at every row."""
    if order.pivot is None:
        return None
    return np.flatnonzero(find_changes(batch, previous, _group_columns(order)))


def _mark_groups(rows: pa.RecordBatch, order: Order) -> NDArray[np.float32]:
    """1 at the first row of each group of a minibatch, which begins with one."""
    starts = find_changes(rows, None, _group_columns(order))
    starts[0] = True
    return starts.astype(np.float32)


def _group_columns(order: Order) -> Sequence[str]:
    assert order.pivot is not None
    return [GRANULAR, order.pivot] if order.is_online else [order.pivot]


def _hours(rows: pa.RecordBatch, order: Order) -> NDArray[np.int64]:
    """The start of each row's hour, or other period."""
    hours: NDArray[np.int64] = order.period.floor(as_numpy(rows.column(GRANULAR)))
    return hours


def _first_at_least(starts: NDArray[np.int64], position: int) -> int | None:
    index = int(np.searchsorted(starts, position))
    return int(starts[index]) if index < len(starts) else None


def _concatenate(pieces: list[pa.RecordBatch], batch_size: int, counts: BrewCounts) -> pa.RecordBatch:
    filled = [piece for piece in pieces if piece.num_rows > 0]
    rows = filled[0] if len(filled) == 1 else pa.concat_batches(filled)
    counts.num_rows += rows.num_rows
    counts.num_batches += 1
    counts.num_short_batches += rows.num_rows < batch_size
    return rows


class _SpanCounter:
    """Counts pivots that continue in the next granule. Remembers the pivots of two granules, as hashes."""

    def __init__(self, order: Order, counts: BrewCounts) -> None:
        self._order = order
        self._counts = counts
        self._granule: int | None = None
        self._previous: NDArray[np.uint64] = np.zeros(0, np.uint64)
        self._current: list[NDArray[np.uint64]] = []
        self._is_first = True

    def add(self, batch: pa.RecordBatch) -> None:
        if self._order.pivot is None or not self._order.is_online:
            return
        starts = np.flatnonzero(find_changes(batch, None, _group_columns(self._order)))
        starts = np.concatenate([np.zeros(1, np.int64), starts])
        hashes = as_numpy(hash_array(hashable(batch.column(self._order.pivot).take(starts))))
        granules = as_numpy(batch.column(GRANULAR))[starts]
        edges = [0, *(np.flatnonzero(np.diff(granules)) + 1).tolist(), len(granules)]
        for begin, end in itertools.pairwise(edges):
            self._add_granule(int(granules[begin]), hashes[begin:end])

    def _add_granule(self, granule: int, hashes: NDArray[np.uint64]) -> None:
        if granule != self._granule:
            self._end_granule()
            self._granule = granule
        elif hashes[0] == self._current[-1][-1]:  # a group that continues in the next batch
            hashes = hashes[1:]
        places = np.searchsorted(self._previous, hashes)
        is_inside = places < len(self._previous)
        self._counts.num_spanning_pivots += int((self._previous[places[is_inside]] == hashes[is_inside]).sum())
        if len(hashes) > 0:
            self._current.append(hashes)

    def finish(self) -> None:
        """Keep the pivots at both ends: the rows may be one part of a table."""
        self._end_granule()
        self._counts.last_pivots = self._previous

    def _end_granule(self) -> None:
        if self._current:
            self._previous, self._current = np.sort(np.concatenate(self._current)), []
            if self._is_first:
                self._is_first, self._counts.first_pivots = False, self._previous
