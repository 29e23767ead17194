"""What a user names when many results are meant: result directories, config files, or patterns of both."""

import glob
from collections.abc import Iterable, Iterator, Mapping
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
        for target in _expand(written):
            name, number = target.name, 2
            while name in found:
                name, number = f"{target.name} ({number})", number + 1
            found[name] = Target(name, target.path, target.config, target.directory)
    return list(found.values())


def _expand(written: str) -> Iterator[Target]:
    if Path(written).exists() or not glob.has_magic(written):
        yield _open(written)
        return
    targets = [_open(path) for path in sorted(glob.glob(written, recursive=True)) if _is_target(Path(path))]
    if not targets:
        raise BadInput(f"{written}: fits no result directory and no config; expected at least one: check the pattern")
    yield from targets


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
