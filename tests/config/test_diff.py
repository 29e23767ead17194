"""Flat configs and their differences."""

import csv
import io
from math import nan
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from samovar.config.diff import Diff, flat_diff, flatten
from samovar.config.values import MISSING, same, split

scalars = st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from([0.5, 1.0, nan, "", "1"])
keys = st.text('ab.[0]"', max_size=3)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
)
trees = st.dictionaries(keys, values, max_size=4)


def rebuild(flat: dict[tuple[str | int, ...], Any]) -> Any:
    """The reference inverse: objects and lists from the parts of their paths alone."""
    if list(flat) == [()]:
        return flat[()]
    branches: dict[str | int, dict[tuple[str | int, ...], Any]] = {}
    for (head, *rest), value in flat.items():
        branches.setdefault(head, {})[tuple(rest)] = value
    if any(isinstance(head, int) for head in branches):
        return [rebuild(branch) for branch in branches.values()]
    return {head: rebuild(branch) for head, branch in branches.items()}


@given(trees)
def test_a_flat_config_still_holds_everything(tree: dict[str, Any]) -> None:
    by_parts = {tuple(split(path)): value for path, value in flatten(tree).items()}
    assert same(rebuild(by_parts), tree)


@given(trees, trees)
def test_there_is_a_difference_exactly_when_configs_differ(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert bool(flat_diff({"one": one, "other": other})) == (not same(one, other))


@given(st.lists(trees, max_size=4))
def test_a_diff_is_sorted_and_shows_only_keys_that_differ(configs: list[dict[str, Any]]) -> None:
    named = {str(number): tree for number, tree in enumerate(configs)}
    diff = flat_diff(named)
    assert diff.names == tuple(named)
    assert list(diff.rows) == sorted(diff.rows)
    for row in diff.rows.values():
        assert len(row) == len(configs)
        assert any(not same(row[0], value) for value in row)


@given(trees)
def test_the_order_of_keys_makes_no_difference(tree: dict[str, Any]) -> None:
    backwards = dict(reversed(tree.items()))
    assert not flat_diff({"one": tree, "other": backwards})


@given(trees)
def test_a_diff_can_always_be_written_as_csv(tree: dict[str, Any]) -> None:
    diff = flat_diff({"one": tree, "other": {}})
    lines = list(csv.reader(io.StringIO(diff.to_csv())))
    assert [line[0] for line in lines] == ["key", *diff.rows]


def test_sections_are_dotted_object_lists_indexed_and_value_lists_kept() -> None:
    tree = {
        "train_data": {"features": ["a", "b"], "empty": {}, "none": []},
        "eval_confs": [{"name": "x"}, {}],
        "mixed": [1, {"a": 2}],
        "emb.lr": 3,
    }
    assert flatten(tree) == {
        "train_data.features": ["a", "b"],
        "train_data.empty": {},
        "train_data.none": [],
        "eval_confs[0].name": "x",
        "eval_confs[1]": {},
        "mixed": [1, {"a": 2}],
        '["emb.lr"]': 3,
    }


def test_the_top_of_a_flat_config_may_have_a_path() -> None:
    assert flatten({"lr": 1}, "model") == {"model.lr": 1}


def test_missing_differs_from_null_and_one_from_true() -> None:
    configs: dict[str, dict[str, Any]] = {
        "a": {"x": None, "one": 1, "nan": nan, "same": {"y": 1}},
        "b": {"one": 1.0, "nan": nan, "same": {"y": 1}},
        "c": {"x": None, "one": True, "nan": nan, "same": {"y": 1}},
    }
    diff = flat_diff(configs)
    assert diff == Diff(("a", "b", "c"), {"one": [1, 1.0, True], "x": [None, MISSING, None]})


def test_ignored_keys_and_sections_are_left_out() -> None:
    one = {"model": {"lr": 1}, "out": "x", "a": {"num_parsers": 1}, "b": 1}
    other = {"model": {"lr": 2}, "out": "y", "a": {"num_parsers": 2}, "b": 2}
    assert list(flat_diff({"one": one, "other": other}, ["model", "out", "*.num_parsers"]).rows) == ["b"]


def test_csv_writes_strings_plain_other_values_as_json_and_missing_as_nothing() -> None:
    configs: dict[str, dict[str, Any]] = {
        "a.json": {"arch": 'new, "super"', "lr": 1e-3, "layers": [1, 2], "x": None, "y": True},
        "b.json": {"arch": "базовая", "lr": 1, "layers": []},
    }
    assert flat_diff(configs).to_csv() == (
        'key,a.json,b.json\narch,"new, ""super""",базовая\nlayers,"[1, 2]",[]\nlr,0.001,1\nx,null,\ny,true,\n'
    )
