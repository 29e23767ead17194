"""Which result a config describes: the keys that make the result and those that may differ, where the result goes by
default, and the key `cloned_from`. Knows neither directories nor tables: the caller gives the ids of the inputs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

from samovar.config.diff import Diff, diff_flat, flatten
from samovar.config.places import Place, Url, resolve_path
from samovar.config.roles import has_roles, long_form
from samovar.config.values import MISSING, Tree, covers, describe
from samovar.errors import ConfigError

DIRECTORY_KEYS = ("model_dir", "model_yt_dir", "out")
PLACE_KEYS: Final[Mapping[str, Sequence[str]]] = MappingProxyType(
    {"train": DIRECTORY_KEYS, "predict": DIRECTORY_KEYS, "brew": ("result",), "run": ("out",)}
)
"""By command: the config keys that say where the result goes. Two configs cannot share a place."""
_KEPT = "model_config.json"


def named_place(config: Place, tree: Mapping[str, Any], keys: Sequence[str] = DIRECTORY_KEYS) -> Place:
    """The directory that the config names, relative to its file; else the file's name without its suffix."""
    if config.name == _KEPT and (isinstance(config, Url) or config.with_name("status.json").exists()):
        return config.parent  # a result directory's own config, even in a copied directory
    named = next((tree[key] for key in keys if isinstance(tree.get(key), str)), config.stem)
    return resolve_path(named, config.parent)


PARENT: Final = "cloned_from"


@dataclass(frozen=True)
class Parent:
    """What `cloned_from` says: the config that a clone was made from, and the change.

    It is part of the clone, so that neither gets lost. No schema, ledger or identity sees it, because it does not
    change the result.
    """

    config: str
    """The name of the file or directory, relative to the folder of the clone."""
    family: str
    """The name that all clones of one config share; each clone adds a suffix."""
    change: Tree
    """The new value of each changed key, by flat path."""


def with_parent(tree: Mapping[str, Any], parent: Parent) -> Tree:
    return {PARENT: asdict(parent), **without_parent(tree)}


def without_parent(tree: Mapping[str, Any]) -> Tree:
    return {key: value for key, value in tree.items() if key != PARENT}


def read_parent(tree: Mapping[str, Any]) -> Parent | None:
    """None for a config that is not a clone."""
    found = tree.get(PARENT)
    if found is None:
        return None
    try:
        return Parent(**found)
    except TypeError:
        raise ConfigError(
            f"{PARENT} must have config, family and change, as `samovar clone` writes it, got {describe(found)}"
        ) from None


FREE_KEYS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "model_dir": "where the result is; a copied directory continues elsewhere",
        "model_yt_dir": "the older name of model_dir",
        "out": "where the result is, for stages other than models",
        PARENT: "which config this one was copied from; the copy has everything else",
        "*.num_downloaders": "rows arrive in order, however many threads fetch them",
        "*.num_parsers": "rows arrive in order, however many threads parse them",
        "*.max_cache_size": "how far ahead rows are read, never which rows",
        "*.max_memory": "how far ahead rows are read, never which rows",
        "*.memory_limit": "when sorting spills to disk, never the order it gives",
        "engine": "every engine makes the same bytes",
        "snapshotter.frequency": "resuming from any snapshot gives the same bytes",
        "ttl_filter.frequency": "an expired row is reset at its next use, swept or not",
        "train_data.allow_targets_as_features": "only whether the run is refused",
        "progress": "what the screen shows",
        "publish": "what servers read, never what is trained",
        "follow": "whether to wait for hours that do not exist yet",
        "train_data.follow": "whether to wait for hours that do not exist yet",
    }
)

# The user's own section: only the user's script knows what a key means there, so none is free.
_USERS_SECTION = "model"

STAGE: Final = "stage:"
"""The prefix of a user stage's kind. All its keys belong to the user, except `out` and `cloned_from`."""
_FREE_IN_STAGES: Final = {key: FREE_KEYS[key] for key in ("out", PARENT)}


@dataclass(frozen=True)
class Comparison:
    """How two configs differ."""

    conflicts: Diff
    """What would give another result; inputs are shown with their ids."""
    allowed: Diff
    """What may differ and is only logged: free keys, and inputs that moved."""


def identity(config: Mapping[str, Any], inputs: Mapping[str, str] = MappingProxyType({}), kind: str = "") -> Tree:
    """The flat config without the free keys of its kind. Inputs, by flat key, count by id instead of by path.

    A list of paths is one flat value, but each of its items is an input: `source[0]`. The column roles of a recipe
    count as the lists that they stand for.
    """
    return _identity(config if kind.startswith(STAGE) else long_form(config), inputs, kind)


def _identity(config: Mapping[str, Any], inputs: Mapping[str, str], kind: str) -> Tree:
    paths = {key: value for key, value in flatten(config).items() if not any(covers(key, each) for each in inputs)}
    return without_free_keys({**paths, **inputs}, kind)


def without_free_keys(flat: Mapping[str, Any], kind: str = "") -> Tree:
    """A flat config without the keys that cannot change a result of its kind."""
    is_stage = kind.startswith(STAGE)
    return {key: value for key, value in flat.items() if not _is_free(key, value == {}, is_stage)}


@lru_cache(maxsize=4096)  # ten thousand configs have the same few keys
def _is_free(key: str, is_empty: bool, is_stage: bool) -> bool:
    free = _FREE_IN_STAGES if is_stage else FREE_KEYS
    if covers(_USERS_SECTION, key):
        return False
    # {"snapshotter": {}} says no more than leaving it out.
    is_empty_home = is_empty and any(covers(key, pattern) for pattern in free)
    return is_empty_home or any(covers(pattern, key) for pattern in free)


def compare(
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    old_inputs: Mapping[str, str] = MappingProxyType({}),
    new_inputs: Mapping[str, str] = MappingProxyType({}),
    kind: str = "",
) -> Comparison:
    """Compare two configs of one kind of result.

    Args:
        old: The config that a directory was made with.
        new: The config that is to run in it.
        old_inputs: The ids of the old inputs, by config key.
        new_inputs: The ids of the new inputs, by config key.
        kind: The kind of the result: model, table, or the name of a stage.

    Example:
        >>> compare({"seed": 1, "progress": True}, {"seed": 2}).conflicts.rows
        {'seed': [1, 2]}
    """
    if kind.startswith(STAGE):
        return _compare(old, new, old_inputs, new_inputs, kind)
    found = _compare(long_form(old), long_form(new), old_inputs, new_inputs, kind)
    if found.conflicts and has_roles(old) and has_roles(new):  # show the difference as the user wrote it, if it can be
        as_written = _compare(old, new, old_inputs, new_inputs, kind)
        return as_written if as_written.conflicts else found
    return found


def _compare(
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    old_inputs: Mapping[str, str],
    new_inputs: Mapping[str, str],
    kind: str,
) -> Comparison:
    old_flat, new_flat = flatten(old), flatten(new)
    old_identity = _without_emptied(_identity(old, old_inputs, kind), new_flat)
    new_identity = _without_emptied(_identity(new, new_inputs, kind), old_flat)
    differing = diff_flat({"old": old_identity, "new": new_identity})
    everything = diff_flat({"old": old_flat, "new": new_flat})
    sides = _show(old_flat, old_inputs), _show(new_flat, new_inputs)
    conflicts = {key: [side.get(key, MISSING) for side in sides] for key in differing.rows}
    allowed = {key: row for key, row in everything.rows.items() if key not in differing.rows}
    return Comparison(Diff(differing.names, conflicts), Diff(differing.names, allowed))


def _without_emptied(flat: Tree, other: Tree) -> Tree:
    """Drop `{}` where the other config has keys inside: those are free, or differ anyway."""
    return {
        key: value
        for key, value in flat.items()
        if value != {} or not any(covers(key, inner) and inner != key for inner in other)
    }


def _show(flat: Tree, inputs: Mapping[str, str]) -> Tree:
    return {**flat, **{key: f"{flat.get(key, '')} (id {inputs[key]})".lstrip() for key in inputs}}
