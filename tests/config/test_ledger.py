"""What the ledger remembers, how it is kept on disk, and what it finds."""

import json

import pytest

from samovar.config.params import Ledger, Params, changed_defaults
from samovar.errors import ConfigError


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


def test_two_defaults_for_one_key_are_both_kept_whoever_came_first() -> None:
    texts = []
    for defaults in ([5, 3, 5.0, 3], [3, 5]):
        ledger = Ledger()
        for default in defaults:
            Params({"n": 1}, ledger).get("n", default)
        texts.append(json.dumps(ledger.to_dict()))
        assert ledger.records["n"].defaults == [3, 5]
    assert texts[0] == texts[1]


def test_a_ledger_comes_back_from_json_as_it_was() -> None:
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
def test_what_is_no_ledger_is_refused(tree: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=r"expected what `to_dict` gives: take params\.json from another run"):
        Ledger.from_dict(tree)


def test_keys_that_nobody_read_are_found_in_the_order_of_the_config() -> None:
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


def test_a_retired_key_is_excused_with_all_that_lies_in_it() -> None:
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
