"""Sorted rows cut into minibatches: every promise of the order, for random rows."""

from collections.abc import Iterator
from itertools import groupby, pairwise
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from samovar.brewing.minibatches import cut
from samovar.brewing.order import DATE, GRANULAR, Order
from samovar.brewing.progress import BrewCounts

HOUR = 3600


def as_batches(rows: list[dict[str, Any]], sizes: list[int]) -> Iterator[pa.RecordBatch]:
    """The rows in pieces."""
    table = pa.Table.from_pylist(rows).combine_chunks()
    begin = 0
    for size in [*sizes, len(rows)] if rows else []:
        yield from table.slice(begin, size).to_batches()
        begin += size


def cut_all(
    rows: list[dict[str, Any]], sizes: list[int], order: Order, batch_size: int
) -> tuple[list[list[dict[str, Any]]], BrewCounts]:
    counts = BrewCounts()
    pieces = [piece.to_pylist() for piece in cut(as_batches(rows, sizes), order, batch_size, counts)]
    return pieces, counts


def hour_of(piece: list[dict[str, Any]]) -> int:
    return int(piece[0][GRANULAR] // HOUR)


@st.composite
def online_rows(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Rows of some hours, with gaps, repeated times and groups that continue in the next granule."""
    granularity = draw(st.sampled_from([1, 7, 300, 1000, 3600, 9999]))
    times = draw(st.lists(st.integers(0, 4 * HOUR), max_size=60))
    rows = []
    for number, time in enumerate(times):
        granular = time - time % HOUR + time % HOUR // granularity * granularity
        rows.append({DATE: time, GRANULAR: granular, "pivot": draw(st.integers(0, 3)), "row": number})
    return rows


SIZES = st.lists(st.integers(0, 9), max_size=20)


@given(online_rows(), SIZES, st.integers(1, 12))
def test_without_a_pivot_only_an_hours_last_batch_is_short(
    rows: list[dict[str, Any]], sizes: list[int], batch_size: int
) -> None:
    rows.sort(key=lambda row: (row[GRANULAR], row[DATE]))
    cuts, counts = cut_all(rows, sizes, Order(is_online=True), batch_size)
    assert [row for piece in cuts for row in piece] == rows
    for _, pieces in groupby(cuts, key=hour_of):
        lengths = [len(piece) for piece in pieces]
        assert all(length == batch_size for length in lengths[:-1])
        assert 1 <= lengths[-1] <= batch_size
    assert all({row[DATE] // HOUR for row in piece} == {hour_of(piece)} for piece in cuts)
    num_hours = len({hour_of(piece) for piece in cuts})
    assert (counts.num_rows, counts.num_batches) == (len(rows), len(cuts))
    assert counts.num_short_batches <= num_hours


@given(online_rows(), SIZES, st.integers(1, 12))
def test_with_a_pivot_groups_are_whole_and_batches_as_small_as_they_can_be(
    rows: list[dict[str, Any]], sizes: list[int], batch_size: int
) -> None:
    rows.sort(key=lambda row: (row[GRANULAR], row["pivot"]))
    cuts, counts = cut_all(rows, sizes, Order(is_online=True, pivot="pivot"), batch_size)
    assert [row for piece in cuts for row in piece] == rows
    seen: set[tuple[int, int]] = set()
    for _, each in groupby(cuts, key=hour_of):
        pieces = list(each)
        for number, piece in enumerate(pieces):
            groups = [(row[GRANULAR], row["pivot"]) for row in piece]
            assert seen.isdisjoint(groups)
            seen.update(groups)
            last_group = sum(group == groups[-1] for group in groups)
            assert len(groups) - last_group < batch_size
            assert len(groups) >= batch_size or number == len(pieces) - 1
    assert counts.num_spanning_pivots == count_spanning(rows)


def count_spanning(rows: list[dict[str, Any]]) -> int:
    granules = [{row["pivot"] for row in each} for _, each in groupby(rows, key=lambda row: row[GRANULAR])]
    return sum(len(left & right) for left, right in pairwise(granules))


@given(st.lists(st.integers(0, 4), max_size=40).map(sorted), SIZES, st.integers(1, 9), st.booleans())
def test_offline_only_the_last_batch_is_short(
    pivots: list[int], sizes: list[int], batch_size: int, has_pivot: bool
) -> None:
    rows = [{"pivot": pivot, "row": number} for number, pivot in enumerate(pivots)]
    cuts, _ = cut_all(rows, sizes, Order(is_online=False, pivot="pivot" if has_pivot else None), batch_size)
    assert [row for piece in cuts for row in piece] == rows
    assert all(len(piece) >= batch_size for piece in cuts[:-1])
    if not has_pivot:
        assert all(len(piece) <= batch_size for piece in cuts)


def test_a_group_larger_than_a_batch_makes_one_large_batch() -> None:
    rows = [{GRANULAR: 0, "pivot": pivot} for pivot in [1, 2, 2, 2, 2, 2, 3]]
    cuts, counts = cut_all(rows, [2, 2, 2], Order(is_online=True, pivot="pivot"), 2)
    assert [[row["pivot"] for row in piece] for piece in cuts] == [[1, 2, 2, 2, 2, 2], [3]]
    assert counts.num_short_batches == 1


def test_a_pivot_may_be_a_text() -> None:
    rows = [{GRANULAR: granule, "pivot": pivot} for granule, pivot in [(0, "a"), (0, "b"), (300, "b"), (300, "c")]]
    cuts, counts = cut_all(rows, [], Order(is_online=True, pivot="pivot"), 1)
    assert [len(piece) for piece in cuts] == [1, 1, 1, 1]
    assert counts.num_spanning_pivots == 1
