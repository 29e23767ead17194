"""The key `cloned_from`: which config a clone was made from, and what was changed. It stands in the clone itself, so
that neither can be had without the other; no schema, ledger or identity sees it, because it changes no result."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from samovar.config.values import Tree, describe
from samovar.errors import ConfigError

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
