"""What is read of each of many runs: its config, its facts, the last values of its metrics. Looks at nothing twice that
did not change."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from samovar.errors import SamovarError
from samovar.experiments.index import Reading, read_many
from samovar.experiments.measures import LOG, read_last
from samovar.results import ResultDirectory, open_directory
from samovar.results.directory import CONFIG
from samovar.results.lineage import FILE as LINEAGE
from samovar.results.status import FILE as STATUS
from samovar.store import LocalStore
from samovar.store.paths import RESERVED

Answer = dict[str, Any]
Reply = Answer | SamovarError
_FINISHED = "finished"


def read_configs(folders: Sequence[Path]) -> list[Reply]:
    return read_many(_CONFIGS, folders)


def read_kinds(folders: Sequence[Path]) -> list[Reply]:
    """`kind`, as lineage names it."""
    return read_many(_KINDS, folders)


def read_facts(folders: Sequence[Path]) -> list[Reply]:
    """`state` and `kind`, and what its status says: `heartbeat`, `position`, `error`, each of them None if absent."""
    return read_many(_FACTS, folders)


def read_metrics(folders: Sequence[Path]) -> list[Reply]:
    """The last value of each metric."""
    return read_many(_METRICS, folders)


def answers(replies: Iterable[Reply]) -> list[Answer]:
    """All of them; the first error among them is raised."""
    found = []
    for reply in replies:
        if isinstance(reply, SamovarError):
            raise reply
        found.append(reply)
    return found


def _read_config(folder: Path) -> Answer:
    return open_directory(folder).config


def _read_kind(folder: Path) -> Answer:
    return {"kind": ResultDirectory(LocalStore(folder)).lineage.kind}


def _read_facts(folder: Path) -> Answer:
    directory = ResultDirectory(LocalStore(folder))
    status, state = directory.status, directory.condition
    if status is None:
        return {"state": state, "kind": directory.lineage.kind, "heartbeat": None, "position": None, "error": None}
    error = None if status.error is None else f"{status.error['type']}: {status.error['message']}"
    return {
        "state": state,
        "kind": status.kind,
        "heartbeat": status.heartbeat,
        "position": status.position,
        "error": error,
    }


def _read_metrics(folder: Path) -> Answer:
    return read_last(ResultDirectory(LocalStore(folder)))


_CONFIGS = Reading("configs-1", (CONFIG,), _read_config)
_KINDS = Reading("kinds-1", (LINEAGE,), _read_kind)
_FACTS = Reading(
    "facts-1",
    (STATUS, f"{RESERVED}/attributes"),
    _read_facts,
    lambda facts: facts["state"] == _FINISHED,  # whether another one lives is not to be seen in these files
)
_METRICS = Reading("metrics-1", (f"logs/{LOG}", f"logs/{Path(LOG).stem}"), _read_metrics)  # whole, and in segments
