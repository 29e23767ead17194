"""Changes from grids, lists and random samples; errors in a document."""

import math
from typing import Any

import pytest

from samovar.errors import ConfigError, UnknownKey
from samovar.sweep.document import Experiment, list_changes

RANGES = {
    "lr": {"log_uniform": [1e-4, 1e-1]},
    "dropout": {"uniform": [0.0, 0.5]},
    "dim": {"int": [2, 5]},
    "arch": {"choice": ["wide", "deep"]},
}


def changes(**document: Any) -> list[dict[str, Any]]:
    return list_changes(Experiment.load({"base": {}, **document}, "exp.json"))


def test_a_grid_is_every_combination_and_each_change_appears_once() -> None:
    assert changes(grid={"lr": [1, 2], "dim": [8, 16]}, list=[{"dim": 16, "lr": 1}, {"arch": "deep"}]) == [
        {"lr": 1, "dim": 8},
        {"dim": 16, "lr": 1},
        {"lr": 2, "dim": 8},
        {"lr": 2, "dim": 16},
        {"arch": "deep"},
    ]


def test_without_changes_the_base_is_the_only_part() -> None:
    assert changes() == [{}]


def test_random_samples_stay_in_their_ranges() -> None:
    drawn = changes(random={"count": 300, "values": RANGES})
    assert len(drawn) == 300
    assert {type(each["dim"]) for each in drawn} == {int}
    assert {each["dim"] for each in drawn} == {2, 3, 4, 5}
    assert {each["arch"] for each in drawn} == {"wide", "deep"}
    assert all(0.0 <= each["dropout"] <= 0.5 for each in drawn)
    assert all(1e-4 <= each["lr"] <= 1e-1 for each in drawn)
    decades = [math.floor(math.log10(each["lr"])) for each in drawn]
    assert all(60 < decades.count(decade) < 140 for decade in (-4, -3, -2))


def test_more_samples_and_more_keys_keep_the_existing_ones() -> None:
    few = changes(random={"count": 3, "values": {"lr": RANGES["lr"]}})
    many = changes(random={"count": 5, "values": RANGES})
    assert [each["lr"] for each in many[:3]] == [each["lr"] for each in few]
    assert changes(random={"count": 3, "seed": 1, "values": {"lr": RANGES["lr"]}}) != few


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"int": [1, 2], "choice": [1]}, "give exactly one of choice, uniform, log_uniform, int; got choice, int"),
        ({}, "give exactly one of choice, uniform, log_uniform, int; got none"),
        ({"uniform": [2, 1]}, r"the lower bound must come first, got \[2.0, 1.0\]"),
        ({"log_uniform": [0, 1]}, "log_uniform needs bounds above 0, got 0"),
        ({"choice": []}, "choice needs at least one value, got an empty list"),
        ({"int": [2, 2**63]}, r"int needs bounds of 64 bits, got \[2, 9223372036854775808\]"),
        ({"uniform": [-1e308, 1e308]}, r"the bounds must be finite and closer together, got \[-1e\+308, 1e\+308\]"),
    ],
)
def test_an_invalid_range_is_an_error(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        changes(random={"count": 1, "values": {"lr": values}})


@pytest.mark.parametrize(
    "keys",
    [
        {"random": {"count": 2**32, "values": {"lr": RANGES["lr"]}}},
        {"grid": {name: list(range(100)) for name in ("a", "b", "c", "d")}},
    ],
)
def test_an_experiment_that_never_ends_is_refused(keys: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"an experiment has at most 100,000 parts, got (4,294,967,296|100,000,000)"):
        changes(**keys)


def test_an_unknown_key_is_reported_with_the_nearest() -> None:
    with pytest.raises(UnknownKey, match="Did you mean 'grid'"):
        changes(gird={})
