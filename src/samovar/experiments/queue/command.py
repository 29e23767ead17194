"""A task as a command line of `samovar`: the seam between the queue and what is run. Starts nothing.

Exit codes: 0 done, 1 failure, 2 the user's mistake, 75 stopped and resumable.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from samovar.errors import ConfigError
from samovar.experiments.queue.task import Task, check_unchanged

Command = Callable[[Task], list[str]]
_DATES = ("start_date", "end_date", "datetime_format", "timezone")


def make_command(task: Task) -> list[str]:
    """What a user would type. A config that changed since it was added is an error."""
    check_unchanged(task)
    make: dict[str, Command] = {"brew": _brew, "train": _train, "predict": _predict, "run": _run}
    return [sys.executable, "-m", "samovar", *make[task.kind](task), "--out", task.out]


def _brew(task: Task) -> list[str]:
    return ["brew", task.config_path, *_overrides(task)]


def _train(task: Task) -> list[str]:
    assert task.script is not None
    return ["train", task.config_path, "--script", task.script, *_overrides(task)]


def _run(task: Task) -> list[str]:
    assert task.script is not None
    return ["run", task.script, "-c", task.config_path, *_overrides(task)]


def _overrides(task: Task) -> list[str]:
    return [word for text in task.overrides for word in ("--conf", text)]


def _predict(task: Task) -> list[str]:
    """Its config has the keys that a directory of predictions keeps: source, table, keys, targets, features, dates."""
    tree = task.tree
    words = ["predict", _path(task, tree, "source"), "--table", _path(task, tree, "table")]
    for key in ("keys", "targets", "features"):
        if tree.get(key):
            words += [f"--{key}", ",".join(tree[key])]
    for key in _DATES:
        if tree.get(key) is not None:
            words += [f"--{key.replace('_', '-')}", str(tree[key])]
    return words


def _path(task: Task, tree: dict[str, Any], key: str) -> str:
    if not isinstance(tree.get(key), str):
        raise ConfigError(f"{task.config_path}: {key}: found {tree.get(key)!r}, expected a directory: name it there")
    return str(Path(task.config_path).parent / Path(tree[key]).expanduser())
