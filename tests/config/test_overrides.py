"""`--conf`: what an override addresses, and what it may not replace."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samovar.config.document import merge, parse_override
from samovar.errors import ConfigError

scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=3)
names = st.text("abc.", max_size=3)
trees = st.recursive(
    st.dictionaries(names, scalars, max_size=3),
    lambda inner: st.dictionaries(names, scalars | inner, max_size=3),
    max_leaves=8,
)


def message(base: dict[str, Any], *overrides: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        merge(base, *overrides)
    return str(caught.value)


@given(trees)
def test_merging_a_config_into_itself_changes_nothing(tree: dict[str, Any]) -> None:
    assert merge(tree, tree) == merge(tree) == tree


@given(trees, trees)
def test_merging_never_changes_its_inputs_nor_shares_with_them(base: dict[str, Any], override: dict[str, Any]) -> None:
    before = copy.deepcopy((base, override))
    try:
        merged = merge(base, override)
    except ConfigError:
        merged = {}
    for value in merged.values():
        if isinstance(value, dict | list):
            value.clear()
    assert (base, override) == before


@given(trees, trees, trees)
def test_overrides_apply_one_after_the_other(base: dict[str, Any], one: dict[str, Any], other: dict[str, Any]) -> None:
    try:
        expected = merge(merge(base, one), other)
    except ConfigError:
        with pytest.raises(ConfigError):
            merge(base, one, other)
    else:
        assert merge(base, one, other) == expected


@given(trees, st.sampled_from(["a", "b", "c"]), scalars)
def test_a_plain_key_takes_the_new_value_unless_it_is_a_section(base: dict[str, Any], key: str, value: Any) -> None:
    if isinstance(base.get(key), dict) and value is not None:
        assert f"--conf: {key!r}: found" in message(base, {key: value})
    else:
        assert merge(base, {key: value}) == {**base, key: value}


def test_objects_merge_and_all_else_is_replaced() -> None:
    base = {"lr": 1, "train_data": {"table": "t", "features": ["a", "b"]}}
    override = {"lr": [1, 2], "train_data": {"features": ["c"], "epoch_count": 3}}
    assert merge(base, override) == {
        "lr": [1, 2],
        "train_data": {"table": "t", "features": ["c"], "epoch_count": 3},
    }


def test_a_dotted_key_is_a_path_and_makes_the_sections_it_needs() -> None:
    base = {"model": {"lr": 1, "dim": 8}}
    assert merge(base, {"model.lr": 2, "a.b.c": 3}) == {"model": {"lr": 2, "dim": 8}, "a": {"b": {"c": 3}}}


def test_a_dotted_key_with_an_object_merges_into_the_section() -> None:
    assert merge({"a": {"b": {"x": 1}}}, {"a.b": {"y": 2}}) == {"a": {"b": {"x": 1, "y": 2}}}


def test_a_key_of_the_config_that_contains_a_dot_is_addressed_as_it_stands() -> None:
    assert merge({"emb.lr": 1, "emb": {"lr": 2}}, {"emb.lr": 3}) == {"emb.lr": 3, "emb": {"lr": 2}}
    assert merge({"policies": {"emb.lr": 1}}, {"policies.emb.lr": 3}) == {"policies": {"emb.lr": 3}}
    assert merge({"a.b": {"c": 1}}, {"a.b.c": 3, "a.b.d": 4}) == {"a.b": {"c": 3, "d": 4}}


def test_inside_an_object_a_dotted_key_is_literal() -> None:
    assert merge({"policies": {"lr": 1}}, {"policies": {"emb.lr": 3}}) == {"policies": {"lr": 1, "emb.lr": 3}}


def test_null_replaces_anything_and_can_be_replaced_by_anything() -> None:
    assert merge({"ttl_filter": {"frequency": 5}}, {"ttl_filter": None}) == {"ttl_filter": None}
    assert merge({"ttl_filter": None}, {"ttl_filter.frequency": 5}) == {"ttl_filter": {"frequency": 5}}
    assert merge({"a": None}, {"a": {"b": 1}}) == {"a": {"b": 1}}


def test_an_object_is_not_replaced_by_a_value() -> None:
    assert message({"a": {"model": {"lr": 1, "dim": 2}}}, {"a.model": 3}) == (
        "--conf: 'a.model': found 3 (an integer), expected an object with the keys lr, dim: "
        "override single keys of it, or null to drop it"
    )
    assert "'model': found [] (a list), expected an empty object" in message({"model": {}}, {"model": []})


@pytest.mark.parametrize(("value", "found"), [(3, "3 (an integer)"), ([{"x": 1}], '[{"x": 1}] (a list)')])
def test_a_dotted_key_does_not_go_through_a_value(value: Any, found: str) -> None:
    assert message({"a": {"lr": value}}, {"a.lr.x": 1}) == (
        f"--conf: 'a.lr.x': found {found} at 'a.lr', expected an object there: "
        "give 'a.lr' a whole new value, or mend the key"
    )


@pytest.mark.parametrize("key", [".lr", "model.", "model..lr", "."])
def test_a_dotted_key_with_an_empty_name_is_refused(key: str) -> None:
    assert f"--conf: found the key {key!r}, expected names between the dots" in message({}, {key: 1})


def test_an_override_is_parsed_as_it_is_written() -> None:
    assert parse_override('{"model.lr": 1e-3, "model": {"dim": 8}}') == {
        "model.lr": 1e-3,
        "model": {"dim": 8},
    }


def test_an_override_that_is_no_json_is_shown_with_an_example_for_the_shell() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_override("{lr: 1e-3}")
    assert str(caught.value) == (
        "--conf, line 1, column 2: broken JSON, found 'l', expected a key in double quotes: "
        "mend this line (double quotes only, no comments, no comma after the last entry)\n"
        "  {lr: 1e-3}\n"
        "   ^\n"
        "the text was: {lr: 1e-3}\n"
        """example: --conf '{"model.lr": 1e-3}' (single quotes keep the shell away from the double ones)"""
    )


def test_an_override_that_is_no_object_is_shown_with_an_example_too() -> None:
    with pytest.raises(ConfigError, match=r"(?s)expected an object at the top.*the text was: 3\nexample: --conf"):
        parse_override("3")


def test_an_override_does_not_give_one_key_in_two_ways() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_override('{"model.lr": 1, "model": {"lr": 2}}')
    assert str(caught.value) == "--conf: 'model.lr' is given twice, expected once: keep one of the two"
