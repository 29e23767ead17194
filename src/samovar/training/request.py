"""What the user asks for, put together from files and options. Runs nothing.

The effective config: what the user gave, with paths made whole and what the machine chose written down.
"""

import copy
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from samovar.config import merge, parse_override, read_config, resolve_path
from samovar.config.identity import DIRECTORY_KEYS, named_place
from samovar.results import ResultDirectory
from samovar.store.disk import Disk
from samovar.training.script import Script, parse_file_options, read_script


def make_effective(tree: Mapping[str, Any], folder: Path, out: Path, directory: ResultDirectory) -> dict[str, Any]:
    """What goes into model_config.json, and can be run again as it stands, from anywhere."""
    given = resolve_paths(tree, folder)
    for key in ("model_yt_dir", "out"):
        given.pop(key, None)
    effective: dict[str, Any] = {
        key: value for key, value in given.items() if value is not None
    }  # null drops a section
    effective["model_dir"] = str(out.resolve())
    choose_threads(effective, directory)
    return effective


def choose_threads(effective: dict[str, Any], directory: ResultDirectory) -> None:
    """Write down how many threads torch is to use, if the user did not: as the directory was begun, or all cores."""
    if effective.get("num_threads") is None:
        known = directory.config.get("num_threads") if directory.is_created else None
        effective["num_threads"] = known or max(1, len(os.sched_getaffinity(0)))


def resolve_paths(tree: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """A copy in which every path to a table or a model is whole; relative ones begin at the folder."""
    whole = copy.deepcopy(dict(tree))
    _resolve(whole, "init_from", folder)
    evaluation = whole.get("evaluation")
    confs = evaluation.get("eval_confs") if isinstance(evaluation, dict) else None
    for section in [whole.get("train_data"), *(confs if isinstance(confs, list) else [])]:
        _resolve_tables(section, folder)
    return whole


def _resolve_tables(section: Any, folder: Path) -> None:
    if not isinstance(section, dict):
        return  # the schema will say what is wrong
    _resolve(section, "table", folder)
    merged = section.get("merge_tables")
    tables = merged.get("tables") if isinstance(merged, dict) else None
    for entry in tables if isinstance(tables, list) else []:
        if isinstance(entry, dict):
            _resolve(entry, "table", folder)


def _resolve(section: dict[str, Any], key: str, folder: Path) -> None:
    if isinstance(section.get(key), str):
        section[key] = str(resolve_path(section[key], folder, symlinks="follow"))


@dataclass(frozen=True)
class Request:
    """A training, or a stage of the user's own."""

    tree: Mapping[str, Any]
    """The config, after all overrides."""
    where: str
    """For messages: the config's file."""
    folder: Path
    """Where relative paths begin."""
    script: Script
    out: Path
    """The result directory."""
    accept_script: bool = False
    accept_defaults: bool = False
    """Go on though the code's defaults changed since an earlier run of the config."""
    replayed: ResultDirectory | None = None
    """The result that is made again: its versions of tables are read, and its defaults hold."""
    disk: Disk | None = None
    """Another disk below the model directory, for tests."""


def make_request(
    config: Path,
    script: Path,
    overrides: Sequence[str] = (),
    files: Sequence[str] = (),
    out: Path | None = None,
    directory_keys: Sequence[str] = DIRECTORY_KEYS,
) -> Request:
    """The directory is `out`, or named by one of the keys, or by the config's own name."""
    tree = merge(read_config(config), *map(parse_override, overrides))
    place = out if out is not None else named_place(config, tree, directory_keys)
    read = read_script(script, parse_file_options(list(files)))
    return Request(tree, str(config), config.parent, read, place)
