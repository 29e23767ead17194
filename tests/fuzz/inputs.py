"""What users type: overrides, conditions, columns, configs, recipes. Good examples, and the code that reads them."""

from collections.abc import Callable, Sequence
from typing import Any

from tests.fuzz.corpus import CONFIG, EXPERIMENT, RECIPE

from samovar.brewing.recipe import Recipe
from samovar.config import merge, parse_override
from samovar.config.document import dump_config, parse_config
from samovar.runs.listing import list_runs
from samovar.sweep.document import Experiment, list_changes
from samovar.tables.cell import Compression
from samovar.tables.schema import parse_type
from samovar.training.schema import load_config

_CONDITIONS = ("lr>0.1", "state=finished", "name~*/click_*", "model.lr<=1e-3", "loss != 3", 'kind="a b"', "auc>=0.5")


def _list(**options: Any) -> None:
    list_runs(["other", "unfinished"], **options)


def _overrides(text: str) -> None:
    dump_config(merge(CONFIG, parse_override(text)))


def _load(tree: Any) -> None:
    if isinstance(tree, dict):
        load_config(tree, "config.json")


def _recipe(tree: Any) -> None:
    if isinstance(tree, dict):
        Recipe.load(tree, "recipe.json")


def _experiment(tree: Any) -> None:
    if isinstance(tree, dict):
        list_changes(Experiment.load(tree, "experiment.json"))


INPUTS: dict[str, tuple[Sequence[Any], Callable[[Any], object]]] = {
    "--conf": (('{"model.lr": 1e-3}', '{"model": {"dim": 8}}', '{"model.layers": null, "a": [1, 2]}'), _overrides),
    "--where": (_CONDITIONS, lambda text: _list(where=[text])),
    "--sort": (("-loss", "lr", "metric.next.auc", "config.model.lr"), lambda text: _list(sort=[text])),
    "--columns": (("state", "lr", "metric.next.auc"), lambda text: _list(columns=[text])),
    "config text": ((dump_config(CONFIG), dump_config(RECIPE)), lambda text: parse_config(text, "config.json")),
    "config": ((CONFIG,), _load),
    "recipe": ((RECIPE,), _recipe),
    "experiment": ((EXPERIMENT,), _experiment),
    "compression": (("zstd", "zstd:5", "lz4", "none"), Compression.parse),
    "type": (("list<item: list<item: int64>>", "decimal128(10, 2)", "timestamp[us, tz=UTC]"), parse_type),
}
