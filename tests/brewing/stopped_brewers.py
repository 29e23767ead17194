"""The process behind test_stopped_brewers.py: forks brewers that stop themselves before each disk operation, lets
another brewer take over and commit, wakes them, and checks that nothing that was committed has changed.

It uses no engine before it forks, so that a child can start threads."""

import json
import os
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb  # noqa: F401  # imported once, not in every child
import pandas  # noqa: F401  # the same

from samovar.brewing.brew import load_recipe, make_table
from samovar.errors import SamovarError
from samovar.provenance import audit
from samovar.results import ResultDirectory
from samovar.store import LocalStore, local
from samovar.store.heartbeat import Clock
from samovar.store.lease import LEASE
from samovar.tables.manifest import list_versions, table_inventory
from samovar.testing.disks import WatchedDisk

RECIPE: dict[str, Any] = {"time_field": "time", "categorical_factors": ["id"], "keys": ["time"]}
NOON = 1609502400


class StoppingDisk(WatchedDisk):
    """Stops its process before the n-th operation."""

    def __init__(self, number: int) -> None:
        self._left = number

    def before(self, operation: str, arguments: tuple[Any, ...]) -> None:
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGSTOP)


def brew(folder: Path, source: str, batch_size: int, append: bool) -> None:
    recipe = {**RECIPE, "source": source, "batch_size": batch_size}
    make_table(load_recipe(recipe, "recipe.json", folder), folder / "table", append=append, allow_gap=append)


def fork(act: Callable[[], None]) -> int:
    """Start a child, which ends with 0 if `act` returns, 3 on an error of Samovar, and 1 otherwise."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            act()
            code = 0
        except SamovarError as error:
            print(error, file=sys.stderr)
            code = 3
        except BaseException:
            traceback.print_exc()
        os._exit(code)
    return child


def wait(child: int) -> int | None:
    """The exit code of a child; None if it has stopped itself."""
    status = os.waitpid(child, os.WUNTRACED)[1]
    return None if os.WIFSTOPPED(status) else os.waitstatus_to_exitcode(status)


def late(act: Callable[[], None]) -> None:
    """Act a while later, when a stopped process has been silent for too long."""
    with patch.object(local, "Clock", lambda: Clock(steady=lambda: time.monotonic() + 100)):
        act()


def committed(folder: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    """What the attributes name, directly or not, and the bytes."""
    directory = ResultDirectory(LocalStore(folder / "table"))
    store = directory.store
    values = {key: value for key, value in store.attributes().values.items() if key != LEASE}
    paths = list(table_inventory(store)) if list_versions(store) else []
    if directory.is_finished:
        paths += [*directory.inventory(), "inventory.json"]
    return values, {path: store.read(path) for path in paths}


def stop_everywhere(folder: Path, append: bool) -> dict[str, int]:
    stopped = taken_over = 0
    template = folder / "template"
    while True:
        place = folder / "place"
        shutil.copytree(template, place)

        def first(place: Path = place, number: int = stopped + 1) -> None:
            with patch.object(local, "Disk", lambda: StoppingDisk(number)):
                brew(place, "first.jsonl", 2, append)

        child = fork(first)
        if wait(child) is not None:
            return {"stopped": stopped, "taken_over": taken_over}
        stopped += 1
        # Other rows are another config, which is accepted as long as the first brewer has made nothing.
        attempts = [(place, source, 2, append) for source in ("second.jsonl", *(() if append else ("first.jsonl",)))]
        codes = [wait(fork(partial(late, partial(brew, *attempt)))) for attempt in attempts]
        assert 1 not in codes, f"operation {stopped}"
        taken_over += 0 in codes
        values, before = committed(place)
        os.kill(child, signal.SIGCONT)
        assert wait(child) in (0, 3), f"operation {stopped}"
        new_values, after = committed(place)
        versions = values.pop("versions", [])
        assert new_values.pop("versions", [])[: len(versions)] == versions, f"operation {stopped}"
        assert not values or new_values == values, f"operation {stopped}"
        changed = [path for path in before if after.get(path) != before[path]]
        assert not changed, f"operation {stopped}: {changed}"
        assert list_versions(LocalStore(place / "table")), f"operation {stopped}: no table"
        found = audit(place / "table").differences
        assert not found, f"operation {stopped}: {found}"
        shutil.rmtree(place)


def prepare(folder: Path, append: bool) -> None:
    place = folder / "template"
    place.mkdir()
    for name, hour, count in (("old", 0, 4), ("first", 1, 6), ("second", 2, 9)):
        rows = [{"time": NOON + 3600 * hour + number, "id": number} for number in range(count)]
        (place / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    if append:
        assert wait(fork(lambda: brew(place, "old.jsonl", 2, True))) == 0


if __name__ == "__main__":
    is_append = sys.argv[2] == "append"
    prepare(Path(sys.argv[1]), is_append)
    print(json.dumps(stop_everywhere(Path(sys.argv[1]), is_append)))
