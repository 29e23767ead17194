"""Which keys may differ when a run resumes in its directory."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samovar.config.document import merge
from samovar.config.identity import FREE_KEYS, compare, identity
from samovar.config.values import MISSING

CONFIG: dict[str, Any] = {
    "model_dir": "/models/a",
    "seed": 0,
    "snapshotter": {"frequency": 3600},
    "ttl_filter": {"frequency": 10},
    "train_data": {"table": "/tables/t", "epoch_count": 10, "num_parsers": 3, "follow": False},
    "evaluation": {"eval_confs": [{"name": "x", "table": "/tables/v", "num_downloaders": 2}]},
    "model": {"lr": 0.1, "memory_limit": 5, "progress": 1},
}


def test_identity_is_the_flat_config_without_what_may_differ() -> None:
    inputs = {"train_data.table": "t@1", "evaluation.eval_confs[0].table": "v@2"}
    assert identity(CONFIG, inputs) == {
        "seed": 0,
        "train_data.table": "t@1",
        "train_data.epoch_count": 10,
        "evaluation.eval_confs[0].name": "x",
        "evaluation.eval_confs[0].table": "v@2",
        "model.lr": 0.1,
        "model.memory_limit": 5,
        "model.progress": 1,
    }


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("model_dir", "/elsewhere"),
        ("model_yt_dir", "//home/elsewhere"),
        ("out", "x"),
        ("progress", False),
        ("follow", True),
        ("train_data.follow", True),
        ("train_data.num_downloaders", 9),
        ("train_data.num_parsers", 9),
        ("max_cache_size", 9),
        ("brew.max_memory", 9),
        ("memory_limit", 9),
        ("snapshotter.frequency", 9),
        ("ttl_filter.frequency", 9),
    ],
)
def test_a_free_key_may_differ_and_is_reported(key: str, value: Any) -> None:
    comparison = compare(CONFIG, merge(CONFIG, {key: value}))
    assert not comparison.conflicts
    assert list(comparison.allowed.rows) == [key]
    assert comparison.allowed.rows[key][1] == value


def test_every_free_key_says_why() -> None:
    assert all(len(reason) > 10 and "\n" not in reason for reason in FREE_KEYS.values())


@pytest.mark.parametrize(
    "key",
    [
        "seed",
        "num_threads",
        "train_data.epoch_count",
        "train_data.table",
        "model.lr",
        "model.memory_limit",
        "model.progress",
        "model.follow",
        "model.out",
        "evaluation.follow",
        "train_data.model_dir",
        "snapshotter.keep",
        "out_of_range",
    ],
)
def test_any_other_key_is_a_conflict(key: str) -> None:
    comparison = compare(CONFIG, merge(CONFIG, {key: "other"}))
    assert list(comparison.conflicts.rows) == [key]
    assert not comparison.allowed


@pytest.mark.parametrize("key", ["model_dir", "follow", "progress", "num_parsers", "reader.max_memory", "memory_limit"])
def test_in_a_stage_of_the_users_own_every_key_counts(key: str) -> None:
    comparison = compare(CONFIG, merge(CONFIG, {key: "other"}), kind="stage:mine")
    assert list(comparison.conflicts.rows) == [key]
    assert key in identity(merge({}, {key: 1}), kind="stage:mine")


@pytest.mark.parametrize("key", ["out", "cloned_from"])
def test_only_the_place_and_the_parent_are_free_in_a_stage(key: str) -> None:
    comparison = compare(CONFIG, {**CONFIG, key: {"x": 1} if key == "cloned_from" else "x"}, kind="stage:mine")
    assert not comparison.conflicts
    assert len(comparison.allowed.rows) == 1


def test_a_conflict_shows_both_values() -> None:
    rows = compare({"a": 1}, {"b": None}).conflicts.rows
    assert rows == {"a": [1, MISSING], "b": [MISSING, None]}


def test_an_input_that_moved_is_allowed_and_reported() -> None:
    moved = merge(CONFIG, {"train_data.table": "/copied/t"})
    ids = {"train_data.table": "t@1"}
    comparison = compare(CONFIG, moved, ids, ids)
    assert not comparison.conflicts
    assert comparison.allowed.rows == {"train_data.table": ["/tables/t", "/copied/t"]}


def test_an_input_that_changed_behind_its_path_is_a_conflict() -> None:
    comparison = compare(CONFIG, CONFIG, {"train_data.table": "t@1"}, {"train_data.table": "t@2"})
    assert comparison.conflicts.rows == {"train_data.table": ["/tables/t (id t@1)", "/tables/t (id t@2)"]}
    assert not comparison.allowed


def test_an_input_that_only_one_side_could_identify_is_a_conflict() -> None:
    assert compare(CONFIG, CONFIG, {}, {"train_data.table": "t@1"}).conflicts


def test_an_input_that_no_config_names_counts_too() -> None:
    rows = compare({}, {}, {"init_from": "m@1"}, {"init_from": "m@2"}).conflicts.rows
    assert rows == {"init_from": ["(id m@1)", "(id m@2)"]}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"snapshotter": {"frequency": 1}}, {}),
        ({"snapshotter": {"frequency": 1}}, {"snapshotter": {}}),
        ({"snapshotter": {}}, {}),
        ({"reader": {"num_parsers": 1}}, {}),
        ({"reader": {"num_parsers": 1}}, {"reader": {}}),
        ({"progress": {"bar": True}}, {}),
    ],
)
def test_a_section_of_nothing_but_free_keys_does_not_conflict(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert not compare(one, other).conflicts
    assert not compare(other, one).conflicts


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"text_factors": {"title": {}}}, {"text_factors": {}}),
        ({"model": {"head": {}}}, {"model": {}}),
        ({"model": {}}, {"model": {"num_parsers": 1}}),
        ({"reader": {}}, {"reader": 3}),
    ],
)
def test_an_empty_section_that_may_mean_something_conflicts(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert compare(one, other).conflicts
    assert compare(other, one).conflicts


def test_numbers_compare_by_value_and_order_does_not_count() -> None:
    other = copy.deepcopy(dict(reversed(CONFIG.items())))
    other["train_data"]["epoch_count"] = 10.0
    comparison = compare(CONFIG, other)
    assert not comparison.conflicts
    assert not comparison.allowed


names = st.sampled_from(["model", "num_parsers", "follow", "a", "snapshotter", "frequency", "out"])
trees = st.recursive(
    st.dictionaries(names, st.integers(0, 1), max_size=3),
    lambda inner: st.dictionaries(names, st.integers(0, 1) | inner, max_size=3),
    max_leaves=6,
)


@given(trees, trees)
def test_a_difference_is_either_a_conflict_or_allowed_never_both(one: dict[str, Any], other: dict[str, Any]) -> None:
    comparison = compare(one, other)
    assert not comparison.conflicts.rows.keys() & comparison.allowed.rows.keys()
    assert bool(comparison.conflicts or comparison.allowed) == (one != other)


def test_a_list_of_inputs_counts_by_their_ids_and_not_by_their_paths() -> None:
    here, there = {"source": ["/a/x", "/a/y"], "n": 1}, {"source": ["/b/x", "/b/y"], "n": 1}
    inputs = {"source[0]": "id x", "source[1]": "id y"}
    assert identity(here, inputs) == {"n": 1, **inputs}
    assert not compare(here, there, inputs, inputs).conflicts
    assert list(compare(here, there, inputs, inputs).allowed.rows) == ["source"]
    assert list(compare(here, there, inputs, {**inputs, "source[1]": "id z"}).conflicts.rows) == ["source[1]"]
