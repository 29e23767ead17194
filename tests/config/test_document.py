"""Config files: what can go wrong with the file itself, and the one way to write one."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samovar.config.document import dump_config, parse_config, read_config, resolve_path
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
        ({"a": [1, float("nan")]}, "a[1]: found nan, which JSON cannot hold: use plain values"),
        ({"a": {"b": float("-inf")}}, "a.b: found -inf, which JSON cannot hold: use plain values"),
        ({"a": {1: 2}}, "a: found the key 1, which JSON cannot hold: use plain values"),
        ({1: 2}, "config: found the key 1, which JSON cannot hold: use plain values"),
        (
            {"a": Path},
            "a: found \"<class 'pathlib.Path'>\" (a Python type), which JSON cannot hold: use plain values",
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


def test_a_byte_order_mark_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    path.write_bytes(b'\xef\xbb\xbf{"a": 1}')
    assert read_config(path) == {"a": 1}


def test_a_broken_file_is_named_with_line_and_column(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    path.write_text('{\n  "a" 1\n}\n')
    assert message(path).startswith(f"{path}, line 2, column 7: broken JSON, found '1', expected a colon: ")
    assert '\n    "a" 1\n' in message(path)


def test_a_missing_file_is_named_with_the_one_that_was_meant(tmp_path: Path) -> None:
    (tmp_path / "model.json").write_text("{}")
    missing = tmp_path / "modle.json"
    assert message(missing) == (
        f"{missing}: no such file, expected a JSON config: check the path; "
        f"did you mean {str(tmp_path / 'model.json')!r}?"
    )


def test_a_file_in_a_missing_folder_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "nowhere" / "model.json"
    assert message(missing) == f"{missing}: no such file, expected a JSON config: check the path"


def test_a_directory_is_refused_with_the_config_that_lies_in_it(tmp_path: Path) -> None:
    assert message(tmp_path) == f"{tmp_path}: found a directory, expected a JSON file: name the file in it"
    (tmp_path / "model_config.json").write_text("{}")
    assert message(tmp_path).endswith(f"did you mean {str(tmp_path / 'model_config.json')!r}?")


def test_a_path_through_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    path = tmp_path / "file" / "model.json"
    assert message(path) == (
        f"{path}: Not a directory, expected a readable JSON file: check the path and its permissions"
    )


def test_a_file_that_is_not_utf8_is_refused_with_the_byte(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    path.write_bytes('{"a": "й"}'.encode("cp1251"))
    assert message(path) == f"{path}: found byte 0xe9 at offset 7, expected UTF-8 text: save it as UTF-8"


@pytest.mark.parametrize(("text", "found"), [("[1]", "[1] (a list)"), ("3", "3 (an integer)"), ("null", "null")])
def test_only_an_object_can_be_a_config(text: str, found: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(text, "model.json")
    assert str(caught.value) == (f'model.json: found {found}, expected an object at the top: write {{"key": value, …}}')


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
