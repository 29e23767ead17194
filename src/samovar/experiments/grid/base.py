"""The config that all parts share, free of the place where it stood. Makes nothing."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from samovar.config import merge, read_config
from samovar.config.place import PLACE_KEYS
from samovar.experiments.grid.document import Experiment

_PATH_KEYS = {"brew": ("source",), "predict": ("source", "table"), "run": ("source", "table", "files")}


def read_base(experiment: Experiment, folder: Path) -> tuple[str | None, dict[str, Any]]:
    """The file's whole name, if it is one, and the config with the experiment's evaluation. What stands in a file
    begins at that file, so its paths are whole."""
    if isinstance(experiment.base, str):
        path = (folder / Path(experiment.base).expanduser()).resolve()
        name, tree, home = str(path), read_config(path), path.parent
    else:
        name, tree, home = None, experiment.base, folder.resolve()
    placeless = {key: value for key, value in tree.items() if key not in PLACE_KEYS[experiment.kind]}
    whole = make_whole(placeless, home, experiment.kind)
    return name, whole if experiment.evaluation is None else merge(whole, {"evaluation": experiment.evaluation})


def make_whole(tree: Mapping[str, Any], folder: Path, kind: str) -> dict[str, Any]:
    """With every path that we know to be one in a config of that kind; relative ones begin at the folder."""
    if kind == "train":
        from samovar.pipelines.effective import resolve_paths  # only who reads configs of training needs it

        return resolve_paths(tree, folder)
    whole = {key: _resolve(value, folder) if key in _PATH_KEYS[kind] else value for key, value in tree.items()}
    tables = tree.get("tables")
    if kind == "brew" and isinstance(tables, list):
        whole["tables"] = [make_whole(each, folder, kind) if isinstance(each, dict) else each for each in tables]
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
