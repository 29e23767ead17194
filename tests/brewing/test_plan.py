"""Whole brewing in memory: random rows in, minibatches out, with both engines."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from samovar.brewing.engines import find_engine
from samovar.brewing.parts import Part
from samovar.brewing.plan import find_recipe_sources, plan_recipe
from samovar.brewing.progress import BrewCounts
from samovar.brewing.recipe import Recipe
from samovar.brewing.sources import scan
from samovar.errors import BadInput, ConfigError
from samovar.native import hash_bytes
from samovar.tables.schema import Ids, Minibatch

HOUR = 3600


def brew_all(keys: dict[str, Any], folder: Path, engine: str = "duckdb") -> tuple[list[Minibatch], BrewCounts]:
    recipe = Recipe.load(keys, "recipe.json")
    scanned = {key: scan(source) for key, source in find_recipe_sources(recipe, folder).items()}
    sorter = find_engine(engine)
    plan = plan_recipe(recipe, scanned, sorter)
    names = list({name: None for each in plan.tables for name in each.converters})
    assert plan.schema.names == (names if recipe.pivot_column is None else [*names, "group_start"])
    counts = BrewCounts()
    queries = [table.query for table in plan.tables]
    made = sorter.map_parts(queries, [Part()], lambda _, streams, __: list(plan.minibatches(streams, counts)))
    return next(made), counts


def value(batch: Minibatch, name: str) -> Any:
    return batch.values[name]


def plain(batches: list[Minibatch]) -> list[Any]:
    """Minibatches as values that can be compared."""
    return [
        (each.hour, each.num_examples, {name: plain_value(v) for name, v in each.values.items()}) for each in batches
    ]


def plain_value(value: Any) -> Any:
    if isinstance(value, Ids):
        return value.data.tolist(), value.lengths.tolist()
    return value.tobytes() if isinstance(value, np.ndarray) else value.to_pylist()


SCALARS = st.none() | st.integers(0, 2**64 - 1)
LISTS = st.none() | st.lists(SCALARS, max_size=3)
REALS = st.none() | st.floats(width=32)


@st.composite
def rows_of_a_log(draw: st.DrawFn) -> list[dict[str, Any]]:
    times = draw(st.lists(st.integers(HOUR, 4 * HOUR), min_size=1, max_size=40))
    row = st.fixed_dictionaries(
        {
            "pivot": st.integers(0, 4),
            "id": SCALARS,
            "ids": LISTS,
            "deep": st.none() | st.lists(LISTS, max_size=2),
            "sequence": LISTS,
            "real": REALS,
            "reals": st.none() | st.lists(REALS, min_size=2, max_size=2),
            "word": st.none() | st.text(max_size=3),
        }
    )
    return [{"number": number, "time": time, **draw(row)} for number, time in enumerate(times)]


KINDS = pa.schema(
    {
        "number": pa.int64(),
        "time": pa.int64(),
        "pivot": pa.uint64(),
        "id": pa.uint64(),
        "ids": pa.list_(pa.uint64()),
        "deep": pa.list_(pa.list_(pa.uint64())),
        "sequence": pa.list_(pa.uint64()),
        "real": pa.float32(),
        "reals": pa.list_(pa.float32()),
        "word": pa.string(),
    }
)
RECIPE = {
    "source": "*.parquet",
    "categorical_factors": ["id", "ids", "deep"],
    "unravelled_categorical_factors": ["sequence"],
    "realvalue_factors": ["real", "reals"],
    "hashed_factors": ["word"],
    "keys": ["number", "id"],
}


def write_log(folder: Path, rows: list[dict[str, Any]], num_files: int) -> None:
    for old in folder.glob("*.parquet"):
        old.unlink()
    for number in range(num_files):
        part = rows[number * len(rows) // num_files : (number + 1) * len(rows) // num_files]
        parquet.write_table(pa.Table.from_pylist(part, KINDS), folder / f"{number}.parquet", row_group_size=7)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=rows_of_a_log(),
    num_files=st.integers(1, 3),
    batch_size=st.integers(1, 9),
    granularity=st.sampled_from([1, 7, 300, 1000, 3600]),
    has_pivot=st.booleans(),
)
def test_every_row_comes_once_in_the_promised_order_from_every_engine(
    tmp_path: Path, rows: list[dict[str, Any]], num_files: int, batch_size: int, granularity: int, has_pivot: bool
) -> None:
    write_log(tmp_path, rows, num_files)
    recipe = {**RECIPE, "time_field": "time", "batch_size": batch_size, "granularity": granularity}
    recipe |= {"pivot_column": "pivot"} if has_pivot else {}
    batches, counts = brew_all(recipe, tmp_path)

    def position(row: dict[str, Any]) -> tuple[int, ...]:
        hour = row["time"] // HOUR * HOUR
        granule = (row["time"] - hour) // granularity
        return hour, granule, row["pivot"] if has_pivot else row["time"], row["number"]

    in_order = sorted(rows, key=position)
    assert [number for each in batches for number in value(each, "number").to_pylist()] == [
        row["number"] for row in in_order
    ]
    assert [key for each in batches for key in value(each, "key:id").to_pylist()] == [row["id"] for row in in_order]
    check_values(batches, in_order)
    if has_pivot:
        check_groups(batches, [position(row)[:3] for row in in_order])
    num_hours = len({row["time"] // HOUR for row in rows})
    assert counts.num_short_batches <= num_hours
    assert plain(batches) == plain(brew_all(recipe, tmp_path)[0])
    assert plain(batches) == plain(brew_all(recipe, tmp_path, "memory")[0])


def check_values(batches: list[Minibatch], rows: list[dict[str, Any]]) -> None:
    begin = 0
    for each in batches:
        part = rows[begin : begin + each.num_examples]
        begin += each.num_examples
        assert {row["time"] // HOUR * HOUR for row in part} == {each.hour}
        bags = each.values["ids"]
        assert isinstance(bags, Ids)
        expected = [[number for number in row["ids"] or [] if number is not None] for row in part]
        assert [bag.tolist() for bag in np.split(bags.data, np.cumsum(bags.lengths)[:-1])] == expected
        np.testing.assert_array_equal(each.values["real"], np.array([row["real"] or 0 for row in part], np.float32))
        assert value(each, "sequence").lengths.shape[0] == each.num_examples
        has_lists = any(row["reals"] is not None for row in rows)
        assert value(each, "reals").shape == (each.num_examples, 2 if has_lists else 0)
    assert begin == len(rows)


def check_groups(batches: list[Minibatch], groups: list[Any]) -> None:
    """A row is marked if it is the first of its group; no group is cut."""
    marks = np.concatenate([each.values["group_start"] for each in batches])
    assert marks.dtype == np.float32
    assert marks.tolist() == [float(row == 0 or group != groups[row - 1]) for row, group in enumerate(groups)]
    assert all(value(each, "group_start")[0] == 1 for each in batches)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows_of_a_log(), st.integers(1, 9), st.booleans(), st.booleans())
def test_offline_tables_are_equal_from_every_engine(
    tmp_path: Path, rows: list[dict[str, Any]], batch_size: int, has_pivot: bool, is_shuffled: bool
) -> None:
    write_log(tmp_path, rows, 2)
    recipe: dict[str, Any] = {**RECIPE, "batch_size": batch_size}
    recipe |= {"pivot_column": "pivot"} if has_pivot else {}
    recipe |= {"shuffle": {"seed": 1}} if is_shuffled else {}
    batches, counts = brew_all(recipe, tmp_path)
    numbers = [number for each in batches for number in value(each, "number").to_pylist()]
    assert sorted(numbers) == list(range(len(rows)))
    if not is_shuffled:
        assert numbers == sorted(numbers, key=lambda number: (rows[number]["pivot"] if has_pivot else 0, number))
    assert all(each.hour is None for each in batches)
    if has_pivot:
        check_groups(batches, [rows[number]["pivot"] for number in numbers])
    assert counts.num_short_batches <= 1
    assert plain(batches) == plain(brew_all(recipe, tmp_path, "memory")[0])


def test_joined_tables_give_the_columns_of_all(tmp_path: Path) -> None:
    events = pa.table({"time": [10, 20, 20], "hit": [1, 2, 2], "banner": [5, 6, 7], "click": [0, 1, 0]})
    parquet.write_table(events, tmp_path / "events.parquet")
    features = pa.table({"time": [20, 10, 20], "hit": [2, 1, 2], "banner": [7, 5, 6], "page": [70, 50, 60]})
    parquet.write_table(features, tmp_path / "pages.parquet")
    recipe = {
        "source": "events.parquet",
        "time_field": "time",
        "pivot_column": "hit",
        "stability_column": "banner",
        "realvalue_factors": ["click"],
        "keys": ["banner"],
        "tables": [{"source": "pages.parquet", "categorical_factors": ["page"]}],
    }
    (batch,), _ = brew_all(recipe, tmp_path)
    assert plain_value(batch.values["banner"]) == [5, 6, 7]
    assert plain_value(batch.values["page"]) == ([50, 60, 70], [1, 1, 1])
    assert value(batch, "click").tolist() == [0, 1, 0]
    assert value(batch, "group_start").tolist() == [1, 1, 0]
    parquet.write_table(features.slice(1), tmp_path / "pages.parquet")
    with pytest.raises(BadInput, match=r"pages.parquet: no row with _online_.*granular = 0, hit = 2, banner = 7"):
        brew_all(recipe, tmp_path)
    parquet.write_table(pa.concat_tables([features, features.slice(1, 1)]), tmp_path / "pages.parquet")
    with pytest.raises(
        BadInput, match=r"pages.parquet: two rows with .*hit = 1, banner = 5, but tables are joined one to one"
    ):
        brew_all(recipe, tmp_path)
    recipe["tables"] = [{"source": "pages.parquet", "categorical_factors": ["banner"]}]
    with pytest.raises(ConfigError, match="column 'banner' comes from both table 1 and table 2"):
        brew_all(recipe, tmp_path)


@pytest.mark.parametrize(
    ("columns", "keys", "message"),
    [
        (
            {"x": [[1.0], [1.0, 2.0]]},
            {"realvalue_factors": ["x"]},
            r"rows.parquet row 1: column 'x' has a list of length 2, but other rows have 1 numbers",
        ),
        ({"x": [1], "t": [None]}, {"keys": ["x"], "time_field": "t"}, r"rows.parquet row 0: the time is null"),
        (
            {"x": [1, 2], "t": [5, 6], "p": [1, None]},
            {"keys": ["x"], "time_field": "t", "pivot_column": "p"},
            r"rows.parquet row 1: column 'p' is null, but rows are sorted by it",
        ),
        ({"x": [1]}, {"keys": ["x"], "time_field": "tme"}, "time_field: no column 'tme'. Available: x"),
        (
            {"x": [1], "p": [0.5]},
            {"keys": ["x"], "pivot_column": "p"},
            "pivot_column: column 'p' is double, expected integers, strings or times",
        ),
    ],
)
def test_rows_that_cannot_be_brewed_are_named(
    tmp_path: Path, columns: dict[str, Any], keys: dict[str, Any], message: str
) -> None:
    parquet.write_table(pa.table(columns), tmp_path / "rows.parquet")
    for engine in ("duckdb", "memory"):
        with pytest.raises((BadInput, LookupError), match=message):
            brew_all({"source": "rows.parquet", **keys}, tmp_path, engine)


def test_texts_and_hashes_come_from_csv_as_they_are_written(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("code,title,id\n007,Red tea,18446744073709551615\n7,,1\n,tea,\n")
    recipe = {
        "source": "rows.csv",
        "hashed_factors": ["code"],
        "text_factors": {"title": {"words": 1}},
        "categorical_factors": ["id"],
        "keys": ["code"],
    }
    (batch,), _ = brew_all(recipe, tmp_path)
    assert plain_value(batch.values["code"]) == ([hash_bytes(b"007"), hash_bytes(b"7")], [1, 1, 0])
    assert plain_value(batch.values["key:code"]) == ["007", "7", None]
    assert plain_value(batch.values["id"]) == ([2**64 - 1, 1], [1, 1, 0])
    words, lengths = plain_value(batch.values["title"])
    assert lengths == [2, 0, 1]
    assert words[1] == words[2]
