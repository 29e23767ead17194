"""What a user names when many results are meant: result directories, config files, folders and patterns of them."""

import glob
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from samovar.config import read_config
from samovar.errors import BadInput
from samovar.experiments.scan import find_results, is_result
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
    """In the order of the names. A pattern gives what is a config or a result, sorted; a folder that is no result
    gives all results below it. Finding none is an error."""
    found: dict[str, Target] = {}
    for written in map(str, names):
        for target in chain.from_iterable(map(_open, _expand(written))):
            name, number = target.name, 2
            while name in found:
                name, number = f"{target.name} ({number})", number + 1
            found[name] = Target(name, target.path, target.config, target.directory)
    return list(found.values())


def find_directories(names: Iterable[str | Path]) -> list[Path]:
    """Only results, each once: what is named, and all that lie below it."""
    found: dict[Path, None] = {}
    for written in map(str, names):
        paths = [written] if Path(written).exists() else sorted(glob.glob(written, recursive=True))
        results = [result for path in paths for result in find_results(path)]
        if not results:
            raise BadInput(f"{written}: no result directory there or below; expected at least one: check the path")
        found |= dict.fromkeys(results)
    return list(found)


def _expand(written: str) -> list[str]:
    if Path(written).exists() or not glob.has_magic(written):
        return [written]
    paths = [path for path in sorted(glob.glob(written, recursive=True)) if _is_target(Path(path))]
    if not paths:
        raise BadInput(f"{written}: fits no result directory and no config; expected at least one: check the pattern")
    return paths


def _is_target(path: Path) -> bool:
    if path.is_dir():
        return is_result(path)
    return path.suffix == ".json" and not any(map(is_result, path.parents))  # a result's own files are no configs


def _open(written: str) -> Iterator[Target]:
    path = Path(written)
    if not path.is_dir():
        yield Target(written, path, read_config(path), None)
        return
    results = [path] if is_result(path) else list(find_results(path))
    for found in results or [path]:  # with none, opening the folder says what is wrong
        directory = open_directory(found)
        yield Target(str(found), found, directory.config, directory)
