"""What is to be done: one config, one script, one directory. Knows no database, and runs nothing.

A task is what a user could have typed as one command in `folder`; `config` remembers what stood in the file then.

A task as a command line of `samovar`: the seam between the queue and what is run. Starts nothing.

Exit codes: 0 done, 1 failure, 2 the user's mistake, 75 stopped and resumable.
"""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from samovar.config import dump_config, flatten, merge, parse_config, parse_override, read_config, resolve_path
from samovar.config.diff import diff_flat
from samovar.config.identity import PLACE_KEYS, STAGE, identity, named_place
from samovar.config.values import MISSING, Tree, same
from samovar.errors import BadInput, ConfigError
from samovar.results import ResultDirectory
from samovar.results.directory import CONFIG
from samovar.runs.find import KINDS
from samovar.store import LocalStore

MOST = 2**31 - 1
"""The largest whole number that every database takes."""
_NEEDS_SCRIPT = ("train", "run")
_CHOSEN_BY_THE_MACHINE = ("num_threads",)


@dataclass(frozen=True)
class Task:
    kind: str
    config_path: str
    overrides: tuple[str, ...]
    """`--conf` of the command line."""
    config: str
    """The text of the effective config: the file with all overrides."""
    script: str | None
    out: str
    """The result directory; a queue has one job for each."""
    folder: str
    """Where the command is run."""
    priority: int = 0
    """Higher ones first."""
    max_attempts: int = 3
    """Failures, and workers that died, until it is given up."""

    @property
    def tree(self) -> dict[str, Any]:
        return parse_config(self.config, self.config_path)


def make_task(
    config: Path,
    *,
    kind: str = "train",
    script: Path | None = None,
    overrides: Sequence[str] = (),
    out: Path | None = None,
    priority: int = 0,
    max_attempts: int = 3,
) -> Task:
    """From what stands on the command line; every path is made whole."""
    if kind not in KINDS:
        raise BadInput(f"--kind {kind}: found no such kind; expected one of {', '.join(KINDS)}: change it")
    if kind in _NEEDS_SCRIPT and (script is None or not script.is_file()):
        raise BadInput(f"--script: found {script or 'nothing'}; {kind} needs a Python file: name it")
    for option, number, least in (("--priority", priority, -MOST), ("--max-attempts", max_attempts, 1)):
        if not least <= number <= MOST:
            raise BadInput(f"{option}: found {number}; expected a number from {least} to {MOST}: change it")
    tree = merge(read_config(config), *map(parse_override, overrides))
    place = out or named_place(config, tree, PLACE_KEYS[kind])
    return Task(
        kind,
        str(config.resolve()),
        tuple(overrides),
        dump_config(tree),
        None if script is None or kind not in _NEEDS_SCRIPT else str(script.resolve()),
        str(place.resolve()),
        str(Path.cwd()),
        priority,
        max_attempts,
    )


def check_unchanged(task: Task) -> None:
    """A config that was added must not change: the directory would not be what was asked for."""
    now = dump_config(merge(read_config(task.config_path), *map(parse_override, task.overrides)))
    if json.loads(now) != json.loads(task.config):
        raise ConfigError(
            f"{task.config_path}: changed since it was added to the queue; expected the same config: "
            "bring it back, or give the changed one a name and a directory of its own"
        )


def is_done(task: Task) -> bool:
    """Whether its directory is finished with this very config. False when in doubt: the command itself will see."""
    directory = ResultDirectory(LocalStore(task.out))
    is_sure = task.kind != "predict"  # its model may have learned on since
    return is_sure and directory.is_finished and not _find_differences(directory.config, task)


def is_made(task: Task) -> bool:
    """Whether its directory is finished, from whatever config; a live table never is, and counts too."""
    directory = ResultDirectory(LocalStore(task.out))
    return directory.is_finished or directory.is_live


def is_rebuilt(task: Task) -> bool:
    """Whether it was read from its own directory, and so has the config that the directory keeps."""
    return Path(task.config_path) == Path(task.out) / CONFIG


def describe_difference(old: Task, new: Task) -> str | None:
    """The first thing in which two tasks for one directory differ; None if they are the same."""
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
    """Between the config that a directory keeps, with whole paths and what the machine chose, and what is asked for."""
    old, new = _identity(kept, task.kind), _identity(task.tree, task.kind)
    more = old.keys() if task.kind == "predict" else _CHOSEN_BY_THE_MACHINE  # predictions keep all that can be asked
    folder = Path(task.config_path).parent
    rows = diff_flat({"old": old, "new": new}).rows.items()
    return {
        key: [was, now]
        for key, (was, now) in rows
        if not (now is MISSING and key in more) and not _is_path(was, now, folder)
    }


def _identity(tree: Mapping[str, Any], kind: str) -> Tree:
    is_stage = kind == "run"
    left_out = (key for key, value in tree.items() if key in PLACE_KEYS[kind] or (value is None and not is_stage))
    asked = {key: tree[key] for key in tree.keys() - left_out}  # null drops a section of ours
    return identity(asked, kind=STAGE if is_stage else "")


def _is_path(kept: Any, asked: Any, folder: Path) -> bool:
    """Directories keep paths whole."""
    if isinstance(asked, list) and isinstance(kept, list) and len(asked) == len(kept):
        return all(same(*pair) or _is_path(*pair, folder) for pair in zip(kept, asked, strict=True))
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
    return str(resolve_path(tree[key], Path(task.config_path).parent))
