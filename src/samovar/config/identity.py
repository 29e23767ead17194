"""When a run may go on in a directory: which keys of the config make the result, and which may differ.
The one place of that rule. Knows neither directories nor tables: who opens the inputs gives their ids."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

from samovar.config.diff import Diff, diff_flat, flatten
from samovar.config.parent import PARENT
from samovar.config.paths import covers
from samovar.config.values import MISSING, Tree

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
