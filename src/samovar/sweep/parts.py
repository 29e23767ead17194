"""The directory of an experiment and its parts: each is one config and the result directory made from it. Runs nothing.

configs/0.json   the config of part 0, created once, never changed; its `cloned_from` names the parent and the change
0/               its result directory; remove it, and only this part runs again
queue.db  table.csv  metrics.png
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from samovar.config import dump_config, flatten, merge, parse_config, resolve_path
from samovar.config.identity import PLACE_KEYS, Parent, with_parent, without_parent
from samovar.config.places import Place
from samovar.errors import AlreadyExists, NotAResult
from samovar.results.directory import EXPERIMENT_CONFIGS as CONFIGS
from samovar.store import open_store, read_config_at
from samovar.sweep.document import Change, Experiment

QUEUE = "queue.db"
BASE = "base"
"""The parent of a part if the base config is written in the experiment file itself."""
_PATH_KEYS = {"brew": ("source",), "predict": ("source", "table"), "run": ("source", "table", "files")}


def read_base(experiment: Experiment, folder: Place) -> tuple[str | None, dict[str, Any]]:
    """The path of the base config, None if it is in the experiment file, and the config with the experiment's
    evaluation. Paths in a config are relative to its file, and become absolute."""
    if isinstance(experiment.base, str):
        path = resolve_path(experiment.base, folder, symlinks="follow")
        name, tree, home = str(path), read_config_at(path), path.parent
    else:
        name, tree, home = None, experiment.base, folder.resolve()
    placeless = {key: value for key, value in tree.items() if key not in PLACE_KEYS[experiment.kind]}
    base = make_paths_absolute(placeless, home, experiment.kind)
    return name, base if experiment.evaluation is None else merge(base, {"evaluation": experiment.evaluation})


def make_paths_absolute(tree: Mapping[str, Any], folder: Place, kind: str) -> dict[str, Any]:
    """Resolve every key that holds a path in a config of that kind; relative paths start at the folder."""
    if kind == "train":
        from samovar.training.request import resolve_paths  # here, because other kinds do not need training

        return resolve_paths(tree, folder)
    absolute = {key: _resolve(value, folder) if key in _PATH_KEYS[kind] else value for key, value in tree.items()}
    tables = tree.get("tables")
    if kind == "brew" and isinstance(tables, list):
        absolute["tables"] = [
            make_paths_absolute(each, folder, kind) if isinstance(each, dict) else each for each in tables
        ]
    return absolute


def _resolve(value: Any, folder: Place) -> Any:
    """A path, a list of paths, or a mapping of names to paths."""
    if isinstance(value, str):
        return str(resolve_path(value, folder))
    if isinstance(value, list):
        return [_resolve(each, folder) for each in value]
    if isinstance(value, dict):
        return {key: _resolve(each, folder) for key, each in value.items()}
    return value


@dataclass(frozen=True)
class Part:
    name: str
    """A number: what a part is says its config, not its name."""
    change: Change
    config: Place
    out: Place


class Parts:
    """The parts of one experiment directory."""

    def __init__(self, folder: Place) -> None:
        self.folder = folder
        self._store = open_store(folder)

    def check_place(self) -> None:
        """Refuse a folder that holds something other than an experiment."""
        found = list(self._store.names())
        if found and CONFIGS not in found:
            raise NotAResult(
                f"{self.folder}: not an experiment's directory: it holds {found[0]} but no {CONFIGS}/. "
                "Choose another --out"
            )

    def make(self, configs: Sequence[tuple[Change, Mapping[str, Any]]], parent: str | None) -> list[Part]:
        """The part of each config, given with the change that made it: the existing part, else a new one. Changes that
        give the same config are one part. No part is ever changed or removed."""
        numbers = self._numbers()
        made = [self._make_one(config, numbers, parent, change) for change, config in configs]
        return list({part.name: part for part in reversed(made)}.values())[::-1]

    def read_configs(self) -> dict[int, dict[str, Any]]:
        found = {}
        for entry in self._store.list(CONFIGS):
            name = entry.path.removeprefix(f"{CONFIGS}/").removesuffix(".json")
            if name.isdecimal():
                found[int(name)] = parse_config(self._store.read(entry.path).decode(), entry.path)
        return found

    def _make_one(self, config: Mapping[str, Any], numbers: dict[str, int], parent: str | None, change: Change) -> Part:
        clone = with_parent(config, Parent(parent or BASE, Path(parent or BASE).stem, flatten(merge({}, change))))
        while (number := numbers.get(_key(config))) is None:
            new = max(numbers.values(), default=-1) + 1
            try:
                self._store.create_if_absent(f"{CONFIGS}/{new}.json", dump_config(clone).encode())
                numbers[_key(config)] = new
            except AlreadyExists:
                numbers.update(self._numbers())  # another process made parts too
        return Part(str(number), change, self.folder / CONFIGS / f"{number}.json", self.folder / str(number))

    def _numbers(self) -> dict[str, int]:
        return {_key(config): number for number, config in self.read_configs().items()}


def _key(config: Mapping[str, Any]) -> str:
    return json.dumps(without_parent(config), sort_keys=True)


def choose_threads(known: Mapping[int, Mapping[str, Any]], num_workers: int) -> int:
    """Share the cores among the workers. An experiment that has parts keeps its number, because the number of threads
    is part of a result."""
    before = next((config["num_threads"] for config in known.values() if "num_threads" in config), None)
    return int(before) if before is not None else max(1, len(os.sched_getaffinity(0)) // max(1, num_workers))
