"""When a run may go on in a directory: which keys of the config make the result, and which may differ.
The one place of that rule. Knows neither directories nor tables: who opens the inputs gives their ids.

Where the result of a config goes when nobody says it on the command line. Makes no directory.

The key `cloned_from`: which config a clone was made from, and what was changed. It stands in the clone itself, so
that neither can be had without the other; no schema, ledger or identity sees it, because it changes no result.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from samovar.config.diff import Diff, diff_flat, flatten
from samovar.config.document import resolve_path
from samovar.config.values import MISSING, Tree, covers, describe
from samovar.errors import ConfigError

DIRECTORY_KEYS = ("model_dir", "model_yt_dir", "out")
PLACE_KEYS: Final[Mapping[str, Sequence[str]]] = MappingProxyType(
    {"train": DIRECTORY_KEYS, "predict": DIRECTORY_KEYS, "brew": ("result",), "run": ("out",)}
)
"""By command: the keys of its config that say where the result goes. Two configs cannot share one."""
_KEPT = "model_config.json"


def named_place(config: Path, tree: Mapping[str, Any], keys: Sequence[str] = DIRECTORY_KEYS) -> Path:
    """The directory that a key of the config names, relative to its file; else the file's name without its ending."""
    if config.name == _KEPT and config.with_name("status.json").exists():
        return config.parent  # the config that a directory keeps is that directory's, also when it was copied
    named = next((tree[key] for key in keys if isinstance(tree.get(key), str)), config.stem)
    return resolve_path(named, config.parent)


PARENT: Final = "cloned_from"


@dataclass(frozen=True)
class Parent:
    config: str
    """The file's name, or the directory's; as seen from the folder of the clone."""
    family: str
    """The name that all clones of one config share; a clone's own is this and a suffix."""
    change: Tree
    """The new value of each key that was changed, by its flat path."""


def with_parent(tree: Mapping[str, Any], parent: Parent) -> Tree:
    return {PARENT: asdict(parent), **without_parent(tree)}


def without_parent(tree: Mapping[str, Any]) -> Tree:
    return {key: value for key, value in tree.items() if key != PARENT}


def read_parent(tree: Mapping[str, Any]) -> Parent | None:
    """None for a config that is no clone."""
    found = tree.get(PARENT)
    if found is None:
        return None
    try:
        return Parent(**found)
    except TypeError:
        raise ConfigError(
            f"{PARENT}: found {describe(found)}; expected the config, family and change that `samovar clone` "
            "writes: leave the key out"
        ) from None


FREE_KEYS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "model_dir": "where the result lies; a copied directory goes on elsewhere",
        "model_yt_dir": "the older name of model_dir",
        "out": "where the result lies, for stages that are no models",
        PARENT: "which config this one was copied from; all that it says stands in the copy",
        "*.num_downloaders": "rows arrive in order, however many threads fetch them",
        "*.num_parsers": "rows arrive in order, however many threads parse them",
        "*.max_cache_size": "how far reading runs ahead, never what is read",
        "*.max_memory": "how far reading runs ahead, never what is read",
        "*.memory_limit": "when sorting spills to disk, never the order it gives",
        "snapshotter.frequency": "going on from any snapshot ends in the same bytes",
        "ttl_filter.frequency": "an expired row is reset at its next use, swept or not",
        "progress": "what the screen shows",
        "follow": "whether to wait for hours that are not there yet",
        "train_data.follow": "whether to wait for hours that are not there yet",
    }
)

# The user's own section: a key there means what the user's script makes of it, so none is free.
_USERS_SECTION = "model"

STAGE: Final = "stage:"
"""How the kind of a user's own stage begins. All its keys are the user's, but for these."""
_FREE_IN_STAGES: Final = {key: FREE_KEYS[key] for key in ("out", PARENT)}


@dataclass(frozen=True)
class Comparison:
    conflicts: Diff
    """What would make another result; an input is shown with its id."""
    allowed: Diff
    """What may differ, to be logged: free keys, and inputs that only moved."""


def identity(config: Mapping[str, Any], inputs: Mapping[str, str] = MappingProxyType({}), kind: str = "") -> Tree:
    """The flat config without the free keys of its kind; the inputs, by flat key, count by id instead of by path. A
    list of paths is one flat value, and its items are inputs: `source[0]`."""
    paths = {key: value for key, value in flatten(config).items() if not any(covers(key, each) for each in inputs)}
    flat = {**paths, **inputs}
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
    old_flat, new_flat = flatten(old), flatten(new)
    old_identity = _without_emptied(identity(old, old_inputs, kind), new_flat)
    new_identity = _without_emptied(identity(new, new_inputs, kind), old_flat)
    differing = diff_flat({"old": old_identity, "new": new_identity})
    everything = diff_flat({"old": old_flat, "new": new_flat})
    sides = _show(old_flat, old_inputs), _show(new_flat, new_inputs)
    conflicts = {key: [side.get(key, MISSING) for side in sides] for key in differing.rows}
    allowed = {key: row for key, row in everything.rows.items() if key not in differing.rows}
    return Comparison(Diff(differing.names, conflicts), Diff(differing.names, allowed))


def _without_emptied(flat: Tree, other: Tree) -> Tree:
    """Leaves out `{}` where the other config has keys inside: they are free, or else they differ anyway."""
    return {
        key: value
        for key, value in flat.items()
        if value != {} or not any(covers(key, inner) and inner != key for inner in other)
    }


def _show(flat: Tree, inputs: Mapping[str, str]) -> Tree:
    return {**flat, **{key: f"{flat.get(key, '')} (id {inputs[key]})".lstrip() for key in inputs}}
