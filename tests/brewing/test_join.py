"""Sorted streams joined one to one, and every way in which they can fail to match."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samovar.brewing.join import Stream, join
from samovar.errors import BadInput

KEY = ["date", "id"]


def stream(name: str, keys: list[tuple[int, Any]], sizes: list[int], column: str) -> Stream:
    table = pa.table(
        {
            "date": pa.array([date for date, _ in keys], pa.int64()),
            "id": pa.array([number for _, number in keys]),
            column: [f"{name} {date} {number}" for date, number in keys],
        }
    ).combine_chunks()

    def batches() -> Iterator[pa.RecordBatch]:
        begin = 0
        for size in [*sizes, len(keys)]:
            yield from table.slice(begin, size).to_batches()
            begin += size

    return Stream(name, batches())


KEYS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20)), unique=True, min_size=1, max_size=30).map(sorted)
SIZES = st.lists(st.integers(0, 7), max_size=10)


@given(KEYS, SIZES, SIZES, SIZES)
def test_equal_keys_are_joined_however_the_streams_are_cut(
    keys: list[tuple[int, int]], left: list[int], middle: list[int], right: list[int]
) -> None:
    streams = [stream(name, keys, sizes, name) for name, sizes in (("a", left), ("b", middle), ("c", right))]
    rows = [row for batch in join(streams, KEY) for row in batch.to_pylist()]
    assert rows == [
        {"date": date, "id": number, **{name: f"{name} {date} {number}" for name in "abc"}} for date, number in keys
    ]


@given(KEYS, st.data(), SIZES, SIZES, st.booleans())
def test_a_lone_key_is_named_wherever_it_stands(
    keys: list[tuple[int, int]], data: st.DataObject, left: list[int], right: list[int], is_extra: bool
) -> None:
    lone = data.draw(st.sampled_from(keys))
    rest = [key for key in keys if key != lone]
    first, second = (rest, keys) if is_extra else (keys, rest)
    streams = [stream("a", first, left, "x"), stream("b", second, right, "y")]
    kind = "an extra row" if is_extra else "no row"
    whose = "which a has not" if is_extra else "which a has"
    with pytest.raises(BadInput, match=rf"^b: {kind} with date = {lone[0]}, id = {lone[1]}, {whose};"):
        list(join(streams, KEY))


@pytest.mark.parametrize("sizes", [[], [1], [2]])
def test_a_doubled_key_is_named_with_its_table(sizes: list[int]) -> None:
    streams = [stream("a", [(0, 1), (0, 2)], [], "x"), stream("b", [(0, 1), (0, 1), (0, 2)], sizes, "y")]
    with pytest.raises(BadInput, match=r"^b: two rows with date = 0, id = 1; expected each key once"):
        list(join(streams, KEY))


def test_texts_are_compared_as_the_engines_sort_them() -> None:
    streams = [stream("a", [(0, "\uffff"), (0, "\U0001f600")], [], "x"), stream("b", [(0, "\U0001f600")], [], "y")]
    with pytest.raises(BadInput, match=r"^b: no row with date = 0, id = '\\uffff'"):
        list(join(streams, KEY))


def test_keys_of_two_types_are_refused() -> None:
    streams = [stream("a", [(0, 1)], [], "x"), stream("b", [(0, "1")], [], "y")]
    with pytest.raises(BadInput, match=r"^b: column 'id' is string, in a it is int64; expected one type"):
        list(join(streams, KEY))


def test_one_stream_passes_as_it_is() -> None:
    (batch,) = join([stream("a", [(0, 1), (0, 1)], [], "x")], KEY)
    assert batch.num_rows == 2
