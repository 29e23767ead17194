"""What users type: overrides, conditions, columns, configs, recipes. Good examples, and the code that reads them."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.fuzz.corpus import CONFIG, EXPERIMENT, RECIPE

from samovar.brewing.recipe import Recipe
from samovar.config import merge, parse_override
from samovar.config.document import dump_config, parse_config
from samovar.runs.listing import list_runs
from samovar.scoring import Signature
from samovar.store import LocalStore
from samovar.sweep.document import Experiment, list_changes
from samovar.tables.cell import Compression
from samovar.tables.schema import parse_type
from samovar.training.schema import load_config

SIGNATURE = {
    "format": 1,
    "inputs": [
        {"name": "user", "kind": "categorical", "rank": 1, "source_type": "uint64", "converter": {"role": "id"}},
        {"name": "title", "kind": "categorical", "rank": 1, "source_type": "string",
         "converter": {"role": "text", "words": 2, "ngrams": 3, "lower": True}},
        {"name": "history", "kind": "categorical", "rank": 2, "source_type": "list<item: int64>",
         "converter": {"role": "id_sequence"}},
        {"name": "price", "kind": "real", "rank": 1, "source_type": "double",
         "converter": {"role": "standard", "mean": 1.5, "deviation": 0.5}},
        {"name": "age", "kind": "categorical", "rank": 1, "source_type": "int64",
         "converter": {"role": "bins", "bins": 4, "edges": [10.0, 20.0, 30.0]}},
    ],
    "others": ["clicked"],
}  # fmt: skip
ROWS = [{"user": 7, "title": "red hat", "history": [1, 2], "price": 2.0, "age": 15}, {"user": None, "age": None}]
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


def _signature(tree: Any) -> None:
    """Read one from a stranger's model, and score rows by it."""
    Path("model/signature.json").write_bytes(json.dumps(tree).encode())
    list(Signature.read(LocalStore(Path("model"))).read_rows(ROWS))


INPUTS: dict[str, tuple[Sequence[Any], Callable[[Any], object]]] = {
    "--conf": (('{"model.lr": 1e-3}', '{"model": {"dim": 8}}', '{"model.layers": null, "a": [1, 2]}'), _overrides),
    "--where": (_CONDITIONS, lambda text: _list(where=[text])),
    "--sort": (("-loss", "lr", "metric.next.auc", "config.model.lr"), lambda text: _list(sort=[text])),
    "--columns": (("state", "lr", "metric.next.auc"), lambda text: _list(columns=[text])),
    "config text": ((dump_config(CONFIG), dump_config(RECIPE)), lambda text: parse_config(text, "config.json")),
    "config": ((CONFIG,), _load),
    "recipe": ((RECIPE,), _recipe),
    "experiment": ((EXPERIMENT,), _experiment),
    "signature": ((SIGNATURE,), _signature),
    "compression": (("zstd", "zstd:5", "lz4", "none"), Compression.parse),
    "type": (("list<item: list<item: int64>>", "decimal128(10, 2)", "timestamp[us, tz=UTC]"), parse_type),
}
