"""The config that all parts share, free of the place where it stood. Makes nothing."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from samovar.config import merge, read_config
from samovar.config.place import DIRECTORY_KEYS
from samovar.experiments.grid.document import Experiment

_PATH_KEYS = ("source", "table")


def read_base(experiment: Experiment, folder: Path) -> tuple[str | None, dict[str, Any]]:
    """The file's whole name, if it is one, and the config with the experiment's evaluation and with whole paths."""
    if isinstance(experiment.base, str):
        path = (folder / Path(experiment.base).expanduser()).resolve()
        name, tree, home = str(path), read_config(path), path.parent
    else:
        name, tree, home = None, experiment.base, folder.resolve()
    whole = make_whole({key: value for key, value in tree.items() if key not in (*DIRECTORY_KEYS, "result")}, home)
    if experiment.evaluation is None:
        return name, whole
    return name, merge(whole, make_whole({"evaluation": experiment.evaluation}, folder.resolve()))


def make_whole(tree: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Every path that a config of ours holds; relative ones begin at the folder."""
    from samovar.pipelines.effective import resolve_paths  # only who reads configs of training needs it

    whole = resolve_paths(tree, folder)
    for section in [whole, *(each for each in whole.get("tables") or [] if isinstance(each, dict))]:
        for key in _PATH_KEYS:
            if key in section:
                section[key] = _resolve(section[key], folder)
    return whole


def _resolve(value: Any, folder: Path) -> Any:
    """A path, a list of paths, or names of paths."""
    if isinstance(value, str):
        return str(folder / Path(value).expanduser())
    if isinstance(value, list):
        return [_resolve(each, folder) for each in value]
    if isinstance(value, dict):
        return {key: _resolve(each, folder) for key, each in value.items()}
    return value
