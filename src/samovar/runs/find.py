"""Which command makes a result. Runs none.

Result directories below a folder, found by their files: no list of them is kept.

What a user names when many results are meant: result directories, config files, folders and patterns of them.
"""

import glob
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from samovar.config import read_config
from samovar.errors import BadInput
from samovar.results import ResultDirectory
from samovar.results.directory import CONFIG, EXTERNAL
from samovar.runs.index import paused_gc
from samovar.runs.summary import answers, read_configs
from samovar.store import LocalStore
from samovar.store.base import RESERVED

Kind = Literal["brew", "train", "predict", "run"]
KINDS: tuple[Kind, ...] = get_args(Kind)
_COMMANDS: dict[str, Kind] = {"model": "train", "table": "brew", "prediction": "predict"}


def command_of(kind: str) -> Kind:
    """By the kind that lineage names; all that is not ours is a stage of the user's own."""
    return _COMMANDS.get(kind, "run")


# What a result directory has inside is no other result.
_INNER = frozenset({"snapshot", "evaluation", "logs", "model", EXTERNAL})


def is_result(folder: Path) -> bool:
    return (folder / CONFIG).is_file() and (folder / RESERVED).is_dir()


def find_results(folder: Path | str) -> Iterator[Path]:
    """The folder itself if it is a result, and all that lie below it, sorted; links are not followed."""
    entries = _entries(folder)
    is_inside = {CONFIG, RESERVED} <= entries.keys()
    if is_inside:
        yield Path(folder)
    for name in sorted(entries):
        if name.startswith(".") or (is_inside and (name in _INNER or name.startswith("all_files"))):
            continue
        if entries[name].is_dir(follow_symlinks=False):
            yield from find_results(entries[name].path)


def _entries(folder: Path | str) -> dict[str, os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return {entry.name: entry for entry in found}
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return {}  # gone since it was listed, or not ours to look into


@dataclass(frozen=True)
class Target:
    """A config, with the result that it made if there is one."""

    name: str
    """As the user wrote it; made unique by a number where one thing is named twice."""
    path: Path
    config: Mapping[str, Any]
    directory: ResultDirectory | None
    """None: a config file."""


@paused_gc()
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
