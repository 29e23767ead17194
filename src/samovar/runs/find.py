"""Results, configs, folders and patterns that a user names, found on disk by their files. Keeps no list of them."""

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
from samovar.runs.index import read_configs, require_answers
from samovar.runs.parallel import paused_gc
from samovar.store import LocalStore
from samovar.store.base import RESERVED

Kind = Literal["brew", "train", "predict", "run"]
KINDS: tuple[Kind, ...] = get_args(Kind)
_COMMANDS: dict[str, Kind] = {"model": "train", "table": "brew", "prediction": "predict"}
# Parts of a result, not results; `files` of a stage and `segments` of a table can be large trees.
_INNER_FOLDERS = frozenset({"snapshot", "evaluation", "logs", "model", "files", "segments", "manifest", EXTERNAL})


@dataclass(frozen=True)
class Target:
    """A config, with the result that it made if there is one."""

    name: str
    """As the user wrote it; numbered if the same thing is named twice."""
    path: Path
    config: Mapping[str, Any]
    directory: ResultDirectory | None
    """None for a config file."""


@paused_gc()
def find_targets(names: Iterable[str | Path]) -> list[Target]:
    """Find configs and results, in the order of the names.

    A pattern gives every config and result that matches it, sorted. A folder that is not a result gives all results
    below it.

    Raises:
        BadInput: A pattern matches nothing.
    """
    paths = [path for name in map(str, names) for each in _expand(name) for path in _results_of(Path(each))]
    folders = [path for path in paths if path.is_dir()]
    configs = dict(zip(folders, require_answers(read_configs(folders)), strict=True))
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
    """Find the results at or below each folder or pattern, each result once.

    Raises:
        BadInput: There is no result at or below one of the names.
    """
    found: dict[Path, None] = {}
    for name in map(str, names):
        paths = [name] if Path(name).exists() else sorted(glob.glob(name, recursive=True))
        results = [result for path in paths for result in find_results(path)]
        if not results:
            raise BadInput(f"{name}: no result directory at or below this path")
        found |= dict.fromkeys(results)
    return list(found)


def find_results(folder: Path | str) -> Iterator[Path]:
    """The folder itself if it is a result, and all results below it, sorted; links are not followed."""
    entries = _entries(folder)
    is_result_folder = {CONFIG, RESERVED} <= entries.keys()
    if is_result_folder:
        yield Path(folder)
    for name in sorted(entries):
        if name.startswith(".") or (is_result_folder and (name in _INNER_FOLDERS or name.startswith("all_files"))):
            continue
        if entries[name].is_dir(follow_symlinks=False):
            yield from find_results(entries[name].path)


def is_result(folder: Path) -> bool:
    return (folder / CONFIG).is_file() and (folder / RESERVED).is_dir()


def command_of(kind: str) -> Kind:
    """The command that makes results of this kind of lineage; a kind that is not ours is a user's own stage."""
    return _COMMANDS.get(kind, "run")


def _entries(folder: Path | str) -> dict[str, os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return {entry.name: entry for entry in found}
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return {}  # removed since it was listed, or not readable


def _expand(name: str) -> list[str]:
    if Path(name).exists() or not glob.has_magic(name):
        return [name]
    paths = [path for path in sorted(glob.glob(name, recursive=True)) if _is_target(Path(path))]
    if not paths:
        raise BadInput(f"{name}: no result directory and no config matches this pattern")
    return paths


def _is_target(path: Path) -> bool:
    if path.is_dir():
        return is_result(path)
    return path.suffix == ".json" and not any(map(is_result, path.parents))  # a result's own files are not configs


def _results_of(path: Path) -> list[Path]:
    """The results below a folder; a file or a result is returned as it is."""
    if not path.is_dir() or is_result(path):
        return [path]
    return list(find_results(path)) or [path]  # if there is none, reading its config raises the error
