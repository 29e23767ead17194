"""Config files: reading, the one way to write them, overrides, and the paths in them."""

import copy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samovar.brewing.formats.base import CODECS, FORMATS
from samovar.config.document import (
    COMPRESSIONS,
    ROW_SUFFIXES,
    dump_config,
    merge,
    parse_config,
    parse_override,
    read_config,
)
from samovar.config.places import resolve_path
from samovar.errors import ConfigError

scalars = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5)
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=5), inner), max_leaves=10
)
trees = st.dictionaries(st.text(max_size=5), values)


def message(path: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        read_config(path)
    return str(caught.value)


@given(trees)
def test_a_config_is_read_back_as_it_was_written(tree: dict[str, Any]) -> None:
    text = dump_config(tree)
    assert parse_config(text, "model.json") == tree
    assert dump_config(parse_config(text, "model.json")) == text


def test_a_config_is_written_in_one_way() -> None:
    tree = {"b": 1e-3, "a": {"name": "самовар", "list": [1, None]}, "c": {}}
    assert dump_config(tree) == (
        '{\n  "b": 0.001,\n  "a": {\n    "name": "самовар",\n    "list": [\n'
        "      1,\n      null\n    ]\n  },\n"
        '  "c": {}\n}\n'
    )


@pytest.mark.parametrize(
    ("tree", "text"),
    [
        ({"a": [1, float("nan")]}, "a[1]: JSON cannot hold nan"),
        ({"a": {"b": float("-inf")}}, "a.b: JSON cannot hold -inf"),
        ({"a": {1: 2}}, "a: JSON cannot hold the key 1"),
        ({1: 2}, "config: JSON cannot hold the key 1"),
        (
            {"a": Path},
            "a: JSON cannot hold \"<class 'pathlib.Path'>\" (a Python type)",
        ),
    ],
)
def test_a_value_that_json_cannot_hold_is_refused_with_its_path(tree: dict[Any, Any], text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        dump_config(tree)
    assert str(caught.value) == text


def test_a_config_is_read_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    path.write_text('{"model_dir": "m", "train_data": {"epoch_count": 10}}')
    assert read_config(path) == read_config(str(path)) == {"model_dir": "m", "train_data": {"epoch_count": 10}}


def test_a_file_of_rows_is_recognized_by_every_suffix_that_brewing_reads(tmp_path: Path) -> None:
    assert set(ROW_SUFFIXES) == FORMATS.keys() - {".json"}
    assert set(COMPRESSIONS) == CODECS.keys()
    for name in ("rows.pq", "rows.csv.gz"):
        (tmp_path / name).touch()
        assert "holds rows; expected a JSON config" in message(tmp_path / name)


def test_a_byte_order_mark_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    path.write_bytes(b'\xef\xbb\xbf{"a": 1}')
    assert read_config(path) == {"a": 1}


def test_a_broken_file_is_named_with_line_and_column(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    path.write_text('{\n  "a" 1\n}\n')
    assert message(path).startswith(f"{path}, line 2, column 7: invalid JSON: expected a colon, got '1'. ")
    assert '\n    "a" 1\n' in message(path)


def test_a_missing_file_is_named_with_the_one_that_was_meant(tmp_path: Path) -> None:
    (tmp_path / "model.json").write_text("{}")
    missing = tmp_path / "modle.json"
    assert message(missing) == f"{missing}: no such file. Did you mean {str(tmp_path / 'model.json')!r}?"


def test_a_file_in_a_missing_folder_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "nowhere" / "model.json"
    assert message(missing) == f"{missing}: no such file"


def test_a_directory_is_refused_and_its_config_is_suggested(tmp_path: Path) -> None:
    assert message(tmp_path) == f"{tmp_path} is a directory, not a JSON file"
    (tmp_path / "model_config.json").write_text("{}")
    assert message(tmp_path).endswith(f". Did you mean {str(tmp_path / 'model_config.json')!r}?")


def test_a_path_through_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    path = tmp_path / "file" / "model.json"
    assert message(path) == f"{path} cannot be read: Not a directory"


def test_a_file_that_is_not_utf8_is_refused_with_the_byte(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    path.write_bytes('{"a": "й"}'.encode("cp1251"))
    assert message(path) == f"{path} must be UTF-8 text, got byte 0xe9 at offset 7"


@pytest.mark.parametrize(("text", "found"), [("[1]", "[1] (a list)"), ("3", "3 (an integer)"), ("null", "null")])
def test_only_an_object_can_be_a_config(text: str, found: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(text, "model.json")
    assert str(caught.value) == f'model.json must be an object, {{"key": value, …}}, got {found}'


def test_a_relative_path_starts_at_the_configs_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert resolve_path("data/x", Path("here")) == Path("here/data/x")
    assert resolve_path("/data/x", Path("here")) == Path("/data/x")
    assert resolve_path("~/x", Path("here")) == Path("/home/me/x")
    assert resolve_path("~/x", Path("here"), symlinks="keep") == Path("/home/me/x")


def test_symbolic_links_are_kept_or_followed(tmp_path: Path) -> None:
    (tmp_path / "real" / "inner").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real/inner")
    assert resolve_path("../link/x", tmp_path / "other", symlinks="keep") == tmp_path / "link/x"
    assert resolve_path("link/x", tmp_path, symlinks="follow") == (tmp_path / "real/inner/x").resolve()


leaves = st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=3)
section_names = st.text("abc.", max_size=3)
nested = st.recursive(
    st.dictionaries(section_names, leaves, max_size=3),
    lambda inner: st.dictionaries(section_names, leaves | inner, max_size=3),
    max_leaves=8,
)


def merge_message(base: dict[str, Any], *overrides: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        merge(base, *overrides)
    return str(caught.value)


@given(nested)
def test_merging_a_config_into_itself_changes_nothing(tree: dict[str, Any]) -> None:
    assert merge(tree, tree) == merge(tree) == tree


@given(nested, nested)
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


@given(nested, nested, nested)
def test_overrides_apply_one_after_the_other(base: dict[str, Any], one: dict[str, Any], other: dict[str, Any]) -> None:
    try:
        expected = merge(merge(base, one), other)
    except ConfigError:
        with pytest.raises(ConfigError):
            merge(base, one, other)
    else:
        assert merge(base, one, other) == expected


@given(nested, st.sampled_from(["a", "b", "c"]), leaves)
def test_a_plain_key_takes_the_new_value_unless_it_is_a_section(base: dict[str, Any], key: str, value: Any) -> None:
    if isinstance(base.get(key), dict) and value is not None:
        assert f"--conf: {key!r} is " in merge_message(base, {key: value})
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


def test_a_key_of_the_config_that_contains_a_dot_is_addressed_literally() -> None:
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
    assert merge_message({"a": {"model": {"lr": 1, "dim": 2}}}, {"a.model": 3}) == (
        "--conf: 'a.model' is an object with the keys lr, dim and cannot become 3 (an integer). "
        "Set single keys of it, or remove it with null"
    )
    assert "'model' is an empty object and cannot become [] (a list)" in merge_message({"model": {}}, {"model": []})


@pytest.mark.parametrize(("value", "found"), [(3, "3 (an integer)"), ([{"x": 1}], '[{"x": 1}] (a list)')])
def test_a_dotted_key_does_not_go_through_a_value(value: Any, found: str) -> None:
    assert (
        merge_message({"a": {"lr": value}}, {"a.lr.x": 1}) == f"--conf: cannot set 'a.lr.x', because 'a.lr' is {found}"
    )


@pytest.mark.parametrize("key", [".lr", "model.", "model..lr", "."])
def test_a_dotted_key_with_an_empty_name_is_refused(key: str) -> None:
    assert f"--conf: the key {key!r} has an empty name between its dots" in merge_message({}, {key: 1})


def test_an_override_is_parsed_as_it_is_written() -> None:
    assert parse_override('{"model.lr": 1e-3, "model": {"dim": 8}}') == {
        "model.lr": 1e-3,
        "model": {"dim": 8},
    }


def test_an_override_that_is_not_json_is_shown_with_an_example_for_the_shell() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_override("{lr: 1e-3}")
    assert str(caught.value) == (
        "--conf, line 1, column 2: invalid JSON: expected a key in double quotes, got 'l'. "
        "JSON has only double quotes, no comments and no comma after the last entry\n"
        "  {lr: 1e-3}\n"
        "   ^\n"
        "The text was: {lr: 1e-3}\n"
        """Example: --conf '{"model.lr": 1e-3}' (the single quotes protect the double ones from the shell)"""
    )


def test_an_override_that_is_not_an_object_is_shown_with_an_example_too() -> None:
    with pytest.raises(ConfigError, match=r"(?s)must be an object.*The text was: 3\nExample: --conf"):
        parse_override("3")


def test_an_override_does_not_give_one_key_in_two_ways() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_override('{"model.lr": 1, "model": {"lr": 2}}')
    assert str(caught.value) == "--conf: 'model.lr' is given twice"
