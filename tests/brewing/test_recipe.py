"""Recipes: what they mean, and the error for every mistake in one."""

from typing import Any

import pytest

from samovar.brewing.clock import Clock
from samovar.brewing.order import DATE, GRANULAR, SHUFFLE
from samovar.brewing.recipe import Recipe, parse_memory_limit
from samovar.errors import ConfigError, UnknownKey

SMALLEST = {"source": "rows.csv", "categorical_factors": ["x"]}


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
        ({"batch_size": 0}, "batch_size must be at least 1, got 0"),
        (
            {"text_factors": {"t": {"words": 17}}},
            "text_factors.t.words must be at most 16, got 17",
        ),
        ({"text_factors": {"t": {"ngrams": 17}}}, "text_factors.t.ngrams must be at most 16, got 17"),
        ({"shuffle": {"seed": 10**30}}, "shuffle.seed must be below 18446744073709551616.*, got 1000"),
        ({"granularity": 60}, "granularity needs time_field"),
        ({"datetime_format": "%Y"}, "datetime_format needs time_field"),
        ({"granularity": 0.5}, "granularity must be .*an integer.*, got 0.5"),
        (
            {"realvalue_factors": ["x"]},
            "column 'x' is in both categorical_factors and realvalue_factors; only keys may repeat a factor",
        ),
        ({"text_factors": {"x": {"words": 1}}}, "column 'x' is in both categorical_factors and text_factors"),
        ({"keys": ["k", "k"]}, "column 'k' is listed twice in keys"),
        (
            {"categorical_factors": []},
            'no columns are named; give columns, such as {"user": "id"}, or fill',
        ),
        ({"text_factors": {"y": {}}}, 'text_factors.y: give "words" or "ngrams"'),
        ({"time_unit": "seconds"}, "time_unit needs time_field"),
        ({"start_date": "2021-01-01"}, "start_date needs time_field"),
        ({"time_field": "t", "shuffle": {}}, "shuffle and time_field exclude each other"),
        ({"time_field": "t", "start_date": "2021-01-01T00:30"}, "start_date must be a whole hour"),
        ({"time_field": "t", "start_date": "soon"}, "start_date must be ISO, such as 2021-01-20T17:00, got 'soon'"),
        ({"time_field": "t", "timezone": "Mars"}, "unknown timezone 'Mars'. Use an IANA name"),
        (
            {"time_field": "t", "start_date": "2021-01-02", "end_date": "2021-01-02"},
            "start_date must be before end_date, got 2021-01-02 and 2021-01-02",
        ),
        ({"memory_limit": "much"}, "memory_limit: expected a number of bytes or a size such as '2GB' .*, got 'much'"),
        ({"compression": "zip"}, "compression must be 'zstd', .*, got 'zip'"),
        ({"tables": [SMALLEST]}, "tables are joined by time or by a pivot"),
        ({"stability_column": "s"}, "stability_column needs time_field or pivot_column"),
    ],
)
def test_a_bad_recipe_is_refused_with_the_reason(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load(**keys)


def test_an_unknown_key_is_an_unknown_key() -> None:
    with pytest.raises(UnknownKey):
        load(sources="x")


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("2GB", 2 * 10**9),
        ("1.5 MiB", 3 << 19),
        ("4 GiB", 4 << 30),
        (" 512mb ", 512 * 10**6),
        ("1TiB", 1 << 40),
        ("3B", 3),
        ("2G", 2 * 10**9),
        ("1000000", 10**6),
        (10**6, 10**6),
        (None, None),
    ],
)
def test_sizes_are_read_as_people_write_them(text: Any, size: Any) -> None:
    assert parse_memory_limit(text) == size
    assert load(memory_limit=text).memory_limit == size


@pytest.mark.parametrize("number", [20, "20", " 20 ", 999_999])
def test_a_bare_number_that_is_no_limit_is_refused_with_a_hint(number: Any) -> None:
    digits = str(number).strip()
    with pytest.raises(ConfigError, match=f'memory_limit: .*write "{digits}GB" if gigabytes are meant'):
        load(memory_limit=number)


@pytest.mark.parametrize(
    "text", ["much", "", "GB", "2,5GB", "1.5.2GB", "2GB or so", "-1", "0", "0GB", 0, -1, 1.5, True]
)
def test_what_is_not_a_size_is_refused(text: Any) -> None:
    message = "expected a number of bytes or a size such as '2GB' or '512MiB'"
    with pytest.raises(ConfigError, match=f"^memory_limit: {message}, got {text!r}$"):
        parse_memory_limit(text)
    with pytest.raises(ConfigError, match=f"memory_limit: .*{message}"):
        load(memory_limit=text)


def test_the_json_schema_of_recipes_describes_every_key() -> None:
    described = Recipe.model_json_schema()["properties"]
    assert described["granularity"]["description"].startswith("Seconds per granule")
