"""Columns that brewing makes: missing values, crosses, times, scales and bins; the same from every engine."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import samovar
from samovar.brewing import format_tensor_table, infer_converters
from samovar.brewing.brew import load_recipe
from samovar.brewing.engines import find_engine
from samovar.brewing.parts import Part
from samovar.brewing.plan import find_recipe_sources, plan_recipe
from samovar.brewing.progress import BrewCounts
from samovar.brewing.sources import scan
from samovar.errors import BadInput, ConfigError, Conflict, CorruptData, SamovarError
from samovar.native import hash_bytes
from samovar.tables import Table
from samovar.tables.schema import Ids

MONDAY = 1609718400  # 2021-01-04
ROWS = pd.DataFrame(
    {
        "t": [MONDAY + 6 * 3600 + 90, MONDAY - 60, MONDAY + 86400, MONDAY + 1, MONDAY + 2],
        "user": pd.array([7, 2**40, None, 7, 8], "Int64"),
        "ad": ["tea", "cups", "tea", None, "tea"],
        "price": [1.0, 3.0, None, 5.0, math.nan],
        "n": range(5),
    }
)


def brew(folder: Path, rows: pd.DataFrame = ROWS, **keys: Any) -> Table:
    return samovar.brew(rows, folder / "table", progress=False, **{"columns": {"n": "key"}, **keys})


def read(table: Table) -> dict[str, Any]:
    (record,) = table.read()
    values: dict[str, Any] = dict(record)
    order = np.argsort(values["n"].to_numpy())
    lists = {}
    for name, value in values.items():
        if hasattr(value, "data_len"):
            ends = np.cumsum(value.data_len.numpy())
            bags = np.split(value.data.numpy().view(np.uint64), ends[:-1])
            lists[name] = [bags[row].tolist() for row in order]
        else:
            lists[name] = [value.tolist()[row] for row in order]
    return lists


def engine_bytes(folder: Path, engine: str, recipe: dict[str, Any]) -> list[Any]:
    loaded = load_recipe(recipe, "recipe", folder)
    scanned = {key: scan(each) for key, each in find_recipe_sources(loaded.recipe, folder).items()}
    sorter = find_engine(engine)
    plan = plan_recipe(loaded.recipe, scanned, sorter)
    found: list[Any] = [plan.schema.to_json()]
    queries = [table.query for table in plan.tables]
    made = sorter.map_parts(queries, [Part()], lambda _, rows, __: list(plan.minibatches(rows, BrewCounts())))
    for batch in next(made):
        for name, value in batch.values.items():
            parts: list[Any] = [value.data, value.lengths] if isinstance(value, Ids) else [np.asarray(value)]
            found += [(name, part.tobytes(), part.shape) for part in parts]
    return found


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_every_engine_makes_the_same_bytes(tmp_path: Path, suffix: str) -> None:
    random = np.random.default_rng(0)
    rows = pd.DataFrame(
        {
            "t": MONDAY + random.integers(0, 86400, 3000),
            "x": random.normal(size=3000),
            "ad": np.array(["a", "b", None])[random.integers(0, 3, 3000)],
            "user": random.integers(0, 9, 3000),
        }
    )
    rows.loc[::7, "x"] = None
    rows.to_csv(tmp_path / "rows.csv", index=False) if suffix == "csv" else rows.to_parquet(tmp_path / "rows.parquet")
    recipe = {
        "source": f"rows.{suffix}", "time_field": "t", "time_features": {"hour": "cycle", "weekday": "id"},
        "columns": {"x": {"number": {"scale": "standard", "missing": "indicator"}}, "user": {"number": {"bins": 4}}},
        "crosses": [["user", "ad"]], "missing": {"ad": "drop"}, "where": "user <> 3", "start_date": "2021-01-04T02:00",
        "batch_size": 100,
    }  # fmt: skip
    assert engine_bytes(tmp_path, "duckdb", recipe) == engine_bytes(tmp_path, "memory", recipe)


# Missing values


def test_each_policy_for_missing_values(tmp_path: Path) -> None:
    columns = {"n": "key", "price": {"number": {"missing": "indicator"}}, "user": "id"}
    found = read(brew(tmp_path, columns=columns, missing={"user": "indicator", "ad": "drop"}))
    assert found["n"] == [0, 1, 2, 4]
    assert found["price"] == [1.0, 3.0, 0.0, 0.0]
    assert found["price_missing"] == [0.0, 0.0, 1.0, 1.0]
    assert found["user"] == [[7], [2**40], [], [8]]
    assert found["user_missing"] == [0.0, 0.0, 1.0, 0.0]


def test_a_missing_value_that_must_not_be_is_named(tmp_path: Path) -> None:
    ROWS.to_csv(tmp_path / "rows.csv", index=False)
    for columns in ({"price": "number"}, {"price": "key"}):
        with pytest.raises(
            BadInput, match=r"rows.csv row 2: column 'price' has no value, and the recipe says missing: error"
        ):
            samovar.brew(tmp_path / "rows.csv", tmp_path / "table", columns=columns, missing={"*": "error"})


def test_not_a_number_is_missing_where_a_policy_says_so(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("n,x\n0,1.5\n1,nan\n2,\n")
    plain = samovar.brew(tmp_path / "rows.csv", tmp_path / "plain", columns={"n": "key", "x": "number"})
    assert np.isnan(read(plain)["x"][1])
    zero: dict[str, Any] = {"columns": {"n": "key", "x": {"number": {"missing": "zero"}}}}
    assert read(samovar.brew(tmp_path / "rows.csv", tmp_path / "zero", **zero))["x"] == [1.5, 0.0, 0.0]
    drop: dict[str, Any] = {"columns": {"n": "key", "x": {"number": {"missing": "drop"}}}}
    assert read(samovar.brew(tmp_path / "rows.csv", tmp_path / "drop", **drop))["x"] == [1.5]


# Crosses


def test_a_cross_is_one_id_per_combination(tmp_path: Path) -> None:
    found = read(brew(tmp_path, crosses=[["user", "ad"], ["n", "user", "ad"]]))
    ids = [(7).to_bytes(8, "little") + hash_bytes(b"tea").to_bytes(8, "little")]
    assert found["user_x_ad"][0] == [hash_bytes(ids[0])]
    assert [len(bag) for bag in found["user_x_ad"]] == [1, 1, 0, 0, 1]
    assert len({bag[0] for bag in found["user_x_ad"] if bag}) == 3
    assert found["n_x_user_x_ad"][0] == [hash_bytes((0).to_bytes(8, "little") + ids[0])]


# Times


def test_times_of_day_and_week_by_the_clock_of_the_zone(tmp_path: Path) -> None:
    ids = {"hour": "id", "weekday": "id"}
    found = read(brew(tmp_path / "utc", time="t", time_features=ids, granularity=3600, batch_size=9, pivot_column="n",
                      start_date="2021-01-04T00:00", end_date="2021-01-04T01:00"))  # fmt: skip
    assert (found["t_hour"], found["t_weekday"]) == ([[0], [0]], [[0], [0]])
    tokyo = {"timezone": "Asia/Tokyo", "start_date": "2021-01-04T15:00", "end_date": "2021-01-04T16:00"}
    found = read(brew(tmp_path / "tokyo", time="t", time_features=ids, **tokyo))
    assert (found["t_hour"], found["t_weekday"]) == ([[15]], [[0]])
    cycle = {"time_features": {"hour": "cycle", "weekday": "cycle"}, **tokyo}
    found = read(brew(tmp_path / "cycle", time="t", **cycle))
    angle = 2 * math.pi * (15 * 60 + 1) / 1440
    assert found["t_hour"] == [pytest.approx([math.sin(angle), math.cos(angle)])]
    assert found["t_weekday"] == [pytest.approx([math.sin(angle / 7), math.cos(angle / 7)])]


# Scales and bins


def test_a_standard_scale_has_the_mean_and_deviation_of_the_rows_that_are_taken(tmp_path: Path) -> None:
    columns = {"n": "key", "price": {"number": {"scale": "standard"}}}
    table = brew(tmp_path, columns=columns, where="n <> 3")
    assert read(table)["price"] == [-1.0, 1.0, 0.0, 0.0]  # a missing value is the mean
    (price,) = (column for column in table.schema.columns if column.name == "price")
    assert price.converter == {"role": "standard", "mean": 2.0, "deviation": 1.0}


def test_bins_have_about_as_many_rows_and_follow_the_values(tmp_path: Path) -> None:
    rows = pd.DataFrame(
        {"n": range(1000), "x": np.random.default_rng(0).permutation(1000) ** 2.0, "flag": [0, 1] * 500}
    )
    rows.loc[5, "x"] = None
    columns = {"n": "key", "x": {"number": {"bins": 10}}, "flag": {"number": {"bins": 32}}}
    found = read(brew(tmp_path, rows, columns=columns, batch_size=2000))
    assert found["x"].pop(5) == []
    bins = np.array(found["x"])[:, 0]
    assert set(np.bincount(bins.astype(int))) <= {99, 100, 101}
    order = np.argsort(rows["x"].drop(5).to_numpy())
    assert (np.diff(bins[order].astype(int)) >= 0).all()
    assert found["flag"] == [[0], [1]] * 500


def test_a_live_table_keeps_the_numbers_that_it_began_with(tmp_path: Path) -> None:
    keys: dict[str, Any] = {
        "columns": {"price": {"number": {"scale": "standard"}}, "n": {"number": {"bins": 2}}}, "time": "t",
        "append": True, "progress": False,
    }  # fmt: skip
    samovar.brew(ROWS[ROWS.t < MONDAY + 3600], tmp_path / "live", **keys)
    live = samovar.brew(ROWS[ROWS.t >= MONDAY + 3600].assign(price=100.0), tmp_path / "live", allow_gap=True, **keys)
    assert live.schema.columns[0].converter == {"role": "standard", "mean": 4.0, "deviation": 1.0}
    assert [record["price"].tolist() for record in live.read()][-1] == [10.0]  # type: ignore[union-attr]  # a tensor


@pytest.mark.parametrize(
    "damage",
    [
        {"mean": "x"}, {"mean": 10**400}, {"mean": None}, {"mean": math.nan}, {"deviation": 0}, {"deviation": -1.0},
        {"deviation": math.inf}, {"edges": "abc"}, {"edges": [[1]]}, {"edges": None}, {"edges": {}},
        {"edges": [2.0, 1.0]}, {"edges": [1.0, 1.0]}, {"edges": [math.inf]}, {"edges": [0.5] * 65537},
        {"bins": 10**9}, {"role": ["standard"]}, {"role": None},
    ],
)  # fmt: skip
def test_statistics_of_a_table_that_a_stranger_changed_are_refused(tmp_path: Path, damage: dict[str, Any]) -> None:
    columns: dict[str, Any] = {"price": {"number": {"scale": "standard"}}, "n": {"number": {"bins": 2}}}
    brew(tmp_path, columns=columns)
    (manifest,) = (tmp_path / "table/manifest").iterdir()
    document = json.loads(manifest.read_bytes())
    for column in document["schema"]["columns"]:
        damaged = {key: value for key, value in damage.items() if key in column["converter"]}
        column["converter"].update(damaged)
    manifest.write_text(json.dumps(document))
    with pytest.raises(CorruptData):
        samovar.brew(ROWS, tmp_path / "new", columns=columns, statistics=str(tmp_path / "table"), progress=False)


def test_numbers_without_a_deviation_are_scaled_by_one_and_too_large_ones_are_refused(tmp_path: Path) -> None:
    columns = {"x": {"number": {"scale": "standard"}}}
    tiny = brew(tmp_path / "tiny", pd.DataFrame({"x": [0.0, 1e-163]}), columns=columns)
    assert tiny.schema.columns[0].converter == {"role": "standard", "mean": 5e-164, "deviation": 1.0}
    with np.errstate(over="ignore"), pytest.raises(BadInput, match="column 'x': its numbers are too large for a mean"):
        brew(tmp_path / "huge", pd.DataFrame({"x": [-1e308, 1e308]}), columns=columns)


def test_a_live_table_crosses_the_same_types_and_reads_the_same_times(tmp_path: Path) -> None:
    keys: dict[str, Any] = {"columns": {"n": "key"}, "crosses": [["user", "ad"]], "time": "t", "append": True}
    (tmp_path / "1.csv").write_text("t,n,user,ad\n3600,1,7,tea\n")
    (tmp_path / "2.csv").write_text("t,n,user,ad\n7200,2,,cups\n")
    (tmp_path / "3.csv").write_text("t,n,user,ad\n10800,3,me,cups\n")
    for name in ("1.csv", "2.csv"):
        live = samovar.brew(tmp_path / name, tmp_path / "live", progress=False, **keys)
    assert live.num_examples == 2
    with pytest.raises(Conflict, match="'user_x_ad' is made from int64, string in the table and from string, string"):
        samovar.brew(tmp_path / "3.csv", tmp_path / "live", progress=False, **keys)
    (tmp_path / "4.csv").write_text("t,n,user,ad\n13/1/2021,3,7,cups\n")
    with pytest.raises(
        BadInput, match=r"4.csv: times have the format '%d/%m/%Y'\. Set time_format to it, so that later"
    ):
        samovar.brew(tmp_path / "4.csv", tmp_path / "other", progress=False, **keys)


def test_scripts_learn_scales_too(tmp_path: Path) -> None:
    ROWS.to_parquet(tmp_path / "rows.parquet")
    number = {"number": {"scale": "standard", "missing": "indicator"}}
    converters = infer_converters(table=tmp_path / "rows.parquet", columns={"price": number})
    assert list(converters) == ["price", "price_missing"]
    done = format_tensor_table(
        src_table=tmp_path / "rows.parquet", converters=converters, result_table=tmp_path / "table"
    )
    (record,) = samovar.open_table(done.directory).read()
    assert record["price_missing"].tolist() == [0.0, 0.0, 1.0, 0.0, 1.0]  # type: ignore[union-attr]  # a tensor


@pytest.mark.parametrize(
    ("keys", "error", "message"),
    [
        (
            {"missing": {"price": "indicator"}},
            ConfigError,
            "column 'price' has no role, so it can only be set to 'drop'",
        ),
        ({"missing": {"n": "zero"}}, ConfigError, "missing: column 'n' is not a number, so it cannot be zero"),
        ({"missing": {"n": "indicator"}}, ConfigError, "column 'n' is a key only; an indicator needs another role"),
        ({"missing": {"n": "mean"}}, ConfigError, "missing.n must be 'zero', 'drop', 'indicator' or 'error'"),
        ({"missing": {"prise": "drop"}}, SamovarError, "no column 'prise'. Did you mean 'price'"),
        ({"crosses": [["user"]]}, ConfigError, r"crosses\[0\].* at least 2"),
        ({"crosses": [["user", "user"]]}, ConfigError, r"crosses: a column is named twice in \['user', 'user'\]"),
        ({"crosses": [["user", "price"]]}, BadInput, "crosses: column 'price' is double, expected single integers or"),
        ({"crosses": [["user", "add"]]}, SamovarError, "no column 'add'. Did you mean 'ad'"),
        ({"time_features": {"hour": "id"}}, ConfigError, "time_features need time_field"),
        ({"bins": {"n": 4}}, ConfigError, "bins: column 'n' is not a number by its role, nor in realvalue_factors"),
        ({"columns": {"price": {"number": {"bins": 1}}}}, ConfigError, "bins must be at least 2, got 1"),
        (
            {"columns": {"price": {"number": {"bins": 4, "scale": "standard"}}}},
            ConfigError,
            "column 'price' has both a scale and bins; keep one of the two",
        ),
    ],
)
def test_what_does_not_fit_is_refused(
    tmp_path: Path, keys: dict[str, Any], error: type[SamovarError], message: str
) -> None:
    with pytest.raises(error, match=message):
        brew(tmp_path, **keys)


def test_columns_of_the_source_and_made_ones_share_no_name(tmp_path: Path) -> None:
    rows = ROWS.assign(price_missing=1.0)
    columns = {"price": {"number": {"missing": "indicator"}}, "price_missing": "number"}
    with pytest.raises(ConfigError, match="two columns would be called 'price_missing'; rename that of the source"):
        brew(tmp_path, rows, columns=columns)


def test_lists_have_no_standard_scale_and_no_bins(tmp_path: Path) -> None:
    rows = pd.DataFrame({"x": [[1.0], [2.0]]})
    with pytest.raises(BadInput, match=r"needs single numbers for its scale; use .*running"):
        brew(tmp_path, rows, columns={"x": {"number": {"scale": "standard"}}})
    with pytest.raises(BadInput, match="needs single numbers for bins"):
        brew(tmp_path, rows, columns={"x": {"number": {"bins": 2}}})
