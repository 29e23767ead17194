"""What is to be done: one config, one script, one directory. Knows no database, and runs nothing.

A task is what a user could have typed as one command in `folder`; `config` remembers what stood in the file then.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from samovar.config import dump_config, flatten, merge, parse_config, parse_override, read_config
from samovar.config.identity import identity
from samovar.config.place import DIRECTORY_KEYS, named_place
from samovar.config.values import same
from samovar.errors import BadInput, ConfigError
from samovar.results import ResultDirectory
from samovar.store import LocalStore

Kind = Literal["brew", "train", "predict", "run"]
KINDS: tuple[Kind, ...] = get_args(Kind)
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
    if max_attempts < 1:
        raise BadInput(f"--max-attempts: found {max_attempts}; expected 1 or more: change it")
    tree = merge(read_config(config), *map(parse_override, overrides))
    place = out or named_place(config, tree, ("result",) if kind == "brew" else DIRECTORY_KEYS)
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
    return directory.is_finished and _fits(directory.config, task.tree, Path(task.config_path).parent)


def _fits(kept: Mapping[str, Any], asked: Mapping[str, Any], folder: Path) -> bool:
    old, new = identity(kept), identity({key: value for key, value in asked.items() if value is not None})
    chosen = [key for key in _CHOSEN_BY_THE_MACHINE if key in old and key not in new]
    if old.keys() - chosen != new.keys():
        return False
    return all(same(old[key], value) or _is_path(old[key], value, folder) for key, value in new.items())


def _is_path(kept: Any, asked: Any, folder: Path) -> bool:
    """Directories keep paths whole."""
    return isinstance(asked, str) and kept == str((folder / Path(asked).expanduser()).resolve())


def describe_difference(old: Task, new: Task) -> str:
    """The first key in which two tasks for one directory differ."""
    before, after = flatten(old.tree), flatten(new.tree)
    for key in sorted(before.keys() | after.keys()):
        if not same(before.get(key), after.get(key)):
            return f"{key} is {before.get(key)!r} there and {after.get(key)!r} here"
    return f"{old.kind} with {old.script} there, {new.kind} with {new.script} here"
