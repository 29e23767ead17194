"""Drafted recipes: sensible roles, honest doubts, and tables without any change."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

import samovar
from samovar.brewing import brew_recipe, draft_recipe, write_recipe
from samovar.errors import BadInput, Conflict

RUNNING = {"number": {"scale": "running"}}


def make_retail(num_rows: int = 60) -> pd.DataFrame:
    """Like the Online Retail data: US times, prices in pounds, ids as integers, some of them missing."""
    numbers = np.arange(num_rows)
    return pd.DataFrame(
        {
            "InvoiceNo": [f"C{number}" if number % 20 == 19 else str(536000 + number // 3) for number in numbers],
            "StockCode": [["85123A", "22752", "POST"][number % 3] for number in numbers],
            "Description": [f"£{number} WHITE HANGING HEART, SET OF {number % 7}" for number in numbers],
            "Quantity": (numbers * 7) % 50 - 3,
            "InvoiceDate": [f"12/{1 + number % 28}/2010 {number % 24}:05" for number in numbers],
            "UnitPrice": np.where(numbers % 10 == 0, np.nan, numbers * 0.85),
            "CustomerID": pd.array([None if number % 9 == 0 else 17000 + number % 11 for number in numbers], "Int64"),
            "Country": [["United Kingdom", "France"][number % 2] for number in numbers],
            "Returned": numbers % 2,
            "Constant": 1,
            "Empty": None,
        }
    )


def test_a_shop_in_latin_1_with_us_dates(tmp_path: Path) -> None:
    make_retail().to_csv(tmp_path / "retail.csv", index=False, encoding="latin-1")
    draft = draft_recipe(tmp_path / "retail.csv")
    assert draft.recipe == {
        "source": str(tmp_path / "retail.csv"),
        "encoding": "cp1252",
        "time_format": "%m/%d/%Y %H:%M",
        "columns": {
            "InvoiceNo": "hash",
            "StockCode": "hash",
            "Description": "text",
            "Quantity": RUNNING,
            "InvoiceDate": "time",
            "UnitPrice": {"number": {"scale": "running", "missing": "indicator"}},
            "CustomerID": "id",
            "Country": "hash",
            "Returned": "number",
            "Constant": "ignore",
            "Empty": "ignore",
        },
    }
    doubtful = {name for name, guess in draft.guesses.items() if guess.is_doubtful}
    assert doubtful == {"InvoiceNo", "Constant"}
    done = brew_recipe(draft.recipe, tmp_path / "table", progress=False)
    assert done.counts is not None
    assert done.counts.num_rows == 60
    assert not any("does not name" in note for note in done.notes)


def test_reviews_with_dates_in_words_and_texts_of_several_lines(tmp_path: Path) -> None:
    rows = pd.DataFrame(
        {
            "": range(40),
            "fit": ["fit", "small"] * 20,
            "user_id": [420000 + number % 13 for number in range(40)],
            "weight": [f"{130 + number % 30}lbs" for number in range(40)],
            "rating": pd.array([10, 8, 6, None] * 10, "Int64"),
            "review_text": [f"An adorable romper!\nBelt number {number}, wow" for number in range(40)],
            "review_date": [f"{'April' if number % 2 else 'May'} {1 + number % 28}, 2016" for number in range(39)]
            + [None],
        }
    )
    rows.to_csv(tmp_path / "runway.csv", index=False)
    draft = draft_recipe(str(tmp_path / "runway.csv"))
    assert draft.recipe["columns"] == {
        "": "key", "fit": "hash", "user_id": "id", "weight": "hash", "rating": "number", "review_text": "text",
        "review_date": "time",
    }  # fmt: skip
    assert draft.recipe["time_format"] == "%B %d, %Y"
    assert draft.recipe["missing"] == {"review_date": "drop"}
    assert "drop the rows that lack it" in draft.guesses["rating"].reason
    done = brew_recipe(draft.recipe, tmp_path / "table", progress=False)
    assert done.counts is not None
    assert done.counts.num_rows == 39


def test_typed_columns_lists_and_rows_in_memory(tmp_path: Path) -> None:
    rows = pa.table(
        {
            "when": pa.array([1_600_000_000 + number for number in range(30)]),
            "hit": [f"h{number}" for number in range(30)],
            "history": [[1, 2], [], [3]] * 10,
            "vector": [[0.5, 1.0, 2.0]] * 30,
            "ragged": [[0.5], [1.0, 2.0]] * 15,
            "tags": [["a"], ["a", "b"]] * 15,
            "flag": [True, False] * 15,
            "debug": [{"a": 1}] * 30,
        }
    )
    draft = draft_recipe(rows)
    assert draft.recipe["columns"] == {
        "when": "time", "hit": "key", "history": "id", "vector": "number", "ragged": "ignore", "tags": "hash",
        "flag": "number", "debug": "ignore",
    }  # fmt: skip
    table = samovar.brew(result=tmp_path / "table", progress=False, **draft.recipe)
    assert table.num_examples == 30
    with pytest.raises(BadInput, match="a recipe file cannot name rows in memory"):
        write_recipe(draft, tmp_path / "recipe.json")


def test_without_a_time_rows_are_shuffled_and_two_orders_of_day_and_month_are_a_doubt(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"x": [0.5, 1.5, 2.5]}), tmp_path / "rows.parquet")
    assert draft_recipe(tmp_path / "rows.parquet").recipe["shuffle"] == {"seed": 0}
    (tmp_path / "rows.csv").write_text("day,x\n1/2/2021,0.5\n2/3/2021,1.5\n")
    draft = draft_recipe(tmp_path / "rows.csv")
    assert draft.recipe["time_format"] == "%m/%d/%Y"
    assert draft.guesses["day"].is_doubtful
    (tmp_path / "none.csv").write_text("x\n")
    with pytest.raises(BadInput, match="no rows to draft a recipe from"):
        draft_recipe(tmp_path / "none.csv")


def test_a_time_that_a_later_row_breaks_is_no_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("samovar.brewing.draft.MOST_ROWS", 2)
    (tmp_path / "rows.csv").write_text("day,x\n13/2/2021,0.5\n14/3/2021,1.5\nyesterday,2.5\n")
    draft = draft_recipe(tmp_path / "rows.csv")
    assert draft.recipe["columns"] == {"day": "hash", "x": RUNNING}


def test_a_draft_is_written_once_with_paths_from_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make_retail().to_csv("retail.csv", index=False)
    Path("recipes").mkdir()
    draft = draft_recipe("retail.csv")
    written = write_recipe(draft, "recipes/retail.json")
    text = Path("recipes/retail.json").read_text()
    assert json.loads(text) == written.recipe == {**draft.recipe, "source": "../retail.csv"}
    assert '    "CustomerID": "id",\n' in text
    done: Any = brew_recipe("recipes/retail.json", progress=False)
    assert done.counts.num_rows == 60
    with pytest.raises(Conflict, match="already exists"):
        write_recipe(draft, "recipes/retail.json")
    lines = draft.explain()
    assert lines[0].startswith("? InvoiceNo ")
    assert lines[1].startswith("  StockCode ")


def test_daily_data_is_split_by_the_day(tmp_path: Path) -> None:
    days = pd.DataFrame({"day": [f"2024-01-{1 + number:02}" for number in range(25)], "sold": np.arange(25) % 3})
    days.to_csv(tmp_path / "sales.csv", index=False)
    draft = draft_recipe(tmp_path / "sales.csv")
    assert draft.recipe["uri"] == "day"
    assert "uri day: all times are midnight, so an hour would be too fine" in draft.notes
    table = samovar.open_table(brew_recipe(draft.recipe, tmp_path / "table").directory)
    assert (table.period.name, len(table.hours)) == ("day", 25)


def test_integers_that_no_float_holds_are_ids(tmp_path: Path) -> None:
    """Hashes and random ids, with missing ones and ids from 2**63: scaled as numbers they would say nothing."""
    users = [None if row % 7 == 0 else (row % 40) * 2**58 + 2**54 for row in range(200)]
    rows = "".join(f"{'' if user is None else user},{row % 30}\n" for row, user in enumerate(users))
    (tmp_path / "log.csv").write_text(f"user,amount\n{rows}")
    roles = draft_recipe(tmp_path / "log.csv").recipe["columns"]
    assert roles["user"] == "id"
    assert roles["amount"] != "id"
