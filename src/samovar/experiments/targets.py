"""What a user names when many results are meant: result directories, config files, folders and patterns of them."""

import glob
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from samovar.config import read_config
from samovar.errors import BadInput
from samovar.experiments.collector import collector_at_rest
from samovar.experiments.readings import answers, read_configs
from samovar.experiments.scan import find_results, is_result
from samovar.results import ResultDirectory
from samovar.store import LocalStore


@dataclass(frozen=True)
class Target:
    """A config, with the result that it made if there is one."""

    name: str
    """As the user wrote it; made unique by a number where one thing is named twice."""
    path: Path
    config: Mapping[str, Any]
    directory: ResultDirectory | None
    """None: a config file."""


@collector_at_rest()
def find_targets(names: Iterable[str | Path]) -> list[Target]:
    """In the order of the names. A pattern gives what is a config or a result, sorted; a folder that is no result
    gives all results below it. Finding none is an error."""
    paths = [path for written in map(str, names) for each in _expand(written) for path in _below(Path(each))]
    folders = [path for path in paths if path.is_dir()]
    configs = dict(zip(folders, answers(read_configs(folders)), strict=True))
    found: dict[str, Target] = {}
    for path in paths:
        name, number = str(path), 2
        while name in found:
            name, number = f"{path} ({number})", number + 1
        if path in configs:
            found[name] = Target(name, path, configs[path], ResultDirectory(LocalStore(path)))
        else:
            found[name] = Target(name, path, read_config(path), None)
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


def _below(path: Path) -> list[Path]:
    """The results that a folder stands for; a file stands for itself."""
    if not path.is_dir() or is_result(path):
        return [path]
    return list(find_results(path)) or [path]  # with none, reading its config says what is wrong
