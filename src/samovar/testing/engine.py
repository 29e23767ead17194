"""What every brewing engine must do. A new engine passes by providing the fixture `engine`."""

import gzip
import json
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.feather as feather
import pyarrow.parquet as parquet
import pytest

from samovar.brewing.clock import Clock
from samovar.brewing.engines import Engine, Query
from samovar.brewing.order import DATE, GRANULAR, Order
from samovar.brewing.parts import OnRows, Part
from samovar.brewing.row_filter import RowFilter, Where
from samovar.brewing.sources import FILE, ROW, find_source, scan
from samovar.errors import BadInput
from samovar.native import hash_bytes
from samovar.seeds import derive

LARGEST = 2**64 - 1
NOON = 1609502400  # 2021-01-01T12:00:00Z
ROWS = pa.table(
    {
        "time": pa.array([NOON + 700, NOON + 10, NOON + 10, NOON - 1, NOON + 3601]),
        "group": pa.array([5, 9, 3, LARGEST, 0], pa.uint64()),
        "ids": pa.array([[1, LARGEST], [], None, [None], [7]], pa.list_(pa.uint64())),
        "nested": pa.array([[[1.5], []], None, [None], [], [[2.0, 3.0]]], pa.list_(pa.list_(pa.float64()))),
        "word": pa.array(["b", None, "", "я", "b"]),
    }
)


def rows_of(engine: Engine, query: Query) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = batches_of(engine, query).to_pylist()
    return rows


def batches_of(engine: Engine, query: Query) -> Any:
    """All rows of a query as one table."""
    with closing(engine.map_parts([query], [Part()], _collect)) as parts:
        (found,) = parts
    return pa.Table.from_batches(found) if found else pa.table({})


def rows_of_parts(engine: Engine, query: Query, parts: Sequence[Part]) -> list[list[dict[str, Any]]]:
    """The rows of each part."""
    with closing(engine.map_parts([query], parts, _collect)) as found:
        return [[row for batch in batches for row in batch.to_pylist()] for batches in found]


def _collect(part: Part, streams: Sequence[Generator[pa.RecordBatch]], on_rows: OnRows) -> list[pa.RecordBatch]:
    return [batch for rows in streams for batch in rows]


def make_query(source: Any, order: Order, **options: Any) -> Query:
    """A query for all columns of a source, unless `columns` names some."""
    scanned = scan(find_source(source))
    columns = options.pop("columns", tuple(scanned.schema.names))
    return Query(scanned.source, scanned.schema, columns, order, **options)


class EngineContract:
    """Subclass it and provide the fixture `engine`."""

    def test_without_a_key_rows_come_in_the_order_of_files_and_rows(self, engine: Engine, tmp_path: Path) -> None:
        for name, numbers in (("b", [5, 1]), ("a", [3, 4])):
            parquet.write_table(pa.table({"x": numbers}), tmp_path / f"{name}.parquet")
        query = make_query(str(tmp_path / "*.parquet"), Order(is_online=False))
        assert rows_of(engine, query) == [
            {"x": 3, FILE: 0, ROW: 0},
            {"x": 4, FILE: 0, ROW: 1},
            {"x": 5, FILE: 1, ROW: 0},
            {"x": 1, FILE: 1, ROW: 1},
        ]

    def test_online_rows_are_sorted_by_granule_then_date_or_pivot(self, engine: Engine, tmp_path: Path) -> None:
        parquet.write_table(ROWS, tmp_path / "rows.parquet")
        by_date = make_query(tmp_path / "rows.parquet", Order(is_online=True), clock=Clock("time"))
        by_pivot = make_query(tmp_path / "rows.parquet", Order(is_online=True, pivot="group"), clock=Clock("time"))
        assert [row[ROW] for row in rows_of(engine, by_date)] == [3, 1, 2, 0, 4]
        assert [row[ROW] for row in rows_of(engine, by_pivot)] == [3, 2, 1, 0, 4]
        dates = [(row[DATE] - NOON, row[GRANULAR] - NOON) for row in rows_of(engine, by_date)]
        assert dates == [(-1, -300), (10, 0), (10, 0), (700, 600), (3601, 3600)]

    def test_every_value_survives_and_has_the_scanned_type(self, engine: Engine, tmp_path: Path) -> None:
        parquet.write_table(ROWS, tmp_path / "rows.parquet")
        query = make_query(tmp_path / "rows.parquet", Order(is_online=False))
        rows = batches_of(engine, query)
        assert rows.select(ROWS.schema.names).to_pylist() == ROWS.to_pylist()
        assert [str(field.type) for field in rows.schema][:5] == [
            "int64", "uint64", "list<item: uint64>", "list<item: list<item: double>>", "string",
        ]  # fmt: skip

    def test_files_of_several_formats_are_one_table(self, engine: Engine, tmp_path: Path) -> None:
        table = ROWS.select(["time", "group", "word"])
        parquet.write_table(table, tmp_path / "1.parquet")
        feather.write_feather(table, str(tmp_path / "2.feather"))
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in table.to_pylist())
        (tmp_path / "3.jsonl").write_text(lines)
        csv.write_csv(table, tmp_path / "4.csv")
        with gzip.open(tmp_path / "5.jsonl.gz", "wt") as file:
            file.write(lines)
        query = make_query(str(tmp_path / "*"), Order(is_online=False, pivot="group"))
        expected = sorted(((row["group"], file, number, row["word"]) for file in range(5)
                           for number, row in enumerate(table.to_pylist())), key=lambda row: row[:3])  # fmt: skip
        found = [(row["group"], row[FILE], row[ROW], row["word"]) for row in rows_of(engine, query)]
        assert found == expected

    @pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet", "arrow"])
    def test_the_whole_64_bit_range_is_exact(self, engine: Engine, tmp_path: Path, suffix: str) -> None:
        numbers = [LARGEST, 0, 2**63, 2**53 + 1, None]
        path = tmp_path / f"rows.{suffix}"
        write_numbers(path, {"unsigned": numbers, "signed": [-(2**63), 2**63 - 1, -1, None, 5]})
        query = make_query(path, Order(is_online=False))
        assert query.schema.field("unsigned").type == pa.uint64()
        assert query.schema.field("signed").type == pa.int64()
        assert [row["unsigned"] for row in rows_of(engine, query)] == numbers
        assert [row["signed"] for row in rows_of(engine, query)] == [-(2**63), 2**63 - 1, -1, None, 5]

    def test_a_range_is_half_open_and_keeps_rows_without_time(self, engine: Engine, tmp_path: Path) -> None:
        times = [NOON - 1, NOON, None, NOON + 3599, NOON + 3600]
        parquet.write_table(pa.table({"time": times}), tmp_path / "rows.parquet")
        clock = Clock("time", start=NOON, stop=NOON + 3600)
        query = make_query(tmp_path / "rows.parquet", Order(is_online=True), clock=clock)
        assert [row[ROW] for row in rows_of(engine, query)] == [2, 1, 3]

    def test_a_time_that_cannot_be_parsed_is_our_error(self, engine: Engine, tmp_path: Path) -> None:
        parquet.write_table(pa.table({"time": ["yesterday"]}), tmp_path / "rows.parquet")
        query = make_query(tmp_path / "rows.parquet", Order(is_online=True), clock=Clock("time"))
        with pytest.raises(
            BadInput, match=r"rows.parquet row 0: time_field: column 'time' has the text '.*', which is not an ISO time"
        ):
            rows_of(engine, query)

    def test_times_in_a_format_sort_like_any_others(self, engine: Engine, tmp_path: Path) -> None:
        times = ["January 1, 2021 12:10 PM", "Jan 1, 2021 9:00 am", None, "december 31, 2020 11:59 PM"]
        parquet.write_table(pa.table({"time": times}), tmp_path / "rows.parquet")
        clock = Clock("time", format="%B %d, %Y %I:%M %p")
        query = make_query(tmp_path / "rows.parquet", Order(is_online=True), clock=clock)
        found = [(row[ROW], row[DATE]) for row in rows_of(engine, query)]
        assert found == [(2, None), (3, NOON - 43260), (1, NOON - 10800), (0, NOON + 600)]
        wrong = replace(query, clock=Clock("time", format="%m/%d/%Y"))
        with pytest.raises(BadInput, match=r"rows.parquet row \d: .*, which does not match '%m/%d/%Y'"):
            rows_of(engine, wrong)

    def test_rows_that_are_left_out_are_never_seen(self, engine: Engine, tmp_path: Path) -> None:
        columns = {
            "time": ["?", "2021-01-01", "2021-01-02", None],
            "x": [1.5, 2.5, None, float("nan")],
            "X": list("abcd"),
        }
        parquet.write_table(pa.table(columns), tmp_path / "1.parquet")
        csv.write_csv(pa.table(columns), tmp_path / "2.csv")
        for where, required, kept in (
            ("\"X\" IN ('b', 'c')", (), [1, 2]),
            ("time <> '?' OR time IS NULL", ("x", "time"), [1]),
        ):
            row_filter = RowFilter(Where(where), required)
            query = make_query(
                str(tmp_path / "*"), Order(is_online=True), columns=("x",), clock=Clock("time"), row_filter=row_filter
            )
            places = [(row[FILE], row[ROW]) for row in rows_of(engine, query)]
            assert sorted(places) == [(file, row) for file in (0, 1) for row in kept]

    def test_names_that_differ_only_in_case_are_two_columns(self, engine: Engine, tmp_path: Path) -> None:
        columns = {"id": [2, 1], "ID": ["b", "a"], "file_row_number": [7, 8], "Filename": [5, 6], 'a "b"': [3, 4]}
        parquet.write_table(pa.table(columns), tmp_path / "rows [1].parquet")
        query = make_query(tmp_path / "rows [1].parquet", Order(is_online=False, pivot="ID"))
        rows = pa.table(columns).to_pylist()
        assert rows_of(engine, query) == [{**rows[1], FILE: 0, ROW: 1}, {**rows[0], FILE: 0, ROW: 0}]

    def test_a_shuffle_is_a_permutation_that_depends_on_the_seed_only(self, engine: Engine, tmp_path: Path) -> None:
        parquet.write_table(pa.table({"x": range(100)}), tmp_path / "rows.parquet")
        order = Order(is_online=False, is_shuffled=True)
        query = make_query(tmp_path / "rows.parquet", order, shuffle_seed=1)
        found = [row["x"] for row in rows_of(engine, query)]
        seed = derive(1, "shuffle")
        assert found == sorted(range(100), key=lambda row: hash_bytes(row.to_bytes(8, "little"), seed))

    def test_a_shuffle_with_a_pivot_keeps_groups_together(self, engine: Engine, tmp_path: Path) -> None:
        parquet.write_table(pa.table({"x": list("bacbab")}), tmp_path / "rows.parquet")
        order = Order(is_online=False, pivot="x", is_shuffled=True)
        query = make_query(tmp_path / "rows.parquet", order, shuffle_seed=1)
        groups = sorted("abc", key=lambda word: hash_bytes(word.encode(), derive(1, "shuffle")))
        expected = [(word, row) for word in groups for row, other in enumerate("bacbab") if other == word]
        assert [(row["x"], row[ROW]) for row in rows_of(engine, query)] == expected


def write_numbers(path: Path, columns: dict[str, list[int | None]]) -> None:
    """Integers in the format that the suffix names."""
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    if path.suffix == ".csv":
        lines = [",".join(columns), *(",".join("" if v is None else str(v) for v in row.values()) for row in rows)]
        path.write_text("\n".join(lines) + "\n")
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        kinds = {
            name: pa.int64() if min(v or 0 for v in values) < 0 else pa.uint64() for name, values in columns.items()
        }
        table = pa.table({name: pa.array(values, kinds[name]) for name, values in columns.items()})
        if path.suffix == ".parquet":
            parquet.write_table(table, path)
        else:
            feather.write_feather(table, str(path), compression="uncompressed")
