"""Whether a script's defaults changed since an earlier run of the same config. Reads directories, runs nothing.

The earlier run is the directory itself when it resumes, the original when it is replayed, and otherwise the newest
neighbour (a directory beside it, at most 100 are read) with the same kind, config and inputs.
"""

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from samovar.config import ChangedDefault, Ledger, changed_defaults, compare
from samovar.config.places import Place, Url
from samovar.errors import Conflict, SamovarError
from samovar.results import ResultDirectory, ResultPlan, open_directory
from samovar.results.directory import CONFIG
from samovar.store import open_store

MAX_NEIGHBOURS = 100


@dataclass(frozen=True)
class EarlierRun:
    """A run of the same config, and the parameters that its code read."""

    name: str
    ledger: Ledger

    @classmethod
    def of(cls, directory: ResultDirectory) -> Self | None:
        """None if the run was killed before its code read anything."""
        ledger = directory.ledger
        return cls(directory.name, ledger) if ledger is not None else None


def find_earlier_run(plan: ResultPlan, out: Place, replayed: ResultDirectory | None = None) -> EarlierRun | None:
    """Find the run whose defaults a new directory is compared with."""
    if replayed is not None:
        return EarlierRun.of(replayed)
    for path in _list_neighbours(out.resolve()):
        try:
            neighbour = open_directory(path)
            if _is_same_run(neighbour, plan) and (earlier := EarlierRun.of(neighbour)):
                return earlier
        except SamovarError:  # a broken neighbour must not stop this run
            continue
    return None


def check_defaults(earlier: EarlierRun | None, ledger: Ledger, is_accepted: bool) -> list[str]:
    """Compare the defaults that two runs read; see `check_changes`."""
    return [] if earlier is None else check_changes(earlier, changed_defaults(earlier.ledger, ledger), is_accepted)


def check_changes(earlier: EarlierRun, changes: Iterable[ChangedDefault], is_accepted: bool) -> list[str]:
    """Return the changed defaults as notes if the user accepts them, else raise `Conflict`."""
    lines = [f"the default of {change.path} changed: {change.old} → {change.new}" for change in changes]
    if lines and not is_accepted:
        listed = "".join(f"\n  {line}" for line in lines)
        raise Conflict(
            f"{earlier.name} ran the same config with other defaults. Write the old values into the config, restore "
            f"the old defaults, or accept the new ones with --accept-defaults{listed}"
        )
    return lines


def _list_neighbours(out: Place) -> Sequence[Place]:
    """Directories beside `out`, newest first; those of an object store by name, the last first."""
    if isinstance(out, Url):
        names = [name for name, is_folder in open_store(out.parent).names().items() if is_folder and name != out.name]
        return [out.parent / name for name in reversed(names)][:MAX_NEIGHBOURS]
    if not out.parent.is_dir():
        return []
    times: dict[Path, int] = {}
    for entry in os.scandir(out.parent):
        path = Path(entry.path)
        if entry.is_dir() and path != out:
            with suppress(OSError):  # no result, or removed meanwhile
                times[path] = (path / CONFIG).stat().st_mtime_ns
    return sorted(times, key=lambda path: times[path], reverse=True)[:MAX_NEIGHBOURS]


def _is_same_run(neighbour: ResultDirectory, plan: ResultPlan) -> bool:
    if neighbour.lineage.kind != plan.kind:
        return False
    old, new = neighbour.lineage.inputs, plan.lineage.inputs
    return not compare(neighbour.config, plan.config, old, new, plan.kind).conflicts
