"""A config copied with changes to a new name beside it: `model.json` → `modela.json`, `modelb.json`, … `modelz.json`,
`modelaa.json`. The clone itself records what it was made from.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count, product
from pathlib import Path
from string import ascii_lowercase
from typing import Any

from samovar.config import MISSING, Diff, dump_config, flat_diff, flatten, merge
from samovar.config.identity import PLACE_KEYS, Parent, read_parent, with_parent, without_parent
from samovar.config.places import Url
from samovar.config.values import nearest
from samovar.errors import AlreadyExists, BadInput
from samovar.results import open_directory
from samovar.results.directory import CONFIG
from samovar.runs.find import Named, Target, command_of, find_target
from samovar.store.disk import Disk, publish


@dataclass(frozen=True)
class Clone:
    """A config that was cloned.

    Attributes:
        path: The new file.
        changes: What differs from the parent.
        new_keys: Keys that the parent does not have, each with the parent's most similar key.

    Example:
        >>> clone("online.json", {"model.lr": 0.01}).path.name
        'onlinea.json'
    """

    path: Path
    changes: Diff
    new_keys: Mapping[str, str | None]


def clone(
    config: Named, changes: Mapping[str, Any] | Sequence[Mapping[str, Any]], *, disk: Disk | None = None
) -> Clone:
    """Write the next clone of a config: `online.json` becomes `onlinea.json`, then `onlineb.json`.

    The file appears whole or not at all, and clones made at the same time get different names.

    Args:
        config: A config file, or a result directory; a clone of the latter is written beside it.
        changes: Config keys to change; several mappings are applied one after the other. A dotted key is a path.
        disk: Where it is written; tests pass one that fails.

    Returns:
        The new file, and how it differs.

    Raises:
        BadInput: The changes change nothing, or the name stands for several configs.

    Example:
        >>> made = clone("online.json", {"model.lr": 0.01})
        >>> made.path.name, made.changes.rows
        ('onlinea.json', {'model.lr': [0.1, 0.01]})
    """
    return _write_clone(find_target(config), [changes] if isinstance(changes, Mapping) else changes, disk)


def _write_clone(parent: Target, overrides: Sequence[Mapping[str, Any]], disk: Disk | None) -> Clone:
    old = without_parent(parent.config)
    new = merge(old, *overrides)
    changes = flat_diff({"old": old, "new": new})
    if not changes:
        raise BadInput(
            f"{parent.name}: the changes leave the config as it is. "
            """Change at least one key, for example --conf '{"model.lr": 0.01}'"""
        )
    file, is_from_result = _origin(parent)
    base, keys = _base_name(file, parent.config), _place_keys(parent, is_from_result)
    change = {key: None if value is MISSING else value for key, (_, value) in changes.rows.items()}
    record = Parent(file.stem if is_from_result else file.name, base, change)
    for suffix in suffixes():
        path = file.with_name(f"{base}{suffix}.json")
        if path.exists() or path.with_suffix("").exists():  # a clone, or the directory that it would make
            continue
        tree = _place(new, old, keys, None if is_from_result else file.stem.removeprefix(base), suffix)
        with suppress(AlreadyExists):  # another process was first
            with publish(path, disk, replace=False, verb="create") as output:
                output.write(dump_config(with_parent(tree, record)).encode())
            return Clone(path, flat_diff({"old": old, "new": tree}), _new_keys(old, new))
    raise AssertionError("there is always another suffix")


def suffixes() -> Iterator[str]:
    """All suffixes in order: a, b, … z, aa, ab, … zz, aaa and so on."""
    for length in count(1):
        yield from map("".join, product(ascii_lowercase, repeat=length))


def _origin(parent: Target) -> tuple[Path, bool]:
    """The file that the clone is written beside, and whether the config is a result directory's own. Nothing is ever
    written into a result directory: its clone goes beside it, or into the current folder if that is in an object
    store."""
    path = parent.path.resolve()
    if isinstance(path, Url):
        return Path.cwd() / f"{path.name}.json", True
    if parent.directory is not None:
        return path.with_name(f"{path.name}.json"), True
    if path.name == CONFIG and (path.parent / "status.json").exists():
        return path.parent.with_name(f"{path.parent.name}.json"), True
    return path, False


def _base_name(file: Path, config: Mapping[str, Any]) -> str:
    """A clone of `modela` is `modelb`, not `modelaa`: names stay short, and `cloned_from` records the parent."""
    parent = read_parent(config)
    is_renamed = parent is None or not file.stem.startswith(parent.family)
    return file.stem if parent is None or is_renamed else parent.family


def _place_keys(parent: Target, is_from_result: bool) -> Sequence[str]:
    """The keys that name the result's place; those of every command for a config file, which does not say what it is
    for."""
    if is_from_result:
        folder = parent.path if parent.directory is not None else parent.path.parent
        return PLACE_KEYS[command_of(open_directory(folder).lineage.kind)]
    return sorted({key for keys in PLACE_KEYS.values() for key in keys})


def _place(
    new: Mapping[str, Any], old: Mapping[str, Any], keys: Sequence[str], old_suffix: str | None, suffix: str
) -> dict[str, Any]:
    """Give the clone's result a place of its own, unless the change names one.

    A config from a result directory (`old_suffix` is None) names that directory. Without the key, the result goes
    beside the clone.
    """
    tree = dict(new)
    for key in keys:
        if not isinstance(old.get(key), str) or new.get(key) != old[key]:
            continue
        if old_suffix is None:
            del tree[key]
        else:
            tree[key] = f"{old[key].removesuffix(old_suffix)}{suffix}"
    return tree


def _new_keys(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, str | None]:
    known = flatten(old)
    return {key: nearest(key, known) for key in flatten(new) if key not in known}
