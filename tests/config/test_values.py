"""Sameness, plain copies and descriptions of single values."""

import json
from collections import OrderedDict
from enum import StrEnum
from math import inf, nan
from typing import Any

import pytest

from samovar.config.values import MISSING, describe, is_object_list, plain, same


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, 1.0), (nan, nan), (None, None), ([1, nan], [1.0, nan]), ((1, 2), [1, 2]), ({"a": 1}, {"a": 1.0})],
)
def test_numbers_compare_by_value_and_nan_is_itself(one: Any, other: Any) -> None:
    assert same(one, other)
    assert same(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (True, 1),
        (False, 0.0),
        (None, MISSING),
        ("1", 1),
        ([True], [1]),
        ([1], [1, 2]),
        ({"a": 1}, {"b": 1}),
        (nan, 0.0),
    ],
)
def test_a_boolean_is_no_number_and_null_is_not_missing(one: Any, other: Any) -> None:
    assert not same(one, other)
    assert not same(other, one)


class Colour(StrEnum):
    RED = "red"


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ((1, (2.5, None)), [1, [2.5, None]]),
        (OrderedDict(a=True), {"a": True}),
        (inf, {"repr": "inf"}),
        (Colour.RED, "red"),
        (OrderedDict, {"repr": "collections.OrderedDict"}),
        ({"b", "a"}, {"repr": ["'a'", "'b'"]}),
    ],
)
def test_any_value_can_be_written_down(value: Any, written: Any) -> None:
    assert plain(value) == written
    assert type(plain(value)) is type(written)
    json.dumps(plain(value), allow_nan=False)


def test_an_object_is_written_without_its_address() -> None:
    assert plain(object()) == plain(object()) == {"repr": "<object object>"}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("ten", "'ten' (a string)"),
        (True, "true (a boolean)"),
        (3, "3 (an integer)"),
        (0.5, "0.5 (a number)"),
        (None, "null"),
        ([1, 2], "[1, 2] (a list)"),
        ({}, "an empty object"),
        ({"a": 1, "b": 2}, "an object with the keys a, b"),
        ("x" * 99, "'" + "x" * 59 + "… (a string)"),
        (MISSING, '"MISSING" (a Python Missing)'),
    ],
)
def test_a_value_is_shown_with_its_kind(value: Any, text: str) -> None:
    assert describe(value) == text


def test_only_a_list_of_nothing_but_objects_is_a_list_of_sections() -> None:
    assert is_object_list([{}, {"a": 1}])
    assert not is_object_list([])
    assert not is_object_list([{}, 1])
    assert not is_object_list([[{}]])
