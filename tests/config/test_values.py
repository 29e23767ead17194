"""Values: sameness, plain copies, descriptions, paths and suggestions."""

import json
from collections import OrderedDict
from enum import StrEnum
from math import inf, nan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samovar.config.values import (
    MISSING,
    at,
    covers,
    describe,
    is_object_list,
    join,
    nearest,
    plain,
    same,
    split,
    suggest,
)


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
def test_a_boolean_is_not_a_number_and_null_is_not_missing(one: Any, other: Any) -> None:
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


path_parts = st.lists(
    st.one_of(st.text(max_size=6), st.sampled_from(["a.b", "a[0]", '"', "\\", "*"]), st.integers(0, 99))
)


@given(path_parts)
def test_splitting_a_path_gives_back_the_parts_it_was_joined_from(parts: list[str | int]) -> None:
    path = ""
    for part in parts:
        path = at(path, part) if isinstance(part, int) else join(path, part)
    assert split(path) == parts


def test_plain_keys_are_dotted_and_keys_that_look_like_paths_are_quoted() -> None:
    assert join(join("", "train_data"), "lr") == "train_data.lr"
    assert join(at("evaluation.eval_confs", 0), "name") == "evaluation.eval_confs[0].name"
    assert join("policies", "emb.lr") == 'policies["emb.lr"]'


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("model", "model"),
        ("model", "model.lr"),
        ("eval_confs", "eval_confs[0].name"),
        ("*.num_parsers", "num_parsers"),
        ("*.num_parsers", "evaluation.eval_confs[1].num_parsers"),
        ("*.limits", "brew.limits.memory"),
    ],
)
def test_a_pattern_covers_its_place_and_all_inside(pattern: str, path: str) -> None:
    assert covers(pattern, path)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("model", "model_dir"),
        ("model.lr", "model"),
        ("*.num_parsers", "max_num_parsers"),
        ("*.x", 'model["a.x.b"]'),
        ("a.b", '["a.b"]'),
    ],
)
def test_a_pattern_covers_nothing_else(pattern: str, path: str) -> None:
    assert not covers(pattern, path)


KEYS = ["epoch_count", "max_iter", "num_parsers", "lr"]


@pytest.mark.parametrize(
    ("name", "best"),
    [("epoch_cuont", "epoch_count"), ("epochs", "epoch_count"), ("LR", "lr"), ("maxIter", "max_iter")],
)
def test_a_typo_finds_the_key_that_was_meant(name: str, best: str) -> None:
    assert nearest(name, KEYS) == best


def test_a_name_like_none_of_the_keys_finds_nothing() -> None:
    assert nearest("dropout", KEYS) is None
    assert nearest("l2", KEYS) is None
    assert nearest("lr", []) is None


def test_the_answer_does_not_depend_on_the_order_of_the_candidates() -> None:
    assert nearest("lrx", ["lra", "lrb"]) == nearest("lrx", ["lrb", "lra"])
    assert nearest("lr", ["LR", "lR"]) == nearest("lr", ["lR", "LR"])


def test_a_suggestion_lists_the_available_names_but_not_hundreds() -> None:
    assert suggest("lrr", ["lr", "dim"]) == ". Did you mean 'lr'? Available: lr, dim"
    assert suggest("zzz", []) == ". Available: none"
    assert suggest("zzz", [f"column_{number}" for number in range(100)]).endswith("column_29 and 70 more")
