"""The boundary: bytes of a stranger become typed records, or `CorruptData`."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samovar.config.records import Checksum, Count, Hour, Moment, as_finite, check_record, read_json, read_record
from samovar.errors import CorruptData


@dataclass(frozen=True)
class Example:
    count: Count
    hour: Hour | None = None
    checksum: Checksum = "0" * 16
    moment: Moment = "2024-05-01T10:00:00+00:00"
    rest: Any = None


def test_a_record_has_the_types_of_its_annotations() -> None:
    assert read_record(Example, b'{"count": 3, "hour": 3600, "unknown": 1}', "x.json") == Example(3, 3600)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({}, "count: Field required"),
        ([], "got []"),
        ({"count": -1}, "count: Input should be greater than or equal to 0, got -1"),
        ({"count": 10**18}, "less than or equal to"),
        ({"count": True}, "valid integer, got True"),
        ({"count": "3"}, "valid integer, got '3'"),
        ({"count": 1.0}, "valid integer, got 1.0"),
        ({"count": 1, "hour": 10**12}, "hour: "),
        ({"count": 1, "checksum": "g" * 16}, "checksum: "),
        ({"count": 1, "moment": "2024-05-01"}, "a time without its zone"),
        ({"count": 1, "moment": "today"}, "moment: "),
    ],
)
def test_a_wrong_value_is_named_with_its_place(value: object, expected: str) -> None:
    with pytest.raises(CorruptData) as caught:
        check_record(Example, value, "x.json")
    assert str(caught.value).startswith("x.json is damaged (")
    assert expected in str(caught.value)


@pytest.mark.parametrize("data", [b"", b"{", b"[" * 100_000, b"9" * 5000, b'"\\ud800"', b"\xff", b'{"a": nul}'])
def test_text_that_is_not_json_or_too_deep_is_damage(data: bytes) -> None:
    with pytest.raises(CorruptData, match=r"x\.json is damaged \(not JSON"):
        read_json(data, "x.json")


def test_a_file_above_the_limit_is_not_parsed() -> None:
    with pytest.raises(CorruptData, match="it has 12 bytes, more than the limit of 10"):
        read_json(b"[1, 2, 3, 4]", "x.json", max_bytes=10)


@given(st.binary())
def test_any_bytes_are_a_record_or_damage(data: bytes) -> None:
    with suppress(CorruptData):
        assert isinstance(read_record(Example, data, "x.json"), Example)


def test_numbers_that_no_float_holds_are_no_metrics() -> None:
    assert [as_finite(value) for value in (1, 0.5, True, "1", 10**400, float("nan"), float("inf"))] == [
        1.0, 0.5, None, None, None, None, None,
    ]  # fmt: skip
