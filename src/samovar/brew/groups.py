"""Sorted rows cut into minibatches: a pure function over streams that holds no more than one minibatch and one batch.

hour 10:00                                        hour 11:00
|    batch    |    batch    |    batch    |short| |    batch    | …      only an hour's last batch may be short
|aa bbb cc ddd ddd|eeee f gg hhhhhhh|                                    with a pivot, a group is never cut
"""

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from samovar.brew.clock import HOUR_SECONDS
from samovar.brew.order import GRANULAR, Order, differences
from samovar.brew.ragged import as_numpy, hashable
from samovar.native import hash_array


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
