"""A task: one config, one script, one directory, and the `samovar` command that makes it. Knows no database, and starts
nothing.

The command is the interface between the queue and what it runs. Its exit codes: 0 done, 1 failure, 2 user error, 75
stopped and resumable.
"""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from samovar.config import dump_config, flatten, merge, parse_config, parse_override, resolve_path
from samovar.config.diff import diff_flat
from samovar.config.identity import PLACE_KEYS, STAGE, identity, named_place
from samovar.config.places import PathLike, Place, as_place, suggest_path
from samovar.config.values import MISSING, Tree, same
from samovar.errors import BadInput, ConfigError
from samovar.results import ResultDirectory, ResultPlan
from samovar.results.code import diff_code
from samovar.results.directory import CONFIG
from samovar.runs.find import KINDS
from samovar.store import open_store, read_config_at

MAX_INTEGER = 2**31 - 1
"""The largest integer that every database can store."""
_NEEDS_SCRIPT = ("train", "run")
_CHOSEN_BY_THE_MACHINE = ("num_threads",)


@dataclass(frozen=True)
class Task:
    """One config to run: what a user could type as one command in `folder`.

    Example:
        >>> make_task("online.json", script="model.py").priority
        0
    """

    kind: str
    """train, brew, predict or run: the command."""
    config_path: str
    """The file of the config."""
    overrides: tuple[str, ...]
    """`--conf` of the command line."""
    config: str
    """The text of the effective config, the file with all overrides, when the task was made."""
    script: str | None
    """The Python file, for commands that take one."""
    out: str
    """The result directory; a queue has one job per directory."""
    folder: str
    """Where the command runs."""
    priority: int = 0
    """Higher priorities run first."""
    max_attempts: int = 3
    """Failures and dead workers before the job counts as failed."""

    @property
    def tree(self) -> dict[str, Any]:
        """The effective config."""
        return parse_config(self.config, self.config_path)


def make_task(
    config: PathLike,
    *,
    kind: str = "train",
    script: PathLike | None = None,
    overrides: Sequence[Mapping[str, Any]] = (),
    out: PathLike | None = None,
    priority: int = 0,
    max_attempts: int = 3,
) -> Task:
    """Make a task from the arguments of `samovar queue add`; every path becomes absolute.

    Args:
        config: The config file.
        kind: The command: brew, train, predict or run.
        script: A Python file, for train and run.
        overrides: Config keys to change, one mapping after the other; a dotted key is a path.
        out: The result directory; by default the one that the config names, or the config's own name.
        priority: Higher priorities run first.
        max_attempts: Failures and dead workers before the job counts as failed.

    Returns:
        The task, for `Queue.add`.

    Raises:
        BadInput: An argument is not valid.
        ConfigError: The config cannot be read.

    Example:
        >>> task = make_task("online.json", script="model.py", overrides=[{"model.lr": 0.01}], out="models/click_3")
        >>> task.kind, task.tree["model"]
        ('train', {'lr': 0.01})
    """
    file = as_place(config, "config")
    code = None if script is None else as_place(script, "script")
    if kind not in KINDS:
        raise BadInput(f"kind must be one of {', '.join(KINDS)}, got {kind!r}")
    if kind in _NEEDS_SCRIPT and code is None:
        raise BadInput(f"{kind} needs a Python file: give --script (script=… in Python)")
    if kind in _NEEDS_SCRIPT and isinstance(code, Path) and not code.is_file():
        raise BadInput(f"{code}: no such script{suggest_path(code, '*.py')}")
    for option, number, smallest in (("priority", priority, -MAX_INTEGER), ("max_attempts", max_attempts, 1)):
        if not smallest <= number <= MAX_INTEGER:
            raise BadInput(f"{option} must be from {smallest} to {MAX_INTEGER}, got {number}")
    tree = merge(read_config_at(file), *overrides)
    place = as_place(out, "out") if out is not None else named_place(file, tree, PLACE_KEYS[kind])
    return Task(
        kind,
        str(file.resolve()),
        tuple(json.dumps(each, ensure_ascii=False) for each in overrides),
        dump_config(tree),
        None if code is None or kind not in _NEEDS_SCRIPT else str(code.resolve()),
        str(place.resolve()),
        str(Path.cwd()),
        priority,
        max_attempts,
    )


def check_unchanged(task: Task) -> None:
    """Refuse a config that changed since it was added: the directory would not be what was asked for."""
    now = dump_config(merge(read_config_at(task.config_path), *map(parse_override, task.overrides)))
    if json.loads(now) != json.loads(task.config):
        raise ConfigError(
            f"{task.config_path}: changed since it was added to the queue. Restore it, or give the changed config a "
            "name and a directory of its own"
        )


def is_done(task: Task) -> bool:
    """Whether its directory is finished from this very config. False if in doubt: then the command itself finds out."""
    directory = ResultDirectory(open_store(task.out))
    is_sure = task.kind != "predict"  # its model may have been trained further since
    return is_sure and directory.is_finished and not _find_differences(directory.config, task)


def is_made(task: Task) -> bool:
    """Whether its directory is finished, from any config; a live table, which never finishes, counts too."""
    directory = ResultDirectory(open_store(task.out))
    return directory.is_finished or directory.is_live


def read_code(task: Task) -> dict[str, bytes]:
    """The files of its code as they are now, by the paths that its directory keeps; empty if it has no script."""
    if task.script is None:
        return {}
    from samovar.training.script import read_script  # takes a second to import

    script = read_script(as_place(task.script))
    return ResultPlan(task.kind, {}, script.source, script.contents).code_files


def describe_changed_code(task: Task) -> str | None:
    """What a user should know about a finished directory whose code differs from the task's; None if it does not."""
    directory = ResultDirectory(open_store(task.out))
    if not directory.is_finished or not directory.code:
        return None
    try:
        changes = diff_code(directory, read_code(task))
    except ConfigError as error:  # the script is gone or broken; nothing needs it
        return f"{task.out}: finished, but {error}"
    return f"{task.out}: the code has changed since it was made, and it is not made again{changes}" if changes else None


def is_rebuilt(task: Task) -> bool:
    """Whether the task was read from its own directory, and so has the directory's config."""
    return as_place(task.config_path) == as_place(task.out) / CONFIG


def describe_difference(old: Task, new: Task) -> str | None:
    """The first difference between two tasks for one directory; None if they are equal."""
    if old.kind != new.kind:
        return f"{old.kind} there, {new.kind} here"
    if is_rebuilt(old):
        found: Mapping[str, Sequence[Any]] = _find_differences(old.tree, new)
    elif json.loads(old.config) != json.loads(new.config):
        found = diff_flat({"old": flatten(old.tree), "new": flatten(new.tree)}).rows
    elif old.script != new.script:
        return f"{old.script} there, {new.script} here"
    else:
        return None
    return next((f"{key} is {_show(before)} there and {_show(now)} here" for key, (before, now) in found.items()), None)


def _find_differences(kept: Mapping[str, Any], task: Task) -> dict[str, list[Any]]:
    """Compare a task with the config in a directory, which has absolute paths and values chosen from the machine."""
    old, new = _identity(kept, task.kind), _identity(task.tree, task.kind)
    more = old.keys() if task.kind == "predict" else _CHOSEN_BY_THE_MACHINE  # predictions store every default
    folder = as_place(task.config_path).parent
    rows = diff_flat({"old": old, "new": new}).rows.items()
    return {
        key: [was, now]
        for key, (was, now) in rows
        if not (now is MISSING and key in more) and not _is_same_path(was, now, folder)
    }


def _identity(tree: Mapping[str, Any], kind: str) -> Tree:
    is_stage = kind == "run"
    left_out = (key for key, value in tree.items() if key in PLACE_KEYS[kind] or (value is None and not is_stage))
    asked = {key: tree[key] for key in tree.keys() - left_out}  # null removes a section in our own commands
    return identity(asked, kind=STAGE if is_stage else "")


def _is_same_path(kept: Any, asked: Any, folder: Place) -> bool:
    """Whether a directory's absolute path, or list of paths, is the one that was asked for."""
    if isinstance(asked, list) and isinstance(kept, list) and len(asked) == len(kept):
        return all(same(*pair) or _is_same_path(*pair, folder) for pair in zip(kept, asked, strict=True))
    if not isinstance(asked, str):
        return False
    return kept in (
        str(resolve_path(asked, folder, symlinks="follow")),
        str(resolve_path(asked, folder, symlinks="keep")),
    )


def _show(value: Any) -> str:
    return "absent" if value is MISSING else repr(value)


Command = Callable[[Task], list[str]]
_DATES = ("start_date", "end_date", "datetime_format", "timezone")


def make_command(task: Task) -> list[str]:
    """The command that a user would type. A config that changed since it was added is an error."""
    check_unchanged(task)
    make: dict[str, Command] = {"brew": _brew, "train": _train, "predict": _predict, "run": _run}
    # -P: `-m` alone would import modules from the job's folder, such as a `typer.py` that a stranger put there.
    return [sys.executable, "-P", "-m", "samovar", *make[task.kind](task), "--out", task.out]


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
    """Its config has the keys of a directory of predictions: source, table, keys, targets, features, dates."""
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
        raise ConfigError(f"{task.config_path}: {key} must be a directory, got {tree.get(key)!r}")
    return str(resolve_path(tree[key], as_place(task.config_path).parent))
