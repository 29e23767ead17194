"""`where`: an expression over the columns of a row, and nothing else."""

from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

import samovar
from samovar.brewing.recipe import Recipe
from samovar.brewing.row_filter import RowFilter, Where
from samovar.brewing.sources import FILE, ROW, find_source, scan
from samovar.errors import BadInput, ConfigError, Conflict, SamovarError, UnknownColumn

ROWS = pd.DataFrame(
    {"n": range(6), "quantity": [1, -2, 3, None, 5, 6], "country": ["A", "B", "A", "B", None, "C"], "t": range(6)}
)


@pytest.fixture(params=["frame", "parquet", "csv"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "frame":
        return ROWS
    path = tmp_path / f"rows.{request.param}"
    ROWS.to_csv(path, index=False) if request.param == "csv" else ROWS.to_parquet(path)
    return path


def numbers(source: Any, folder: Path, **keys: Any) -> list[int]:
    found = samovar.brew(source, folder, columns={"n": "key"}, progress=False, **keys)
    records: list[Any] = list(found.read())
    return [number for record in records for number in record["n"].to_pylist()]


@pytest.mark.parametrize(
    ("where", "kept"),
    [
        ("quantity > 0", [0, 2, 4, 5]),
        ("quantity > 0 AND country <> 'A'", [5]),
        ("country IN ('A', 'C') OR country IS NULL", [0, 2, 4, 5]),
        ("coalesce(quantity, 1) BETWEEN 1 AND 3 -- and no more", [0, 2, 3]),
        ("CASE WHEN n % 2 = 0 THEN lower(country) = 'a' ELSE n = 5 END", [0, 2, 5]),
        ("n < 2 AND true", [0, 1]),
    ],
)
def test_only_rows_for_which_it_is_true_are_taken(tmp_path: Path, where: str, kept: list[int]) -> None:
    ROWS.to_parquet(tmp_path / "rows.parquet")
    scanned = scan(find_source(tmp_path / "rows.parquet"))
    row_filter = RowFilter(Where(where))
    row_filter.check(scanned.schema, "rows.parquet")
    (batch,) = row_filter.read(scanned.source, scanned.schema, ["n"])
    assert batch.schema.names == ["n", FILE, ROW]
    assert batch.column("n").to_pylist() == batch.column(ROW).to_pylist() == kept


def test_it_chooses_the_rows_of_every_source_and_order(source: Any, tmp_path: Path) -> None:
    where = "quantity > 0 AND country <> 'C'"
    assert numbers(source, tmp_path / "offline", where=where) == [0, 2]
    assert numbers(source, tmp_path / "online", where=where, time="t") == [0, 2]


@pytest.mark.parametrize(
    "where",
    [
        "n IN (SELECT 1)",
        "EXISTS (FROM 'other.parquet')",
        "n) FROM read_csv('other.csv') WHERE (n",
        "1) UNION SELECT (2",
        "1) LIMIT (1",
        "n = 1; DROP TABLE x",
        "n = ANY([1, 2])",
        "read_text('other.csv') = 'x'",
        "getenv('HOME') = 'x'",
        "current_setting('threads') = '1'",
        "now() > make_date(2020, 1, 1)",
        "random() < 0.5",
        "main.lower(country) = 'a'",
        "row_number() OVER () = 1",
        "max(n) = 1",
        "COLUMNS(*) > 1",
        "* > 1",
        "#1 > 1",
        "n = $1",
        "n = ?",
        "list_filter([n], x -> x > 1) = [1]",
        "n COLLATE nocase = 1",
        "n >",
        "",
        "n, quantity",
    ],
)
def test_what_is_more_or_less_than_an_expression_is_refused_in_one_sentence(where: str) -> None:
    with pytest.raises(ConfigError, match="where: ") as caught:
        Recipe.load({"source": "rows.csv", "columns": {"n": "key"}, "where": where}, "recipe.json")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("where", "error", "message"),
    [
        ("quantty > 0", UnknownColumn, "where: no column 'quantty'. Did you mean 'quantity'"),
        ("N > 0", UnknownColumn, "where: no column 'N'. Did you mean 'n'"),
        ("current_date > n", UnknownColumn, "where: no column 'current_date'"),
        ("n + 1", ConfigError, "where must be true or false for each row, but 'n \\+ 1' is int"),
        ("lower(country, 1) = 'a'", ConfigError, "where: Binder Error: .*, in .lower"),
        ("CAST(country AS INTEGER) = 1", BadInput, "row 0: where: Conversion Error: .*, in 'CAST"),
    ],
)
def test_an_expression_that_does_not_fit_the_columns_is_refused(
    tmp_path: Path, where: str, error: type[SamovarError], message: str
) -> None:
    ROWS.to_csv(tmp_path / "rows.csv", index=False)
    with pytest.raises(error, match=rf"rows.csv:? {message}"):
        numbers(tmp_path / "rows.csv", tmp_path / "table", where=where)


def test_the_row_that_cannot_be_computed_is_named(tmp_path: Path) -> None:
    parquet.write_table(
        pa.table({"n": range(20_000), "x": ["1"] * 15_000 + ["one"] * 5_000}), tmp_path / "rows.parquet"
    )
    with pytest.raises(
        BadInput, match=r"rows.parquet row 15000: where: Conversion Error: Could not convert string 'one'"
    ):
        numbers(tmp_path / "rows.parquet", tmp_path / "table", where="CAST(x AS INTEGER) = 1")


def test_it_is_part_of_the_identity_of_a_table(tmp_path: Path) -> None:
    numbers(ROWS, tmp_path / "table", where="n < 3")
    with pytest.raises(Conflict, match="where"):
        numbers(ROWS, tmp_path / "table", where="n < 4")
    with pytest.raises(BadInput, match="no rows, or none are left after start_date, end_date, where and missing: drop"):
        numbers(ROWS, tmp_path / "empty", where="n > 9")


def test_columns_whose_names_need_quotes_can_be_named() -> None:
    assert Where('"two words" > 1 AND "ID" = "id"').columns == ["two words", "ID", "id"]
