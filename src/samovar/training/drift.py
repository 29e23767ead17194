"""Defaults that the code changed since an earlier run of the same config. Looks at directories, and runs nothing.

An earlier run is the directory itself when it goes on, the one that is replayed, or else the newest of its neighbours
(the directories beside it, a hundred at most) that has the same kind, config and inputs.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from samovar.config import ChangedDefault, Ledger, changed_defaults, compare
from samovar.errors import Conflict, SamovarError
from samovar.results import ResultDirectory, ResultPlan, open_directory
from samovar.results.directory import CONFIG

MAX_NEIGHBOURS = 100


@dataclass(frozen=True)
class Earlier:
    """A run of the same config, and what its code read."""

    name: str
    ledger: Ledger

    @classmethod
    def of(cls, directory: ResultDirectory | None) -> Self | None:
        ledger = directory.ledger if directory is not None else None
        return cls(directory.name, ledger) if directory is not None and ledger is not None else None


def find_earlier(plan: ResultPlan, out: Path, replayed: ResultDirectory | None = None) -> Earlier | None:
    """For a directory that is about to be made."""
    if replayed is not None:
        return Earlier.of(replayed)
    for path in _newest_first(out.resolve()):
        try:
            neighbour = open_directory(path)
            if _is_same_run(neighbour, plan) and (earlier := Earlier.of(neighbour)):
                return earlier
        except SamovarError:  # a broken neighbour says nothing, and is not this run's trouble
            continue
    return None


def _newest_first(out: Path) -> Sequence[Path]:
    if not out.parent.is_dir():
        return []
    folders = [Path(item.path) for item in os.scandir(out.parent) if item.is_dir() and Path(item.path) != out]
    times = {folder: stat.st_mtime_ns for folder in folders for stat in _stat(folder / CONFIG)}
    return sorted(times, key=lambda folder: times[folder], reverse=True)[:MAX_NEIGHBOURS]


def _stat(path: Path) -> Iterator[os.stat_result]:
    try:
        yield path.stat()
    except OSError:
        return


def _is_same_run(neighbour: ResultDirectory, plan: ResultPlan) -> bool:
    if neighbour.lineage.kind != plan.kind:
        return False
    old, new = neighbour.lineage.inputs, plan.lineage.inputs
    return not compare(neighbour.config, plan.config, old, new, plan.kind).conflicts


def judge_defaults(earlier: Earlier | None, ledger: Ledger, is_accepted: bool) -> list[str]:
    """Nothing, or, if the user accepts them, the changes as notes; else `Conflict`."""
    return [] if earlier is None else judge_changes(earlier, changed_defaults(earlier.ledger, ledger), is_accepted)


def judge_changes(earlier: Earlier, changes: Iterable[ChangedDefault], is_accepted: bool) -> list[str]:
    """The same for changes that were found in another way."""
    lines = [f"the default of {change.path} changed: {change.old} → {change.new}" for change in changes]
    if lines and not is_accepted:
        listed = "".join(f"\n  {line}" for line in lines)
        raise Conflict(
            f"{earlier.name}: ran the same config with other defaults in its code; expected an old config to give its "
            f"old result: write the old values into the config, bring the old defaults back, or go on with "
            f"--accept-defaults{listed}"
        )
    return lines
