"""What JSON text is refused, and how the error points at it."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samovar.config.strict_json import MAX_DEPTH, _parse_carefully, parse_json
from samovar.errors import ConfigError

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
json_values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)


def message(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_json(text, "model.json")
    return str(caught.value)


@given(json_values, st.sampled_from([None, 2]))
def test_every_value_that_json_writes_is_read_back(value: Any, indent: int | None) -> None:
    assert parse_json(json.dumps(value, indent=indent), "model.json") == value


@given(st.text(alphabet='{}[]:,"\\ \n1eNaN-ab'))
def test_text_is_read_as_json_reads_it_or_refused_with_a_config_error(text: str) -> None:
    try:
        tree = parse_json(text, "model.json")
    except ConfigError:
        return
    assert tree == json.loads(text)


def test_broken_json_is_shown_with_line_column_and_the_line_itself() -> None:
    assert message('{\n  "lr" 1e-3\n}') == (
        "model.json, line 2, column 8: invalid JSON: expected a colon, got '1'. "
        "JSON has only double quotes, no comments and no comma after the last entry\n"
        '    "lr" 1e-3\n'
        "         ^"
    )


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        ("", "line 1, column 1", "expected a value, got the end of the text"),
        ('{"a": 1 "b": 2}', "line 1, column 9", "expected a comma or a closing bracket, got '\"'"),
        ("{'a': 1}", "line 1, column 2", """expected a key in double quotes, got "'\""""),
        ('{"a": 1}\n}', "line 2, column 1", "expected nothing after the last bracket, got '}'"),
        ('{"a": "x}', "line 1, column 7", "expected a closing quote, got '\"'"),
        ('{"a": "x}\r\n', "line 1, column 10", "expected a closing quote, or an escape such as \\n, got '\\r'"),
        (
            '{"a": 1,\n  "b": 2\n\n',
            "line 2, column 9",
            "a closing bracket, got the end of the text",
        ),
        ('{"a": "\t"}', "line 1, column 8", r"expected a closing quote, or an escape such as \n, got '\t'"),
    ],
)
def test_each_kind_of_broken_json_says_what_was_expected(text: str, where: str, what: str) -> None:
    assert message(text).startswith(f"model.json, {where}: invalid JSON: ")
    assert what in message(text)


def test_a_very_long_line_is_cut_around_the_mistake() -> None:
    text = '{"a": [' + "1, " * 500 + "?" + ", 1" * 500 + "]}"
    *_, line, caret = message(text).split("\n")
    assert len(line) < 120
    assert line[caret.index("^")] == "?"


def test_a_tab_does_not_move_the_caret() -> None:
    *_, line, caret = message('{\n\t\t"lr" ?\n}').split("\n")
    assert line[caret.index("^")] == "?"


def test_a_duplicate_key_is_refused_with_its_path_and_both_lines() -> None:
    text = '{\n  "model": {\n    "lr": 1,\n    "dim": 2,\n    "lr": 3\n  }\n}'
    assert message(text) == (
        "model.json, line 5, column 5: duplicate key 'model.lr', first given on line 3\n      \"lr\": 3\n      ^"
    )


def test_a_duplicate_key_is_seen_through_an_escape_and_inside_a_list() -> None:
    assert "duplicate key 'e[1].ab'" in message('{"e": [{"ab": 1}, {"ab": 1, "\\u0061b": 2}]}')


def test_the_same_key_in_two_objects_is_not_a_duplicate() -> None:
    text = '{"a": {"x": "x"}, "b": [{"x": 1}, {"x": [1, "x"]}], "x": 1}'
    assert parse_json(text, "model.json") == json.loads(text)


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity", "1e999", "-1.5E400"])
def test_a_number_that_is_not_finite_is_refused_with_its_path(constant: str) -> None:
    text = message(f'{{"model": {{"lr": [0.5, {constant}]}}}}')
    assert text.startswith("model.json, line 1, column 24: model.lr[1] must be a finite number, got ")
    assert f"got {constant}\n" in text


def test_a_large_integer_is_exact() -> None:
    assert parse_json(str(10**400), "model.json") == 10**400


def test_an_integer_that_python_does_not_read_is_refused() -> None:
    assert "an integer has more than 4300 digits" in message('{"a": ' + "1" * 5000 + "}")


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 100_000])
def test_deeper_nesting_is_refused(depth: int) -> None:
    assert f"more than {MAX_DEPTH} nested levels" in message("[" * depth + "]" * depth)


def test_nesting_up_to_the_limit_is_read() -> None:
    assert parse_json("[" * MAX_DEPTH + "]" * MAX_DEPTH, "model.json")


def test_text_that_no_file_can_hold_is_refused() -> None:
    assert "half of a surrogate pair" in message('{"a": "\\ud800"}')
    assert parse_json('"\\ud83d\\ude00"', "model.json") == "😀"


TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=8,
)


@given(st.one_of(TREES.map(json.dumps), st.text(alphabet='{}[]",:01eNa\\u ', max_size=20)))
def test_the_short_way_says_the_same_as_the_careful_one(text: str) -> None:
    def outcome(parse: Callable[[str, str], Any]) -> str:
        try:
            return repr(parse(text, "here"))
        except ConfigError as error:
            return str(error)

    assert outcome(parse_json) == outcome(_parse_carefully)
