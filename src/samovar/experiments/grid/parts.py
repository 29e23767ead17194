"""The directory of an experiment, and its parts: configs and the directories that are made from them.

configs/0.json          the config of part 0, created once, never changed
configs/0.change.json   its parent, and how it differs
0/                      its result directory; remove it, and just this part is done again
queue.db  table.csv  metrics.png
"""

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from samovar.config import dump_config, merge, parse_config
from samovar.errors import AlreadyExists, NotOurs
from samovar.experiments.grid.samples import Change
from samovar.store import LocalStore

CONFIGS = "configs"
QUEUE = "queue.db"


@dataclass(frozen=True)
class Part:
    name: str
    """A neutral one: what a part is stands in its config, not in its name."""
    change: Change
    config: Path
    out: Path


class Parts:
    """The parts of one experiment directory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._store = LocalStore(folder)

    def check_place(self) -> None:
        """An experiment does not spread in a folder that holds other things."""
        found = sorted(path.name for path in self.folder.iterdir()) if self.folder.is_dir() else []
        if found and CONFIGS not in found:
            raise NotOurs(
                f"{self.folder}: holds {found[0]} and no {CONFIGS}/; expected an experiment's directory, or none: "
                "choose another --out"
            )

    def make(self, base: Mapping[str, Any], parent: str | None, changes: Sequence[Change]) -> list[Part]:
        """The part of each change: the one that is there, else a new one. None is ever changed or removed."""
        numbers = self._numbers()
        return [self._make_one(merge(base, change), numbers, parent, change) for change in changes]

    def read_configs(self) -> dict[int, dict[str, Any]]:
        found = {}
        for entry in self._store.list(CONFIGS):
            name = entry.path.removeprefix(f"{CONFIGS}/").removesuffix(".json")
            if name.isdecimal():
                found[int(name)] = parse_config(self._store.read(entry.path).decode(), entry.path)
        return found

    def _make_one(self, config: dict[str, Any], numbers: dict[str, int], parent: str | None, change: Change) -> Part:
        while (number := numbers.get(_key(config))) is None:
            new = max(numbers.values(), default=-1) + 1
            try:
                self._store.create_if_absent(f"{CONFIGS}/{new}.json", dump_config(config).encode())
                numbers[_key(config)] = new
            except AlreadyExists:
                numbers.update(self._numbers())  # another process makes parts too
        return self._part(number, parent, change)

    def _numbers(self) -> dict[str, int]:
        return {_key(config): number for number, config in self.read_configs().items()}

    def _part(self, number: int, parent: str | None, change: Change) -> Part:
        record = f"{CONFIGS}/{number}.change.json"
        if self._store.size(record) is None:
            text = json.dumps({"parent": parent, "change": change}, indent=2, ensure_ascii=False)
            with suppress(AlreadyExists):  # another process may have made the same part
                self._store.create_if_absent(record, text.encode() + b"\n")
        config = self.folder / CONFIGS / f"{number}.json"
        return Part(str(number), change, config, self.folder / str(number))


def _key(config: Mapping[str, Any]) -> str:
    return json.dumps(config, sort_keys=True)


def choose_threads(known: Mapping[int, Mapping[str, Any]], num_workers: int) -> int:
    """So that all workers together use the machine once; as before in an experiment that has parts, because the
    number of threads is part of a result."""
    before = next((config["num_threads"] for config in known.values() if "num_threads" in config), None)
    return int(before) if before is not None else max(1, len(os.sched_getaffinity(0)) // max(1, num_workers))
