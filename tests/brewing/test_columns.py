"""Lists of factors against the columns of a source."""

from typing import Any

import pyarrow as pa
import pytest

from samovar.brewing.columns import Factors, find_converters
from samovar.errors import BadInput, ConfigError, UnknownColumn

SCHEMA = pa.schema(
    {
        "BannerID": pa.uint64(),
        "Price": pa.float64(),
        "Title": pa.string(),
        "Words": pa.list_(pa.string()),
        "Deep": pa.list_(pa.list_(pa.list_(pa.int64()))),
        "Shown": pa.timestamp("us"),
        "Ids": pa.list_(pa.int64()),
        "Nowhere": pa.timestamp("us", "Atlantis"),
    }
)


@pytest.mark.parametrize(
    ("factors", "error", "message"),
    [
        (
            {"keys": ["BanerID"]},
            UnknownColumn,
            r"logs: no column 'BanerID'\. Did you mean 'BannerID'\? Available: BannerID, Price",
        ),
        ({"keys": ["Zzz"]}, UnknownColumn, r"no column 'Zzz'\. Available: BannerID, Price"),
        (
            {"categorical_factors": ["Title"]},
            BadInput,
            r"categorical_factors: column 'Title' is string, expected integers or lists of them; move it to "
            r"hashed_factors \(a string is one id\) or to text_factors",
        ),
        ({"realvalue_factors": ["Words"]}, BadInput, "column 'Words' is list.*; move it to hashed_factors"),
        ({"categorical_factors": ["Price"]}, BadInput, "is double, expected integers .*; move it to realvalue_factors"),
        ({"categorical_factors": ["Deep"]}, BadInput, "flatten it to at most 2 levels"),
        ({"realvalue_factors": ["Shown"]}, BadInput, "is timestamp.*; cast it to a number, or move it to keys"),
        (
            {"unravelled_categorical_factors": ["BannerID"]},
            BadInput,
            "is uint64, expected a list; .*categorical_factors",
        ),
        ({"hashed_factors": ["BannerID"]}, BadInput, "is uint64, expected strings .*; move it to categorical_factors"),
        ({"hashed_factors": ["Price"]}, BadInput, "expected strings or lists of them; move it to realvalue_factors"),
        ({"text_factors": {"Words": {"words": 1}}}, BadInput, "is list.*, expected strings; move it to hashed_factors"),
        (
            {"keys": ["Ids"]},
            BadInput,
            "keys: column 'Ids' is list.*, expected a single value per row; move it to",
        ),
        (
            {"keys": ["Nowhere"]},
            BadInput,
            r"column 'Nowhere' is timestamp\[us, tz=Atlantis\], expected a number, text, time or bytes; cast it",
        ),
        ({}, ConfigError, "no columns are named"),
        ({"keys": ["Title"], "hashed_factors": ["Title", "Title"]}, ConfigError, "is listed twice in hashed_factors"),
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
