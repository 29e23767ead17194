"""Results, configs, folders and patterns that a user names, found on disk by their files. Keeps no list of them."""

import glob
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from samovar.config.places import PathLike, Place, Url, as_place, suggest_path
from samovar.errors import BadInput
from samovar.results import ResultDirectory
from samovar.results.directory import CONFIG, EXTERNAL
from samovar.runs.index import read_configs, require_answers
from samovar.runs.parallel import paused_gc
from samovar.store import match_folders, open_store, read_config_at
from samovar.store.base import RESERVED

Kind = Literal["brew", "train", "predict", "run"]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""The commands that make results."""
_COMMANDS: dict[str, Kind] = {"model": "train", "table": "brew", "prediction": "predict"}
# Parts of a result, not results; `files` of a stage and `segments` of a table can be large trees.
_INNER_FOLDERS = frozenset({"snapshot", "evaluation", "logs", "model", "files", "segments", "manifest", EXTERNAL})


@dataclass(frozen=True)
class Target:
    """A config, with the result that it made if there is one.

    Attributes:
        name: As the user wrote it; numbered if the same thing is named twice.
        path: The path or URL of the config file or the result directory.
        config: The config.
        directory: The result; None for a config file.

    Example:
        >>> print(*(target.name for target in find_targets("models/*")))
        models/click_1 models/click_2
    """

    name: str
    path: Place
    config: Mapping[str, Any]
    directory: ResultDirectory | None


Named: TypeAlias = str | Path | Url | Target
"""What a user names: a result directory, a config, a folder of results or a glob pattern; or what was found there."""


@paused_gc()
def find_targets(names: Named | Iterable[Named]) -> list[Target]:
    """Find configs and results, in the order of the names.

    Args:
        names: A name, or several. A pattern gives every config and result that matches it, sorted. A folder that is not
            a result gives all results below it.

    Returns:
        One target per config and result. What is named twice is there twice.

    Raises:
        BadInput: A name does not exist, or a pattern matches nothing.

    Example:
        >>> for target in find_targets("models/*"):
        ...     print(target.name, target.config["model"])
        models/click_1 {'lr': 0.1}
        models/click_2 {'lr': 0.2}
    """
    found: dict[str, Target] = {}
    paths: list[Place | Target] = []
    for named in list_names(names):
        if isinstance(named, Target):
            paths.append(named)
        else:
            paths += [path for each in _expand(str(named)) for path in _results_of(each)]
    folders = [path for path in paths if isinstance(path, Url) or (isinstance(path, Path) and path.is_dir())]
    configs = dict(zip(folders, require_answers(read_configs(folders)), strict=True))
    for path in paths:
        if isinstance(path, Target):
            target = path
        elif path in configs:
            target = Target(str(path), path, configs[path], ResultDirectory(open_store(path)))
        else:
            target = Target(str(path), path, read_config_at(path), None)
        name, number = target.name, 2
        while name in found:
            name, number = f"{target.name} ({number})", number + 1
        found[name] = target if name == target.name else replace(target, name=name)
    return list(found.values())


def find_target(name: Named) -> Target:
    """Find one config or result.

    Raises:
        BadInput: There is none, or there are several.
    """
    targets = find_targets(name)
    if len(targets) > 1:
        raise BadInput(f"{name} holds {len(targets)} results; name one of them")
    return targets[0]


def list_names(names: Named | PathLike | Iterable[Named | PathLike]) -> list[Named]:
    """One name, or several, as a list."""
    if isinstance(names, str | Path | Url | Target):
        return [names]
    if not isinstance(names, Iterable) or hasattr(names, "columns"):  # a DataFrame would give its columns
        return [as_place(names, "a result")]
    return [each if isinstance(each, Target) else as_place(each, "a result") for each in names]


def find_directories(names: PathLike | Iterable[PathLike]) -> list[Place]:
    """Find result directories.

    Args:
        names: Folders and glob patterns. Each gives the results at or below it, sorted.

    Returns:
        The path or URL of each result, once.

    Raises:
        BadInput: There is no result at or below one of the names.

    Example:
        >>> print(*find_directories(["models", "tables"]))
        models/click_1 models/click_2 tables/clicks
    """
    found: dict[Place, None] = {}
    for name in map(str, list_names(names)):
        paths = _match(name)
        results = [result for path in paths for result in find_results(path)]
        if not results:
            hint = "" if paths else suggest_path(as_place(name), is_folder=True)
            raise BadInput(f"{name}: no result directory at or below this path{hint}")
        found |= dict.fromkeys(results)
    return list(found)


def find_results(folder: PathLike) -> Iterator[Place]:
    """The folder itself if it is a result, and all results below it, sorted; links are not followed."""
    return (place for place, is_here in find_folders(folder) if is_here)


def find_folders(folder: PathLike) -> Iterator[tuple[Place, bool]]:
    """Every folder in which there may be results, and whether it is one itself."""
    place = as_place(folder)
    entries = _entries(place)
    is_here = _has_result(place, entries)
    yield place, is_here
    for name in sorted(entries):
        if name.startswith(".") or (is_here and (name in _INNER_FOLDERS or name.startswith("all_files"))):
            continue
        if entries[name]:
            yield from find_folders(place / name)


def is_result(folder: Place) -> bool:
    return _has_result(folder, _entries(folder))


def _has_result(folder: Place, entries: Mapping[str, bool]) -> bool:
    """An object store has no folders that could be left behind empty, so there the config says enough."""
    return CONFIG in entries and (isinstance(folder, Url) or RESERVED in entries)


def command_of(kind: str) -> Kind:
    """The command that makes results of this kind of lineage; a kind that is not ours is a user's own stage."""
    return _COMMANDS.get(kind, "run")


def _entries(folder: Place) -> Mapping[str, bool]:
    """The names in a folder, and whether each is a folder itself."""
    if isinstance(folder, Url):
        return open_store(folder).names()
    try:
        with os.scandir(folder) as found:
            return {entry.name: entry.is_dir(follow_symlinks=False) for entry in found}
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return {}  # removed since it was listed, or not readable


def _match(name: str) -> list[Place]:
    """What a name or a pattern stands for; nothing if there is nothing."""
    place = as_place(name)
    if isinstance(place, Url):
        return list(match_folders(place))
    return [place] if os.path.exists(name) else [Path(path) for path in sorted(glob.glob(name, recursive=True))]


def _expand(name: str) -> list[Place]:
    found = _match(name)
    if found and found[0] == as_place(name):
        return found
    if not glob.has_magic(name):
        raise BadInput(f"{name}: no such config or result directory{suggest_path(as_place(name), is_folder=None)}")
    paths = [path for path in found if _is_target(path)]
    if not paths:
        raise BadInput(f"{name}: no result directory and no config matches this pattern")
    return paths


def _is_target(path: Place) -> bool:
    if isinstance(path, Url) or path.is_dir():
        return is_result(path)
    return path.suffix == ".json" and not any(map(is_result, path.parents))  # a result's own files are not configs


def _results_of(path: Place) -> list[Place]:
    """The results below a folder; a file or a result is returned as it is."""
    if (isinstance(path, Path) and not path.is_dir()) or is_result(path):
        return [path]
    return list(find_results(path)) or [path]  # if there is none, reading its config raises the error
