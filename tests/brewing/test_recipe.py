"""Recipes: what they say, and every mistake in one with the words that mend it."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from samovar.brewing.columns import Factors, find_converters
from samovar.brewing.order import DATE, GRANULAR, SHUFFLE, Clock
from samovar.brewing.recipe import Recipe, parse_size
from samovar.errors import BadInput, ConfigError, UnknownColumn, UnknownKey

SMALLEST = {"source": "rows.csv", "categorical_factors": ["x"]}
SCHEMA = pa.schema(
    {
        "BannerID": pa.uint64(),
        "Price": pa.float64(),
        "Title": pa.string(),
        "Words": pa.list_(pa.string()),
        "Deep": pa.list_(pa.list_(pa.list_(pa.int64()))),
        "Shown": pa.timestamp("us"),
        "Ids": pa.list_(pa.int64()),
    }
)


def load(**keys: Any) -> Recipe:
    return Recipe.load({**SMALLEST, **keys}, "recipe.json")


def test_a_recipe_names_the_order_of_its_table() -> None:
    assert load().order.key == ()
    assert load(time_field="t").order.key == (GRANULAR, DATE)
    assert load(time_field="t", pivot_column="p", stability_column="s").order.key == (GRANULAR, "p", "s")
    assert load(shuffle={"seed": 3}).order.key == (SHUFFLE,)
    assert load(shuffle={}, pivot_column="p").order.key == (SHUFFLE, "p")


def test_dates_are_whole_hours_in_the_given_zone() -> None:
    recipe = load(
        time_field="t", timezone="Europe/Moscow", datetime_format="%Y%m%d%H%M", start_date="202101011500",
        end_date="202101011600",
    )  # fmt: skip
    assert recipe.clock == Clock("t", None, "Europe/Moscow", 300, 1609502400, 1609506000)
    recipe = load(time_field="t", start_date="2021-01-01T12:00", end_date="2021-01-01T16:00+03:00")
    assert recipe.hours == (1609502400, 1609506000)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"bach_size": 5}, r"recipe.json: bach_size: unknown key. Did you mean 'batch_size'\?"),
        ({"batch_size": 0}, "batch_size must be greater than 0, got 0"),
        (
            {"text_factors": {"t": {"words": 17}}},
            "text_factors.t.words must be less than or equal to 16, got 17",
        ),
        ({"text_factors": {"t": {"ngrams": 17}}}, "text_factors.t.ngrams must be less than or equal to 16, got 17"),
        ({"shuffle": {"seed": 10**30}}, "shuffle.seed must be less than 18446744073709551616.*, got 1000"),
        ({"granularity": 60}, "granularity stands without time_field, expected both"),
        ({"datetime_format": "%Y"}, "datetime_format stands without time_field, expected both"),
        ({"granularity": 0.5}, "granularity must be .*an integer.*, got 0.5"),
        (
            {"realvalue_factors": ["x"]},
            "column 'x' stands in categorical_factors and in realvalue_factors, expected one of them",
        ),
        ({"text_factors": {"x": {"words": 1}}}, "column 'x' stands in categorical_factors and in text_factors"),
        ({"keys": ["k", "k"]}, "column 'k' stands twice in keys, expected once: remove one"),
        ({"categorical_factors": []}, "no factors and no keys, expected at least one column"),
        ({"text_factors": {"y": {}}}, 'asks for no tokens, expected "words" or "ngrams"'),
        ({"time_unit": "seconds"}, "time_unit stands without time_field"),
        ({"start_date": "2021-01-01"}, "start_date stands without time_field"),
        ({"time_field": "t", "shuffle": {}}, "shuffle stands beside time_field"),
        ({"time_field": "t", "start_date": "2021-01-01T00:30"}, "date '2021-01-01T00:30' must be a whole hour"),
        ({"time_field": "t", "start_date": "soon"}, "date 'soon' must be ISO, such as 2021-01-20T17:00"),
        ({"time_field": "t", "timezone": "Mars"}, "unknown timezone 'Mars'. Use an IANA name"),
        (
            {"time_field": "t", "start_date": "2021-01-02", "end_date": "2021-01-02"},
            "start_date must be before end_date, got 2021-01-02 and 2021-01-02",
        ),
        ({"memory_limit": "much"}, "memory_limit: found 'much', expected bytes or a text such as '2GB'"),
        ({"compression": "zip"}, "compression: found 'zip'; expected 'zstd'"),
        ({"tables": [SMALLEST]}, "tables of an offline recipe are joined by pivot_column, which is missing"),
        ({"stability_column": "s"}, "stability_column orders rows of a group, but pivot_column is missing"),
    ],
)
def test_a_bad_recipe_is_refused_with_its_cure(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load(**keys)


def test_an_unknown_key_is_an_unknown_key() -> None:
    with pytest.raises(UnknownKey):
        load(sources="x")


@pytest.mark.parametrize(
    ("factors", "error", "message"),
    [
        ({"keys": ["BanerID"]}, UnknownColumn, r"logs: no column 'BanerID'; .*: did you mean 'BannerID'\?"),
        ({"keys": ["Zzz"]}, UnknownColumn, "no column 'Zzz'; it has BannerID, .*: mend the name, or add the column"),
        (
            {"categorical_factors": ["Title"]},
            BadInput,
            r"categorical_factors: column 'Title' is string, expected integers or lists of them: move it to "
            r"hashed_factors \(a string is one id\) or to text_factors",
        ),
        ({"realvalue_factors": ["Words"]}, BadInput, "column 'Words' is list.*: move it to hashed_factors"),
        ({"categorical_factors": ["Price"]}, BadInput, "is double, expected integers .*: move it to realvalue_factors"),
        ({"categorical_factors": ["Deep"]}, BadInput, "flatten it to at most 2 levels"),
        ({"realvalue_factors": ["Shown"]}, BadInput, "is timestamp.*: cast it to a number, or move it to keys"),
        (
            {"unravelled_categorical_factors": ["BannerID"]},
            BadInput,
            "is uint64, expected a list; .*categorical_factors",
        ),
        ({"hashed_factors": ["BannerID"]}, BadInput, "is uint64, expected strings .*: move it to categorical_factors"),
        ({"hashed_factors": ["Price"]}, BadInput, "expected strings or lists of them: move it to realvalue_factors"),
        ({"text_factors": {"Words": {"words": 1}}}, BadInput, "is list.*, expected strings: use hashed_factors"),
        ({"keys": ["Ids"]}, BadInput, "keys: column 'Ids' is list.*, expected a single value"),
        ({}, ConfigError, "no factors and no keys"),
        ({"keys": ["Title"], "hashed_factors": ["Title", "Title"]}, ConfigError, "stands twice in hashed_factors"),
    ],
)
def test_factors_that_do_not_fit_the_columns_are_refused(
    factors: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=f"^logs: .*{message}" if not message.startswith("logs") else message):
        find_converters(SCHEMA, Factors(**factors), "logs")


def test_keys_may_repeat_factors() -> None:
    factors = Factors(categorical_factors=["BannerID"], keys=["BannerID", "Shown"])
    assert list(find_converters(SCHEMA, factors, "logs")) == ["BannerID", "key:BannerID", "Shown"]


@pytest.mark.parametrize(("text", "size"), [("2GB", 2 * 10**9), ("1.5 MiB", 3 << 19), (7, 7), ("10", 10), (None, None)])
def test_sizes_are_read_as_people_write_them(text: Any, size: Any) -> None:
    assert parse_size(text) == size


def test_the_recipe_schema_tells_an_editor_every_key(tmp_path: Path) -> None:
    described = Recipe.model_json_schema()["properties"]
    assert described["granularity"]["description"].startswith("Seconds of a granule")
