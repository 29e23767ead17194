"""Patterns of column names in roles and lists."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

import samovar
from samovar.brewing import infer_converters
from samovar.brewing.patterns import NamedColumns
from samovar.errors import ConfigError, SamovarError, UnknownColumn
from samovar.tables import Table

ROWS = pd.DataFrame({"t": [1, 2], "feat_b": [3, 4], "word_a": ["007", "8"], "feat_a": [5.5, 6], "word_b": ["x", "y"]})


@pytest.fixture(params=["frame", "csv"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "frame":
        return ROWS
    ROWS.to_csv(tmp_path / "rows.csv", index=False)
    return tmp_path / "rows.csv"


def brew(source: Any, folder: Path, **keys: Any) -> Table:
    return samovar.brew(source, folder / "table", progress=False, **keys)


def roles_of(table: Table) -> dict[str, str]:
    return {column.name: (column.converter or {})["role"] for column in table.schema.columns}


def test_a_pattern_stands_for_columns_in_the_order_of_the_source(source: Any, tmp_path: Path) -> None:
    columns = {"t": "time", "word_*": "hash", "feat_*": {"number": {"scale": "running"}}}
    table = brew(source, tmp_path, columns=columns)
    assert roles_of(table) == {"feat_b": "number", "feat_a": "number", "word_a": "hash", "word_b": "hash"}
    assert table.schema.names[:2] == ["feat_b", "feat_a"]
    assert all((column.converter or {}).get("scale") == "running" for column in table.schema.columns[:2])


def test_a_name_in_full_comes_before_a_pattern_and_ignore_after_all(source: Any, tmp_path: Path) -> None:
    columns = {"*": "ignore", "word_*": {"text": {"words": 1}}, "word_a": ["hash", "key"], "feat_a": "number"}
    assert roles_of(brew(source, tmp_path, time="t", columns=columns)) == {
        "feat_a": "number", "word_a": "hash", "word_b": "text", "key:word_a": "key",
    }  # fmt: skip


def test_lists_and_options_take_patterns_too(source: Any, tmp_path: Path) -> None:
    lists: dict[str, Any] = {
        "categorical_factors": ["feat_b"], "realvalue_factors": ["feat_*"], "scale": {"*": "running"}, "keys": ["*_b"],
        "text_factors": {"word*": {"ngrams": 2}},
    }  # fmt: skip
    found = roles_of(brew(source, tmp_path, time="t", **lists))
    assert found == {"feat_b": "id", "feat_a": "number", "word_a": "text", "word_b": "text", "key:feat_b": "key",
                     "key:word_b": "key"}  # fmt: skip


def test_a_text_that_looks_like_a_number_stays_a_text(tmp_path: Path) -> None:
    ROWS.to_csv(tmp_path / "rows.csv", index=False)
    (record,) = brew(tmp_path / "rows.csv", tmp_path, columns={"word_*": ["hash", "key"]}).read()
    keys: Any = record["key:word_a"]
    assert keys.to_pylist() == ["007", "8"]
    names = NamedColumns(frozenset(["*"]), frozenset(["feat_a"]))
    assert "word_a" in names
    assert "feat_a" not in names


@pytest.mark.parametrize(
    ("keys", "error", "message"),
    [
        ({"columns": {"feet_*": "number"}}, UnknownColumn, r"no column matches 'feet_\*'. Did you mean 'feat_b'\?"),
        ({"columns": {"feat_*": "number", "*_a": "hash"}}, ConfigError, r"'feat_a' matches both 'feat_\*' and '\*_a'"),
        (
            {"columns": {"t*": "time", "feat_a": "number"}},
            ConfigError,
            r"columns.t\*: the time is one column; name it in",
        ),
        ({"realvalue_factors": ["feat_a"], "scale": {"feet*": "running"}}, UnknownColumn, r"scale: no column matches"),
    ],
)
def test_patterns_that_do_not_fit_are_refused(
    source: Any, tmp_path: Path, keys: dict[str, Any], error: type[SamovarError], message: str
) -> None:
    with pytest.raises(error, match=message):
        brew(source, tmp_path, **keys)
    assert not (tmp_path / "table" / "status.json").exists()


def test_columns_of_patterns_can_be_crossed_and_have_rates(source: Any, tmp_path: Path) -> None:
    """A cross or a rate names columns in full, which takes them from no pattern."""
    columns = {"t": "time", "word_*": "hash", "feat_*": "number"}
    rates = [{"of": "feat_b", "by": ["word_a"], "window": "2h", "known_after": "1h", "name": "rate"}]
    table = brew(source, tmp_path, columns=columns, crosses=[["word_a", "word_b"]], rates=rates)
    assert roles_of(table) == {
        "feat_b": "number", "feat_a": "number", "word_a": "hash", "word_b": "hash", "word_a_x_word_b": "cross",
        "rate": "rate", "rate_count": "rate",
    }  # fmt: skip
    in_full = {"t": "time", "word_a": "hash", "word_b": "hash", "feat_b": "number", "feat_a": "number"}
    named = samovar.brew(source, tmp_path / "named", columns=in_full, crosses=[["word_a", "word_b"]], rates=rates)
    for one, other in zip(table.read(), named.read(), strict=True):
        pairs: Any = one["word_a_x_word_b"], other["word_a_x_word_b"]
        rates_found: Any = one["rate"], other["rate"]
        assert torch.equal(pairs[0].data, pairs[1].data)
        assert torch.equal(*rates_found)


@pytest.mark.parametrize(
    "keys",
    [
        {"crosses": [["t", "word_*"]]},
        {"rates": [{"of": "feat_a", "by": ["word_*"], "window": "2h", "known_after": "1h"}]},
        {"rates": [{"of": "feat_*", "by": ["word_a"], "window": "2h", "known_after": "1h"}]},
    ],
)
def test_crosses_and_rates_take_no_patterns(source: Any, tmp_path: Path, keys: dict[str, Any]) -> None:
    with pytest.raises(UnknownColumn, match=r"no column '(word|feat)_\*'. Did you mean '(word|feat)_"):
        brew(source, tmp_path, time="t", columns={"feat_a": "number"}, **keys)
    assert not (tmp_path / "table" / "status.json").exists()


def test_a_column_with_a_star_in_its_name_is_that_column(tmp_path: Path) -> None:
    rows = pd.DataFrame({"a*": [1, 2], "ab": [3, 4]})
    assert roles_of(brew(rows, tmp_path, columns={"a*": "id"})) == {"a*": "id"}


def test_scripts_infer_converters_by_pattern(tmp_path: Path) -> None:
    ROWS.to_parquet(tmp_path / "rows.parquet")
    assert list(infer_converters(table=tmp_path / "rows.parquet", columns={"feat_*": "number"})) == ["feat_b", "feat_a"]
