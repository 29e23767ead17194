"""Sorted tables joined one to one, and every way in which they can fail to match."""

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samovar.brewing.join import SortedTable, join, locate
from samovar.brewing.sources import FILE, ROW, Source, find_source
from samovar.errors import BadInput

KEY = ["date", "id"]
PLACES = [f"{name}{number}" for name in (FILE, ROW) for number in range(3)]


def table_of(name: str, keys: list[tuple[int, Any]], sizes: list[int], column: str) -> SortedTable:
    table = pa.table(
        {
            "date": pa.array([date for date, _ in keys], pa.int64()),
            "id": pa.array([number for _, number in keys]),
            column: [f"{name} {date} {number}" for date, number in keys],
            FILE: pa.array([0] * len(keys), pa.int32()),
            ROW: pa.array(range(len(keys)), pa.int64()),
        }
    ).combine_chunks()

    def batches() -> Generator[pa.RecordBatch]:
        begin = 0
        for size in [*sizes, len(keys)]:
            yield from table.slice(begin, size).to_batches()
            begin += size

    return SortedTable(Source(name, ()), batches())


KEYS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20)), unique=True, min_size=1, max_size=30).map(sorted)
SIZES = st.lists(st.integers(0, 7), max_size=10)


@given(KEYS, SIZES, SIZES, SIZES)
def test_equal_keys_are_joined_however_the_tables_are_cut(
    keys: list[tuple[int, int]], left: list[int], middle: list[int], right: list[int]
) -> None:
    tables = [table_of(name, keys, sizes, name) for name, sizes in (("a", left), ("b", middle), ("c", right))]
    rows = [row for batch in join(tables, KEY) for row in batch.drop_columns(PLACES).to_pylist()]
    assert rows == [
        {"date": date, "id": number, **{name: f"{name} {date} {number}" for name in "abc"}} for date, number in keys
    ]


@given(KEYS, st.data(), SIZES, SIZES, st.booleans())
def test_a_key_that_one_table_lacks_is_named_wherever_it_is(
    keys: list[tuple[int, int]], data: st.DataObject, left: list[int], right: list[int], is_extra: bool
) -> None:
    lone = data.draw(st.sampled_from(keys))
    rest = [key for key in keys if key != lone]
    first, second = (rest, keys) if is_extra else (keys, rest)
    tables = [table_of("a", first, left, "x"), table_of("b", second, right, "y")]
    kind = "a row" if is_extra else "no row"
    whose = "which a does not have" if is_extra else "which a has"
    with pytest.raises(BadInput, match=rf"^b: {kind} with date = {lone[0]}, id = {lone[1]}, {whose}\. Tables"):
        list(join(tables, KEY))


@pytest.mark.parametrize("sizes", [[], [1], [2]])
def test_a_repeated_key_is_named_with_its_table(sizes: list[int]) -> None:
    tables = [table_of("a", [(0, 1), (0, 2)], [], "x"), table_of("b", [(0, 1), (0, 1), (0, 2)], sizes, "y")]
    with pytest.raises(BadInput, match=r"^b: two rows with date = 0, id = 1, but tables are joined one to one"):
        list(join(tables, KEY))


def test_texts_are_compared_as_the_engines_sort_them() -> None:
    tables = [table_of("a", [(0, "\uffff"), (0, "\U0001f600")], [], "x"), table_of("b", [(0, "\U0001f600")], [], "y")]
    with pytest.raises(BadInput, match=r"^b: no row with date = 0, id = '\\uffff'"):
        list(join(tables, KEY))


def test_keys_of_two_types_are_refused() -> None:
    tables = [table_of("a", [(0, 1)], [], "x"), table_of("b", [(0, "1")], [], "y")]
    with pytest.raises(BadInput, match=r"^b: column 'id' is string, but int64 in a; cast one of them"):
        list(join(tables, KEY))


def test_rows_of_one_table_may_repeat_a_key() -> None:
    (batch,) = join([table_of("a", [(0, 1), (0, 1)], [], "x")], KEY)
    assert batch.num_rows == 2


def test_the_first_key_that_differs_is_named_with_its_table() -> None:
    keys = [(0, 1), (0, 2), (0, 3)]
    tables = [table_of(name, keys, [], name) for name in ("a", "b", "c")]
    tables[1] = table_of("b", [(0, 1), (0, 2), (0, 4)], [], "b")
    tables[2] = table_of("c", [(0, 1), (0, 3), (0, 4)], [], "c")
    with pytest.raises(BadInput, match=r"^c: no row with date = 0, id = 2, which a has"):
        list(join(tables, KEY))


def test_a_joined_row_is_located_in_each_table(tmp_path: Path) -> None:
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).touch()
    tables = [table_of(name, [(0, 1), (0, 2)], [], name) for name in ("a", "b")]
    tables = [
        SortedTable(find_source(tmp_path / f"{name}.csv"), table.rows) for name, table in zip("ab", tables, strict=True)
    ]
    (batch,) = join(tables, KEY)
    assert locate(batch, tables[1], 1, 1) == f"{tmp_path / 'b.csv'} row 1"


def test_rows_that_are_not_sorted_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").touch()
    rows = table_of("a", [(0, 2), (0, 1)], [1], "x").rows
    with pytest.raises(BadInput, match=r"a.csv row 1 is not sorted: it belongs before the row above it"):
        list(join([SortedTable(find_source(tmp_path / "a.csv"), rows)], KEY))
