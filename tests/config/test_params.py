"""A config as code reads it, what counts as reading, and the ledger of what was read."""

import copy
import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samovar.config.diff import flatten
from samovar.config.params import Ledger, MissingKey, Params, changed_defaults
from samovar.errors import ConfigError, CorruptData, UnknownKey

TREE: dict[str, Any] = {
    "lr": 0.1,
    "name": None,
    "layers": [1, 2],
    "model": {"dim": 8, "deep": {"x": 1}},
    "evals": [{"name": "a"}, {"name": "b"}],
    "empty": {},
    "items": 3,
}

scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=3)
keys = st.text("ab._[", max_size=3)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
)
trees = st.dictionaries(keys, values, max_size=4)


def watched(tree: dict[str, Any] = TREE) -> tuple[Params, Ledger]:
    ledger = Ledger()
    return Params(tree, ledger), ledger


def read_all(value: Any) -> Any:
    """Reads a config to its last leaf, the way code does."""
    if isinstance(value, Params):
        return {key: read_all(item) for key, item in value.items()}
    return [read_all(item) for item in value] if isinstance(value, list) else value


@given(trees)
def test_a_config_read_to_its_last_leaf_is_the_config_and_nothing_is_left_unread(
    tree: dict[str, Any],
) -> None:
    params, ledger = watched(tree)
    assert read_all(params) == tree
    assert ledger.unread(tree) == []
    assert set(ledger.records) == set(flatten(tree))


@given(trees)
def test_to_dict_gives_the_config_back_and_reads_everything(tree: dict[str, Any]) -> None:
    params, ledger = watched(tree)
    assert params.to_dict() == tree
    assert ledger.unread(tree) == []


@given(trees)
def test_looking_at_a_config_reads_nothing(tree: dict[str, Any]) -> None:
    params, ledger = watched(tree)
    assert params == tree
    assert params == Params(tree)
    assert len(params) == len(tree)
    assert list(params) == list(params.keys()) == list(tree)
    assert all(key in params for key in tree)
    assert repr(params) == f"Params({tree!r})"
    dir(params)
    assert ledger.records == {}


def test_values_are_read_by_attribute_item_and_get() -> None:
    params, ledger = watched()
    assert params.lr == params["lr"] == params.get("lr") == params.get("lr", 5) == 0.1
    assert params.model.deep.x == params["model"]["deep"]["x"] == 1
    assert [conf.name for conf in params.evals] == ["a", "b"]
    assert isinstance(params.model, Params)
    assert params.name is None
    assert set(ledger.records) == {"lr", "model.deep.x", "evals[0].name", "evals[1].name", "name"}


def test_a_key_named_like_a_method_is_reached_as_an_item() -> None:
    params, _ = watched()
    assert params["items"] == 3
    assert dict(params.items())["lr"] == 0.1


def test_touching_a_section_does_not_read_its_leaves() -> None:
    params, ledger = watched()
    _ = params.model, params.evals, params.get("model", {})
    assert ledger.records == {}
    _ = params.empty
    assert list(ledger.records) == ["empty"]


def test_spreading_and_iterating_values_read_the_leaves() -> None:
    params, ledger = watched()
    assert dict(**params.model.deep) == {"x": 1}
    list(params.evals[0].values())
    assert set(ledger.records) == {"model.deep.x", "evals[0].name"}


def test_a_missing_key_gets_the_default_or_none() -> None:
    params, ledger = watched()
    assert params.get("dropout", 0.5) == 0.5
    assert params.get("nothing") is None
    assert not ledger.records["dropout"].is_present
    assert ledger.records["nothing"].defaults == [None]
    marker = object()
    assert params.get("marker", marker) is marker


def test_null_in_the_config_is_not_replaced_by_the_default() -> None:
    params, ledger = watched()
    assert params.get("name", "x") is None
    assert ledger.records["name"].is_present


def test_a_section_given_as_default_is_read_like_one_and_recorded_as_default() -> None:
    params, ledger = watched()
    augment = params.get("augment", {"flip": True, "parts": [{"n": 1}, {}]})
    assert augment.flip is True
    assert augment.get("flip", False) is True
    assert augment.get("scale", 2) == 2
    assert augment.parts[0].n == 1
    assert params.get("more", {}).get("x", 1) == 1
    assert not any(record.is_present for record in ledger.records.values())
    assert ledger.records["augment.flip"].defaults == [True]
    assert ledger.records["augment.scale"].defaults == [2]
    assert ledger.records["more.x"].defaults == [1]


def test_another_section_can_be_the_default_without_being_read() -> None:
    params, ledger = watched()
    assert params.get("head", params.model).dim == 8
    assert "model.dim" not in ledger.records


@pytest.mark.parametrize("read", [lambda p: p.drop_out, lambda p: p["drop_out"]])
def test_a_missing_key_names_the_nearest_one(read: Any) -> None:
    params = Params({"dropout": 0.5, "dim": 8}, path="model")
    with pytest.raises(UnknownKey) as caught:
        read(params)
    assert str(caught.value) == (
        "config section 'model': no key 'drop_out'. Did you mean 'dropout'? Available: dropout, dim. "
        "To make it optional, read it with params.get('drop_out', default)"
    )


def test_a_missing_key_that_is_like_no_other_only_gets_the_list() -> None:
    with pytest.raises(MissingKey) as caught:
        _ = Params({}).lr
    assert str(caught.value) == (
        "config: no key 'lr'. Available: none. To make it optional, read it with params.get('lr', default)"
    )


def test_a_missing_key_is_what_python_expects_of_attributes_and_mappings() -> None:
    params, _ = watched()
    assert not hasattr(params, "nope")
    assert getattr(params, "nope", 7) == 7
    with pytest.raises(KeyError):
        params["nope"]
    with pytest.raises(ConfigError):
        params["nope"]


def test_a_config_never_changes() -> None:
    params, _ = watched()
    model = params.model
    with pytest.raises(ConfigError) as caught:
        model.dim = 9
    assert str(caught.value) == (
        "model.dim: a config cannot be changed by code. Clone it, or start the run with --conf"
    )
    with pytest.raises(ConfigError, match=r"^lr: a config cannot be changed by code"):
        params["lr"] = 1
    with pytest.raises(ConfigError, match=r"^lr: a config cannot be changed by code"):
        del params.lr
    with pytest.raises(ConfigError, match=r"^lr: a config cannot be changed by code"):
        del params["lr"]


def test_what_code_does_to_a_value_does_not_reach_the_config() -> None:
    tree = copy.deepcopy(TREE)
    params = Params(tree)
    params.layers.append(3)
    params.to_dict()["model"]["dim"] = 9
    tree["model"]["dim"] = 10
    assert params == TREE


def test_copies_and_pickles_are_equal_and_copies_share_the_ledger() -> None:
    params, ledger = watched()
    assert pickle.loads(pickle.dumps(params.model)) == params.model
    assert copy.copy(params) == copy.deepcopy(params) == params
    _ = copy.deepcopy(params).lr
    assert "lr" in ledger.records


def test_params_of_params_read_nothing_from_the_first() -> None:
    params, ledger = watched()
    assert Params(params) == params
    assert ledger.records == {}


def test_params_are_equal_to_mappings_only_and_cannot_be_hashed() -> None:
    params, _ = watched()
    assert params != {"lr": 1}
    assert params != 3
    with pytest.raises(TypeError):
        hash(params)


def test_the_ledger_keeps_value_default_and_presence_sorted_by_path() -> None:
    ledger = Ledger()
    params = Params({"lr": 0.1, "dim": 8}, ledger, "model")
    params.get("lr", 0.5)
    params.get("dropout", 0.0)
    _ = params.dim
    params.retired("old")
    tree = ledger.to_dict()
    assert tree == {
        "read": {
            "model.dim": {"value": 8, "present": True, "defaults": []},
            "model.dropout": {"value": 0.0, "present": False, "defaults": [0.0]},
            "model.lr": {"value": 0.1, "present": True, "defaults": [0.5]},
        },
        "retired": ["model.old"],
    }
    assert list(tree["read"]) == sorted(tree["read"])


def test_two_defaults_for_one_key_are_both_kept_in_any_order() -> None:
    texts = []
    for defaults in ([5, 3, 5.0, 3], [3, 5]):
        ledger = Ledger()
        for default in defaults:
            Params({"n": 1}, ledger).get("n", default)
        texts.append(json.dumps(ledger.to_dict()))
        assert ledger.records["n"].defaults == [3, 5]
    assert texts[0] == texts[1]


def test_a_ledger_survives_json() -> None:
    ledger = Ledger()
    params = Params({"a": [1, 2], "b": {"c": None}}, ledger)
    params.get("a", (1, 2))
    params.get("limit", float("inf"))
    params.get("act", dict)
    params.b.get("c")
    params.retired("old")
    text = json.dumps(ledger.to_dict(), allow_nan=False)
    assert Ledger.from_dict(json.loads(text)) == ledger


@pytest.mark.parametrize("tree", [{}, {"read": [], "retired": []}, {"read": {"a": 1}, "retired": []}])
def test_anything_else_than_a_ledger_is_refused(tree: dict[str, object]) -> None:
    with pytest.raises(CorruptData, match=r"params\.json is damaged \(read"):
        Ledger.from_dict(tree)


def test_unread_keys_are_found_in_the_order_of_the_config() -> None:
    tree = {"z": 1, "model": {"lr": 1, "typo": 2}, "evals": [{"name": "x", "shift": 3}], "empty": {}}
    ledger = Ledger()
    params = Params(tree, ledger)
    _ = params.model.lr, params.evals[0].name
    assert ledger.unread(tree) == ["z", "model.typo", "evals[0].shift", "empty"]


def test_unread_keys_of_one_section_are_named_by_their_full_path() -> None:
    section = {"lr": 1, "typo": 2}
    ledger = Ledger()
    _ = Params(section, ledger, "model").lr
    assert ledger.unread(section, "model") == ["model.typo"]


def test_a_retired_key_and_everything_in_it_may_stay_unread() -> None:
    tree = {"old": {"a": 1, "b": [{"c": 2}]}, "older": 1, "new": {"gone": 1, "x": 2}, "dotted.key": 3}
    ledger = Ledger()
    Params(tree, ledger).retired("old", "new.gone", "dotted.key", "never_was_there")
    assert ledger.unread(tree) == ["older", "new.x"]


def test_a_default_that_changed_is_reported_only_for_keys_that_the_config_lacks() -> None:
    old, new = Ledger(), Ledger()
    for ledger, dim, act in ((old, 5, "relu"), (new, 10, "gelu")):
        params = Params({"dim": 8, "act": "relu"} if ledger is old else {"dim": 8}, ledger)
        params.get("dim", dim)
        params.get("act", act)
        params.get("dropout", 0 if ledger is old else 0.5)
        params.get("same", 1 if ledger is old else 1.0)
    Params({}, new).get("brand_new", 1)
    assert changed_defaults(old, new) == [("dropout", 0, 0.5)]


def test_changed_defaults_are_all_listed_where_readers_disagree() -> None:
    old, new = Ledger(), Ledger()
    Params({}, old).get("n", 1)
    Params({}, new).get("n", 1)
    Params({}, new).get("n", 2)
    assert changed_defaults(old, new) == [("n", 1, [1, 2])]


def test_defaults_of_an_old_run_compare_after_a_trip_through_json() -> None:
    old, new = Ledger(), Ledger()
    for ledger in (old, new):
        Params({}, ledger).get("limit", float("inf"))
        Params({}, ledger).get("shape", (1, 2))
        Params({}, ledger).get("key", sorted)
    assert changed_defaults(Ledger.from_dict(json.loads(json.dumps(old.to_dict()))), new) == []


def test_the_key_that_was_meant_is_found_within_its_section() -> None:
    ledger = Ledger()
    params = Params({"model": {"lrr": 0.1}}, ledger=ledger)
    assert params.model.get("dim", 8) == 8
    assert params.model.get("lr", 0.5) == 0.5
    assert ledger.nearest_absent("model.lrr") == "model.lr"
    assert ledger.nearest_absent("model.xyz") is None
