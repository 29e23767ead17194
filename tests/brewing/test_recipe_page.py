"""docs/recipe.md matches the schema of recipes, and its examples and errors are real."""

import json
import re
from pathlib import Path

import pytest
from pydantic_core import PydanticUndefined

from samovar.brewing.recipe import RateOptions, Recipe, RecipeTable, ShuffleOptions, SparkOptions, TextOptions
from samovar.config import Schema
from samovar.config.identity import identity
from samovar.errors import ConfigError

PAGE = (Path(__file__).parents[2] / "docs" / "recipe.md").read_text()
KEYS = {
    found[1]: found[2]
    for found in re.finditer(r"^\| `(\w+)` \| [^|]+ \| (required|absent|`[^`]+`) \| [^|]+ \|$", PAGE, re.MULTILINE)
}
ERRORS = re.findall(r"^\| `(\{.*\})` \| ([^|]+) \|$", PAGE, re.MULTILINE)
MODELS = (Recipe, RecipeTable, TextOptions, ShuffleOptions, SparkOptions, RateOptions)
SMALLEST = {"source": "rows.csv", "categorical_factors": ["x"]}


@pytest.mark.parametrize("model", MODELS)
def test_every_key_is_listed_with_its_default(model: type[Schema]) -> None:
    for name, field in model.model_fields.items():
        assert name in KEYS, f"docs/recipe.md: no row for {name}"
        assert KEYS[name] == _show(field.get_default(call_default_factory=True)), name


def test_every_listed_key_exists() -> None:
    assert set(KEYS) == {name for model in MODELS for name in model.model_fields}


def test_the_examples_are_recipes() -> None:
    blocks = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == 5
    used: set[str] = set()
    for block in blocks:
        Recipe.load(json.loads(block), "recipe.json")
        used |= set(json.loads(block))
    assert set(Recipe.model_fields) - used == {
        "time_unit",
        "datetime_format",
        "granularity",
        "tables",
        "bins",
        "engine",
        "statistics",
    }


def test_the_long_form_makes_the_same_table() -> None:
    short, long, *_ = (json.loads(block) for block in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL))
    rest = {key: value for key, value in short.items() if key != "columns"}
    assert identity(short) == identity({**rest, **long})


@pytest.mark.parametrize(("keys", "message"), ERRORS)
def test_the_errors_are_real(keys: str, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        Recipe.load({**SMALLEST, **json.loads(keys)}, "recipe.json")


def test_the_errors_were_found() -> None:
    assert len(ERRORS) == 33


def _show(default: object) -> str:
    if default is PydanticUndefined:
        return "required"
    return "absent" if default is None else f"`{json.dumps(default)}`"
