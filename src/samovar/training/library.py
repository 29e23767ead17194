"""`samovar.train`, `samovar.predict` and `samovar.load`: training from Python, with the directories, bytes and errors
of the command line.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from samovar.config import merge, read_config, resolve_path
from samovar.config.identity import named_place
from samovar.config.places import PathLike, Place, Url, as_path, as_place
from samovar.config.values import did_you_mean, nearest
from samovar.errors import BadInput, ConfigError, UnknownKey
from samovar.results import ResultDirectory, open_directory
from samovar.results.directory import Epoch
from samovar.runner import Callback
from samovar.scoring.bundle import BUNDLE_KIND, read_bundle
from samovar.scoring.model import Model
from samovar.store import MemoryStore, place_of
from samovar.tables import Table
from samovar.training.facade import check_callbacks
from samovar.training.function import script_of
from samovar.training.loading import Build, restore
from samovar.training.model_directory import ModelDirectory, PredictionDirectory
from samovar.training.prediction import PredictRequest, run_prediction
from samovar.training.request import Request
from samovar.training.schema import Dates, OfflineConfig, OfflineData, OnlineConfig, OnlineData
from samovar.training.script import Script, read_script
from samovar.training.session import run_training


def train(
    script: PathLike | Build,
    table: PathLike | Table | None = None,
    *,
    config: PathLike | Mapping[str, Any] | None = None,
    targets: str | Sequence[str] = (),
    evaluate: Mapping[str, Mapping[str, Any]] | None = None,
    model: Mapping[str, Any] | None = None,
    model_dir: PathLike | None = None,
    callbacks: Sequence[Callback] = (),
    files: Mapping[str, PathLike] | None = None,
    accept_script: bool = False,
    accept_defaults: bool = False,
    **config_keys: Any,
) -> ModelDirectory:
    """Train a model, or resume a run that was stopped or killed. A finished one is returned as it is.

    Args:
        script: Path of a Python file with `build(params) -> Learner`, or such a function. The source of a function that
            is defined in a notebook is kept with the model, and only the same function can resume the run.
        table: The tensor table to train on, or its path: `train_data.table` of the config.
        config: A whole config, as a dict or the path of a JSON file. All other arguments override its keys.
        targets: Columns that are passed to the loss, or one: `train_data.targets`.
        evaluate: Evaluations by name, each an entry of `evaluation.eval_confs`. Their `table` is the training table
            unless they name another.
        model: Parameters of the script: what `build(params)` gets.
        model_dir: The directory of the model. Relative to the current folder; one in the config is relative to that.
        callbacks: Callbacks that run after those of the script. Pass the same ones to resume a run.
        files: Files for `build(params, files)` by name; they are copied into the model directory.
        accept_script: Whether to resume with a script that changed.
        accept_defaults: Whether to start although defaults of the script changed since an earlier run of the config.
        **config_keys: Other keys of the config, such as `seed`, `num_threads` or `init_from`; keys of `train_data`,
            such as `epoch_count` or `start_date`, can be given directly too.

    Returns:
        The directory of the finished model.

    Raises:
        Stopped: A signal or a stop file ended the run. Call `train` again to resume it.
        ConfigError: A key is missing, unknown or wrong.
        Conflict: The directory belongs to another config, or, unfinished, to another script. A finished one is only
            reported as such, with the difference.

    Example:
        >>> table = samovar.open_table("clicks")
        >>> run = samovar.train("model.py", table, targets=["clicked"], model_dir="models/new", epoch_count=2)
        >>> run.load().predict([{"user": 17, "price": 9.5}]).shape
        (1,)
    """
    given = {"table": table, "targets": _names(targets)}
    tree = _make_tree(given, evaluate, model, config_keys)
    folder, where = Path.cwd(), "config"
    if isinstance(config, Mapping):
        tree = merge(dict(config), tree, where="samovar.train")
    elif config is not None:
        path = as_path(config, "config").expanduser()
        folder, where, tree = path.parent, str(path), merge(read_config(path), tree, where="samovar.train")
    request = Request(
        tree,
        where,
        folder,
        _read_script(script, files or {}),
        _find_place(model_dir, config, tree),
        accept_script,
        accept_defaults,
        callbacks=tuple(check_callbacks(callbacks)),
    )
    done = run_training(request, Console(stderr=True))
    return ModelDirectory.of(done.directory, done.was_finished, done.notes)


def predict(
    model: PathLike | ResultDirectory,
    table: PathLike | Table,
    out: PathLike | None = None,
    *,
    keys: str | Sequence[str] = (),
    targets: str | Sequence[str] = (),
    features: str | Sequence[str] | None = None,
    epoch: Epoch = "last",
    **dates: str,
) -> PredictionDirectory:
    """Write the predictions of a model for a table, or resume writing them. For rows in memory, use `samovar.load`.

    Args:
        model: A model directory. One that is still training is used as of its newest snapshot.
        table: A tensor table, or its path.
        out: The directory of the predictions: `evaluation/predictions/*.parquet` in it, in the order of the table.
            Default: beside the model, named after model and table.
        keys: Columns that identify an example, written beside the predictions.
        targets: Columns to write beside the predictions and measure them by.
        features: Columns for the model. Default: those of training.
        epoch: "best" uses the model after its best evaluation, "last" the model as training ended.
        **dates: `start_date`, `end_date`, `datetime_format`, `timezone`.

    Returns:
        The directory of the predictions.

    Raises:
        Stopped: A signal ended it. Call it again to resume.
        UserError: The table does not fit the model, or the directory belongs to another prediction.

    Example:
        >>> samovar.predict("models/click", "clicks", "scores", keys=["hit"]).predictions().columns.tolist()
        ['hit', 'prediction']
    """
    for name in dates:
        if name not in Dates.model_fields:
            raise UnknownKey(f"predict: no argument {name!r}. Available dates: {', '.join(Dates.model_fields)}")
    request = PredictRequest(
        model.place if isinstance(model, ResultDirectory) else as_place(model, "model"),
        as_place(_table_path(table)),
        None if out is None else as_place(out, "out"),
        _names(keys),
        _names(targets),
        None if features is None else _names(features),
        dates,
        epoch=_check_epoch(epoch),
    )
    done = run_prediction(request, Console(stderr=True))
    return PredictionDirectory.of(done.directory, done.num_examples is None, done.notes)


def load(
    directory: PathLike | ResultDirectory,
    *,
    snapshot: bool = False,
    epoch: Epoch = "last",
    build: Build | None = None,
) -> Model:
    """Load a trained model, ready to score raw rows with the bits that `samovar predict` writes.

    Args:
        directory: A bundle, which is data alone, or a model directory, whose script is run.
        snapshot: Whether to load the newest snapshot of a model that is still training.
        epoch: "best" loads the model after its best evaluation, "last" the model as training ended.
        build: The function that it was trained with, if that uses values of a notebook that are not in `script.py`.

    Returns:
        A model with `predict(rows)`, `embedding(table, ids)` and `signature`.

    Raises:
        NotAResult: There is no model, none that is finished, or no best one.
        Conflict: `build` is another function than the one that it was trained with.

    Example:
        >>> model = samovar.load("models/click")
        >>> model.predict([{"user": 17, "price": 9.5}, {"user": 99, "price": 1.0}]).shape
        (2,)
    """
    origin = directory if isinstance(directory, ResultDirectory) else open_directory(as_place(directory, "model"))
    if origin.kind == BUNDLE_KIND:
        return read_bundle(origin).model()
    return restore(origin, snapshot=snapshot, epoch=_check_epoch(epoch), build=build).model()


def _names(columns: str | Sequence[str]) -> list[str]:
    return [columns] if isinstance(columns, str) else list(columns)


def _check_epoch(epoch: Epoch) -> Epoch:
    if epoch not in ("last", "best"):
        raise BadInput(f"epoch must be 'last' or 'best', got {epoch!r}")
    return epoch


# Arguments as a config


def _make_tree(
    data: Mapping[str, Any],
    evaluate: Mapping[str, Mapping[str, Any]] | None,
    model: Mapping[str, Any] | None,
    config_keys: Mapping[str, Any],
) -> dict[str, Any]:
    """The config that the arguments alone make; paths of tables are absolute."""
    top = {*OfflineConfig.model_fields, *OnlineConfig.model_fields}
    inner = {*OfflineData.model_fields, *OnlineData.model_fields} - top - {"table", "targets"}
    tree: dict[str, Any] = {}
    section: dict[str, Any] = {"targets": data["targets"]} if data["targets"] else {}
    if data["table"] is not None:
        section["table"] = _table_path(data["table"])
    for key, value in config_keys.items():
        if key in top:
            tree[key] = value
        elif key in inner:
            section[key] = value
        else:
            raise UnknownKey(f"train: no argument or config key {key!r}{did_you_mean(nearest(key, top | inner))}")
    if evaluate is not None:
        tree["evaluation"] = {**tree.get("evaluation", {}), "eval_confs": list(_make_entries(evaluate, section))}
    if section:
        tree["train_data"] = {**tree.get("train_data", {}), **section}
    return tree if model is None else {**tree, "model": dict(model)}


def _make_entries(evaluate: Mapping[str, Mapping[str, Any]], train_data: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for name, entry in evaluate.items():
        if not isinstance(entry, Mapping):
            raise ConfigError(f"evaluate[{name!r}] must be a dict such as {{'keys': ['hit']}}, got {entry!r}")
        found = dict(entry)
        if "table" in found:
            found["table"] = _table_path(found["table"])
        elif "merge_tables" not in found and "table" in train_data:
            found["table"] = train_data["table"]
        yield {"name": name, **found}


def _table_path(table: PathLike | Table) -> str:
    if not isinstance(table, Table):
        return str(resolve_path(str(as_place(table, "table")), Path.cwd(), symlinks="follow"))
    if isinstance(table.store, MemoryStore):
        raise BadInput(f"{table.name}: a table in memory cannot be trained on. Brew it into a directory")
    return str(place_of(table.store).resolve())


def _find_place(
    model_dir: PathLike | None, config: PathLike | Mapping[str, Any] | None, tree: Mapping[str, Any]
) -> Place:
    if model_dir is not None:
        return as_place(model_dir, "model_dir").expanduser()
    if config is not None and not isinstance(config, Mapping):
        return named_place(as_path(config, "config").expanduser(), tree)
    named = tree.get("model_dir") or tree.get("out")
    if not isinstance(named, str):
        raise ConfigError("model_dir: missing. Give the directory of the model")
    return resolve_path(named, Path.cwd())


def _read_script(script: PathLike | Build, files: Mapping[str, PathLike]) -> Script:
    if isinstance(script, str | os.PathLike | Url):
        local = {name: as_path(path, f"files[{name!r}]") for name, path in files.items()}
        return read_script(as_place(script, "script").expanduser(), local)
    if not callable(script):
        as_path(script, "script")
    if files:
        raise ConfigError("files: only a script in a file can have files; a function can use them directly")
    return script_of(script)
