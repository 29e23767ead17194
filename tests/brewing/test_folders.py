"""Folders whose names are columns, as Hive and Spark write them."""

from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

import samovar
from samovar.brewing import brew_recipe
from samovar.brewing.patterns import NamedColumns
from samovar.brewing.sources import find_source, scan
from samovar.errors import BadInput, Conflict, UnknownColumn
from samovar.testing.format import read_all

COLUMNS = {"day": ["time", "key"], "country": "hash", "x": ["id", "key"]}
ALL = NamedColumns(frozenset(["*"]))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two days of clicks in two countries, one of which has a file of another format."""
    for number, (day, country) in enumerate(
        [("2024-01-02", "fr"), ("2024-01-01", "%C3%85land"), ("2024-01-01", "007")]
    ):
        place = tmp_path / "clicks" / f"day={day}" / f"country={country}"
        place.mkdir(parents=True)
        rows = pa.table({"x": [10 * number, 10 * number + 1]})
        if number == 0:
            (place / "part.csv").write_text("x\n0\n1\n")
        else:
            parquet.write_table(rows, place / "part.parquet")
    (tmp_path / "clicks" / "_SUCCESS").touch()
    (tmp_path / "clicks" / "day=2024-01-01" / ".part.crc").touch()
    return tmp_path


def rows_of(table: Any) -> list[tuple[Any, ...]]:
    found = []
    for record in table.read():
        keys: Any = [record[name].to_pylist() for name in ("day", "key:x")]
        found += list(zip(*keys, strict=True))
    return found


@pytest.mark.parametrize("pattern", ["clicks", "clicks/*/*/*.*", "clicks/**/part.*", "clicks/day=*/country=*/part.*"])
def test_the_names_of_folders_are_columns(folder: Path, pattern: str) -> None:
    recipe = {"source": str(folder / pattern), "columns": COLUMNS}
    done = brew_recipe(recipe, folder / "table", progress=False)
    assert rows_of(samovar.open_table(done.directory)) == [
        ("2024-01-01", 10), ("2024-01-01", 11), ("2024-01-01", 20), ("2024-01-01", 21), ("2024-01-02", 0),
        ("2024-01-02", 1),
    ]  # fmt: skip


def test_values_have_the_narrowest_type_unless_they_are_texts(folder: Path) -> None:
    kinds, rows = read_all(folder / "clicks", folder_columns=ALL, text_columns=["country"])
    assert kinds == {"x": "int64", "day": "string", "country": "string"}
    assert {row["country"] for row in rows} == {"007", "Åland", "fr"}
    (folder / "n" / "n=5").mkdir(parents=True)
    (folder / "n" / "n=__HIVE_DEFAULT_PARTITION__").mkdir()
    for name in ("n=5", "n=__HIVE_DEFAULT_PARTITION__"):
        (folder / "n" / name / "part.csv").write_text("x\n1\n")
    kinds, rows = read_all(folder / "n", folder_columns=ALL)
    assert kinds == {"x": "int64", "n": "int64"}
    assert [row["n"] for row in rows] == [5, None]


def test_only_columns_that_the_recipe_names_are_read_and_count(folder: Path) -> None:
    unnamed = {"source": str(folder / "clicks"), "columns": {"x": "key"}}
    named = {"source": str(folder / "clicks"), "columns": {"country": "key"}, "where": "day > '2024-01-01'"}
    plain = brew_recipe(unnamed, folder / "plain", progress=False)
    keyed = brew_recipe(named, folder / "keyed", progress=False)
    assert (plain.counts.num_rows, keyed.counts.num_rows) == (6, 2)  # type: ignore[union-attr]  # just brewed
    (folder / "clicks" / "day=2024-01-02").rename(folder / "clicks" / "day=2024-01-03")
    assert brew_recipe(unnamed, folder / "plain", progress=False).counts is None
    with pytest.raises(Conflict):
        brew_recipe(named, folder / "keyed", progress=False)


def test_a_column_of_the_file_itself_comes_first(folder: Path) -> None:
    rows = pd.DataFrame({"x": [1], "day": ["2030-01-01"]})
    rows.to_parquet(folder / "clicks" / "day=2024-01-01" / "own.parquet")
    (row,) = read_all(str(folder / "clicks" / "*" / "own.parquet"), folder_columns=ALL)[1]
    assert row["day"] == "2030-01-01"


def test_folders_above_the_pattern_are_no_columns(folder: Path) -> None:
    source = find_source(str(folder / "clicks" / "day=2024-01-01" / "*" / "*.parquet"), folder_columns=ALL)
    assert scan(source).schema.names == ["x", "country"]
    with pytest.raises(BadInput, match=r"is a folder; name its files, for example .*country=fr/\*\.csv"):
        find_source(folder / "clicks" / "day=2024-01-02" / "country=fr")
    with pytest.raises(UnknownColumn, match="no column 'dya'"):
        samovar.brew(folder / "clicks", folder / "table", columns={"dya": "hash", "x": "key"})
