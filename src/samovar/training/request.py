"""What the user asks for: config, overrides, script and directory as one `Request`, and the effective config that is
written into the directory. Runs nothing.
"""

import copy
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from samovar.config import merge, resolve_path
from samovar.config.identity import DIRECTORY_KEYS, named_place
from samovar.config.places import PathLike, Place, as_place
from samovar.results import ResultDirectory
from samovar.runner import Callback
from samovar.runner.device import choose_device
from samovar.store import read_config_at
from samovar.store.disk import Disk
from samovar.training.script import Script, parse_file_options, read_script


@dataclass(frozen=True)
class Request:
    """A training run, or a stage with the user's own script.

    Example:
        >>> make_request("click.json", "model.py").accept_script
        False
    """

    tree: Mapping[str, Any]
    """The config, after all overrides."""
    where: str
    """Name of the config in error messages: its file."""
    folder: Place
    """What relative paths are relative to."""
    script: Script
    """The script, or the function of a notebook."""
    out: Place
    """The result directory."""
    accept_script: bool = False
    """Resume with a script that changed."""
    accept_defaults: bool = False
    """Start although the script's defaults changed since an earlier run of the config."""
    replayed: ResultDirectory | None = None
    """The result that this run repeats: with its versions of tables, and its defaults."""
    callbacks: Sequence[Callback] = ()
    """Callbacks of the caller, after those of the script."""
    disk: Disk | None = None
    """Another disk below the result directory, for tests."""


def make_request(
    config: PathLike,
    script: PathLike,
    overrides: Sequence[Mapping[str, Any]] = (),
    files: Sequence[str] = (),
    out: PathLike | None = None,
    directory_keys: Sequence[str] = DIRECTORY_KEYS,
) -> Request:
    """Read a config and a script.

    Args:
        config: A JSON file.
        script: A Python file.
        overrides: Config keys to change, one mapping after the other; a dotted key is a path.
        files: `NAME=PATH` of files for `build(params, files)`, as `--file` takes them.
        out: The result directory. Default: the one that the config names, or the config's file name without its suffix.
        directory_keys: Config keys that may name the directory.

    Returns:
        All that a training run needs.

    Raises:
        ConfigError: The config or the script cannot be read.

    Example:
        >>> request = make_request("click.json", "model.py", [{"model.lr": 0.2}], out="models/click_2")
        >>> request.tree["model"], str(request.out)
        ({'lr': 0.2}, 'models/click_2')
    """
    config = as_place(config, "config")
    tree = merge(read_config_at(config), *overrides)
    place = as_place(out, "out") if out is not None else named_place(config, tree, directory_keys)
    return Request(
        tree,
        str(config),
        config.parent,
        read_script(as_place(script, "script"), parse_file_options(list(files))),
        place,
    )


def make_effective_config(
    tree: Mapping[str, Any], folder: Place, out: Place, directory: ResultDirectory
) -> dict[str, Any]:
    """The content of model_config.json: absolute paths, a fixed number of threads. It runs as it is, from anywhere."""
    given = resolve_paths(tree, folder)
    for key in ("model_yt_dir", "out"):
        given.pop(key, None)
    effective: dict[str, Any] = {key: value for key, value in given.items() if value is not None}  # null drops a key
    effective["model_dir"] = str(out.resolve())
    fix_num_threads(effective, directory)
    if effective.get("device") == "auto":  # resolved once, because a device changes the bits
        known = directory.config.get("device") if directory.is_created else None
        effective["device"] = known or str(choose_device("auto"))
    return effective


def fix_num_threads(effective: dict[str, Any], directory: ResultDirectory) -> None:
    """Set `num_threads` if the user did not: to that of an existing directory, else to the number of cores."""
    if effective.get("num_threads") is None:
        known = directory.config.get("num_threads") if directory.is_created else None
        effective["num_threads"] = known or max(1, len(os.sched_getaffinity(0)))


def resolve_paths(tree: Mapping[str, Any], folder: Place) -> dict[str, Any]:
    """A copy of a training config in which the path of every table and model is absolute."""
    resolved = copy.deepcopy(dict(tree))
    _resolve(resolved, "init_from", folder)
    for section, keys in ((resolved.get("init_from"), ("model",)), (resolved.get("pretrained"), None)):
        if isinstance(section, dict):
            for key in list(section) if keys is None else keys:
                _resolve(section, key, folder)
    evaluation = resolved.get("evaluation")
    confs = evaluation.get("eval_confs") if isinstance(evaluation, dict) else None
    for section in [resolved.get("train_data"), *(confs if isinstance(confs, list) else [])]:
        _resolve_tables(section, folder)
    return resolved


def _resolve_tables(section: Any, folder: Place) -> None:
    if not isinstance(section, dict):
        return  # the schema reports it
    _resolve(section, "table", folder)
    merged = section.get("merge_tables")
    tables = merged.get("tables") if isinstance(merged, dict) else None
    for entry in tables if isinstance(tables, list) else []:
        if isinstance(entry, dict):
            _resolve(entry, "table", folder)


def _resolve(section: dict[str, Any], key: str, folder: Place) -> None:
    if isinstance(section.get(key), str):
        section[key] = str(resolve_path(section[key], folder, symlinks="follow"))
