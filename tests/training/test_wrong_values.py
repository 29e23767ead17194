"""A wrong value at any key of any config is one problem, in plain words."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from samovar.brewing.recipe import Recipe
from samovar.errors import ConfigError
from samovar.sweep.document import Experiment
from samovar.training.schema import load_config

DATES = {"start_date": "2026-01-01", "end_date": "2026-02-01", "timezone": "UTC"}
ONLINE = {
    "pipeline": "online",
    "model_dir": "m",
    "model": {},
    "seed": 1,
    "num_threads": 1,
    "snapshotter": {"frequency": 1.0},
    "ttl_filter": {"frequency": 1},
    "progress": True,
    "init_from": {"model": "x", "match": {"a": "b"}, "drop": ["c"], "resize_embeddings": True, "optimizers": ["d"]},
    "pretrained": {"emb.user": "u.parquet"},
    "frozen": ["emb"],
    "follow": False,
    "train_data": {
        "table": "t",
        "features": ["a"],
        "targets": ["b"],
        "follow": False,
        "num_parsers": 1,
        "negatives": {"columns": ["a"], "count": 1, "by": "uniform", "target": "b", "window": "1d"},
        **DATES,
    },
    "evaluation": {"eval_confs": [{"name": "e", "table": "t", "keys": ["k"], "shifts": [1], "max_memory": 5, **DATES}]},
}
MERGED = {
    "pipeline": "online",
    "train_data": {
        "merge_tables": {
            "merge_keys": ["k"],
            "tables": [{"table": "a", "targets": ["x"], "features": ["f"]}, {"table": "b", "targets": [], "keys": []}],
        }
    },
}
OFFLINE = {
    "pipeline": "offline",
    "train_data": {"table": "t", "epoch_count": 1, "max_iter": 3, "uri_granularity": 5, "shuffle": True},
    "evaluation": {"eval_confs": [{"name": "e", "table": "t", "keys": []}]},
}
RECIPE = {
    "source": ["a.csv"],
    "categorical_factors": ["a"],
    "text_factors": {"t": {"words": 2, "ngrams": 3, "lower": True}},
    "time_field": "time",
    "time_unit": "seconds",
    "granularity": 300,
    "batch_size": 5,
    "pivot_column": "p",
    "tables": [{"source": "b.csv", "keys": ["z"]}],
    "memory_limit": "2GB",
    "compression": "zstd",
    **DATES,
}
SHUFFLED = {"source": "a.csv", "categorical_factors": ["a"], "shuffle": {"seed": 1}}
EXPERIMENT = {
    "base": "b.json",
    "script": "s.py",
    "grid": {"a": [1, 2]},
    "list": [{"a": 1}],
    "random": {"count": 2, "values": {"m": {"log_uniform": [0.1, 1]}, "n": {"int": [1, 2]}}},
    "metrics": ["loss"],
}
CONFIGS: list[tuple[dict[str, Any], Callable[[dict[str, Any], str], object]]] = [
    (ONLINE, load_config),
    (MERGED, load_config),
    (OFFLINE, load_config),
    (RECIPE, Recipe.load),
    (SHUFFLED, Recipe.load),
    (EXPERIMENT, Experiment.load),
]
WRONG: list[Any] = [None, True, 0, -1, 1.5, "", "text", "1", [], [0], [[]], [1, 2, 3], {}]
FOREIGN = (
    "Input ",
    "valid ",
    "should",
    "parsing",
    "tuple",
    "dictionary",
    "instance",
    "Value error",
    "after validation",
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(inner, (*path, key))


def replaced(config: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    copied = copy.deepcopy(config)
    section: Any = copied
    for key in path[:-1]:
        section = section[key]
    section[path[-1]] = value
    return copied


@pytest.mark.parametrize(("config", "load"), CONFIGS)
def test_a_wrong_value_is_one_problem_in_plain_words(
    config: dict[str, Any], load: Callable[[dict[str, Any], str], object]
) -> None:
    load(config, "c.json")
    num_refused = 0
    for path in places(config):
        for value in WRONG:
            try:
                load(replaced(config, path, value), "c.json")
            except ConfigError as error:
                num_refused += 1
                text = str(error)
                assert not any(word in text for word in FOREIGN), text
                is_one = "\n" not in text or isinstance(value, dict | list)  # which may lack or hold several things
                assert is_one, text
    assert num_refused > 20


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        (replaced(ONLINE, ("evaluation", "eval_confs", 0, "shifts"), [0]), "shifts[0] must be at least 1, got 0"),
        (
            replaced(EXPERIMENT, ("random", "values", "m", "log_uniform"), [1, 2, 3]),
            "random.values.m.log_uniform must have at most 2 items, got [1, 2, 3] (a list)",
        ),
        (replaced(EXPERIMENT, ("random", "values", "m", "log_uniform"), []), "m.log_uniform[0] is missing"),
        (replaced(ONLINE, ("snapshotter", "frequency"), -1), "snapshotter.frequency must be at least 0, got -1"),
        (replaced(ONLINE, ("pipeline",), 0), "pipeline must be 'offline' or 'online', got 0"),
    ],
)
def test_a_value_out_of_bounds_is_named_with_its_bound(config: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        (Experiment.load if "base" in config else load_config)(config, "c.json")
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("config", "place", "other"),
    [
        (replaced(ONLINE, ("train_data", "epoch_count"), 2), "train_data.epoch_count", "offline"),
        (replaced(OFFLINE, ("train_data", "start_date"), "2026-01-01"), "train_data.start_date", "online"),
        (replaced(OFFLINE, ("evaluation", "eval_confs", 0, "shifts"), [1]), "eval_confs[0].shifts", "online"),
        (replaced(OFFLINE, ("follow",), True), "follow", "online"),
    ],
)
def test_a_key_of_the_other_pipeline_is_reported_as_such(config: dict[str, Any], place: str, other: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(config, "c.json")
    assert f"{place}: only {other} training has this key" in str(caught.value)


def test_the_available_keys_are_listed_once() -> None:
    with pytest.raises(ConfigError) as caught:
        load_config({**OFFLINE, "odd": 1, "strange": 2, "train_data": {"table": "t", "odd": 1, "tabel": 2}}, "c.json")
    first, *lines = str(caught.value).split("\n  ")
    assert first == "c.json: 4 problems:"
    assert [("Available: " in line) for line in lines] == [False, True, False, True]
