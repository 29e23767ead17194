"""What a user names when many results are meant: result directories, config files, or patterns of both."""

import glob
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from samovar.config import read_config
from samovar.errors import BadInput, NotOurs
from samovar.results import ResultDirectory, open_directory


@dataclass(frozen=True)
class Target:
    """A config, with the result that it made if there is one."""

    name: str
    """As the user wrote it; made unique by a number where one thing is named twice."""
    path: Path
    config: Mapping[str, Any]
    directory: ResultDirectory | None
    """None: a config file."""


def find_targets(names: Iterable[str | Path]) -> list[Target]:
    """In the order of the names. A pattern gives what is a config or a result, sorted; finding none is an error."""
    found: dict[str, Target] = {}
    for written in map(str, names):
        for target in map(_open, _expand(written)):
            name, number = target.name, 2
            while name in found:
                name, number = f"{target.name} ({number})", number + 1
            found[name] = Target(name, target.path, target.config, target.directory)
    return list(found.values())


def find_directories(names: Iterable[str | Path]) -> list[ResultDirectory]:
    """Only the result directories, also those whose config cannot be read any more."""
    written = [str(name) for name in names]
    found = [path for name in written for path in _expand(name) if Path(path).is_dir() or not Path(path).exists()]
    if not found:
        raise BadInput(f"{', '.join(written)}: fits no result directory; expected at least one: check the names")
    return [open_directory(path) for path in found]


def _expand(written: str) -> list[str]:
    if Path(written).exists() or not glob.has_magic(written):
        return [written]
    paths = [path for path in sorted(glob.glob(written, recursive=True)) if _is_target(Path(path))]
    if not paths:
        raise BadInput(f"{written}: fits no result directory and no config; expected at least one: check the pattern")
    return paths


def _is_target(path: Path) -> bool:
    if not path.is_dir():
        return path.suffix == ".json"
    try:
        open_directory(path)
    except NotOurs:
        return False
    return True


def _open(written: str) -> Target:
    path = Path(written)
    if not path.is_dir():
        return Target(written, path, read_config(path), None)
    directory = open_directory(path)
    return Target(written, path, directory.config, directory)
