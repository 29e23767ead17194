import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.tables.making import add_version

from samovar.errors import AlreadyExists, BadInput, CorruptData, StoreError
from samovar.store import MemoryStore
from samovar.tables import ColumnSchema, Ids, Table, TableSchema
from samovar.tables.export import export_rows
from samovar.tables.schema import Minibatch


def ids(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.uint64)


def lengths(*numbers: object) -> np.ndarray:
    return np.array(numbers, np.int32)


@pytest.fixture
def table() -> Table:
    """Three examples of every kind of column."""
    columns = {
        "single": (ColumnSchema("single", "categorical", 1, "uint64"), Ids(ids(2**64 - 1, 5), lengths(1, 0, 1))),
        "list": (ColumnSchema("list", "categorical", 1, "list<element: int64>"), Ids(ids(1, 2, 3), lengths(2, 0, 1))),
        "unravelled": (
            ColumnSchema("unravelled", "categorical", 2, "list<element: int64>"),
            Ids(ids(1, 2, 3), lengths([1, 1], [0, 0], [1, 0])),
        ),
        "nested": (
            ColumnSchema("nested", "categorical", 2, "list<element: list<element: int64>>"),
            Ids(ids(1, 2, 3), lengths([2, 0], [0, 0], [0, 1])),
        ),
        "hashed": (ColumnSchema("hashed", "categorical", 1, "string"), Ids(ids(9), lengths(0, 1, 0))),
        "price": (ColumnSchema("price", "real", 1, "double"), np.array([1, 2, 3], np.float32)),
        "pair": (
            ColumnSchema("pair", "real", 2, "list<element: double>"),
            np.arange(6, dtype=np.float32).reshape(3, 2),
        ),
        "cube": (ColumnSchema("cube", "real", 3, "x"), np.arange(6, dtype=np.float32).reshape(3, 1, 2)),
        "key": (ColumnSchema("key", "key", 1, "string"), pa.array(["a", None, "c"])),
    }
    schema = TableSchema(tuple(column for column, _ in columns.values()))
    values = {name: value for name, (_, value) in columns.items()}
    return add_version(MemoryStore(), [Minibatch(3600, 3, values)] * 2, schema)


EXPECTED: dict[str, list[Any]] = {
    "single": [2**64 - 1, None, 5],
    "list": [[1, 2], [], [3]],
    "unravelled": [[1, 2], [], [3]],
    "nested": [[[1, 2], []], [[], []], [[], [3]]],
    "hashed": [[], [9], []],
    "price": [1.0, 2.0, 3.0],
    "pair": [[0, 1], [2, 3], [4, 5]],
    "cube": [[[0, 1]], [[2, 3]], [[4, 5]]],
    "key": ["a", None, "c"],
}


def test_a_table_turns_back_into_ordinary_rows(tmp_path: Path, table: Table) -> None:
    assert export_rows(table, tmp_path / "rows.parquet") == 6
    found = pq.read_table(tmp_path / "rows.parquet")
    assert [str(hour) for hour in found["_hour"].to_pylist()] == ["1970-01-01 01:00:00+00:00"] * 6
    for name, values in EXPECTED.items():
        assert found[name].to_pylist() == values * 2, name


def test_the_suffix_names_the_format(tmp_path: Path, table: Table) -> None:
    for name in ("rows.parquet", "rows.arrow", "rows.csv"):
        assert export_rows(table, tmp_path / name) == 6
    rows = pq.read_table(tmp_path / "rows.parquet")
    assert pa.ipc.open_file(tmp_path / "rows.arrow").read_all().equals(rows)
    with (tmp_path / "rows.csv").open() as file:
        found = list(csv.DictReader(file))
    assert [row["single"] for row in found[:3]] == [str(2**64 - 1), "", "5"]
    assert [json.loads(row["nested"]) for row in found] == EXPECTED["nested"] * 2
    assert [row["key"] for row in found[:3]] == ["a", "", "c"]
    with pytest.raises(BadInput, match=r"rows.xlsx: the name must end with .parquet, .csv or .arrow"):
        export_rows(table, tmp_path / "rows.xlsx")


def test_an_export_overwrites_nothing(tmp_path: Path, table: Table) -> None:
    (tmp_path / "rows.parquet").write_text("mine")
    with pytest.raises(AlreadyExists, match=r"already exists.*Choose another name"):
        export_rows(table, tmp_path / "rows.parquet")
    assert (tmp_path / "rows.parquet").read_text() == "mine"


def test_an_export_that_fails_leaves_nothing(tmp_path: Path, table: Table) -> None:
    with pytest.raises(StoreError, match=r"could not export to .*none/rows.parquet: the folder is missing"):
        export_rows(table, tmp_path / "none" / "rows.parquet")
    for entry in table.manifests[0].segment.files:
        table.store.remove(entry.path)
    with pytest.raises(CorruptData, match="the file is missing"):
        export_rows(table, tmp_path / "rows.parquet")
    assert list(tmp_path.iterdir()) == []
