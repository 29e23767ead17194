"""`--conf '{"model.lr": 1e-3}'`: changes merged into a config before it is written. Knows no schema: whether
the merged config makes sense is checked later, by those who read it."""

import copy
from collections.abc import Mapping
from typing import Any

from samovar.config.diff import flatten
from samovar.config.document import parse_config
from samovar.config.paths import join
from samovar.config.values import Tree, describe
from samovar.errors import ConfigError

_WHERE = "--conf"
_EXAMPLE = """example: --conf '{"model.lr": 1e-3}' (single quotes keep the shell away from the double ones)"""


def parse_override(text: str) -> Tree:
    """The override as written. A dotted key stays as it is: only `merge` sees whether it names a path."""
    try:
        override = parse_config(text, _WHERE)
    except ConfigError as error:
        raise ConfigError(f"{error}\nthe text was: {text}\n{_EXAMPLE}") from None
    seen: set[str] = set()
    for key, value in override.items():
        for path in flatten(value, key) if isinstance(value, dict) else [key]:
            if path in seen:
                raise ConfigError(f"{_WHERE}: {path!r} is given twice, expected once: keep one of the two")
            seen.add(path)
    return override


def merge(base: Mapping[str, Any], *overrides: Mapping[str, Any]) -> Tree:
    """A new tree: objects merge, all else is replaced, null replaces anything. A dotted key at the top of
    an override is a path, unless the config has that very key; inside an object keys are literal."""
    merged = copy.deepcopy(dict(base))
    for override in overrides:
        for key, value in override.items():
            *sections, last = _address(merged, key)
            _merge_into(_descend(merged, sections, key), {last: copy.deepcopy(value)}, _path_of(sections))
    return merged


def _address(tree: Tree, key: str) -> list[str]:
    """The keys to walk from `tree`. Existing keys win, the longest first, so `emb.lr` may be one key."""
    names = key.split(".")
    for count in range(len(names), 0, -1):
        head, rest = ".".join(names[:count]), ".".join(names[count:])
        if head in tree and count == len(names):
            return [head]
        if isinstance(tree.get(head), dict):
            return [head, *_address(tree[head], rest)]
    if len(names) > 1 and "" in names:
        raise ConfigError(f"{_WHERE}: found the key {key!r}, expected names between the dots: {_EXAMPLE}")
    return names


def _descend(tree: Tree, sections: list[str], key: str) -> Tree:
    for depth, section in enumerate(sections, 1):
        if tree.get(section) is None:
            tree[section] = {}
        if not isinstance(tree[section], dict):
            path = _path_of(sections[:depth])
            cure = f"give {path!r} a whole new value, or mend the key"
            found = f"found {describe(tree[section])} at {path!r}"
            raise ConfigError(f"{_WHERE}: {key!r}: {found}, expected an object there: {cure}")
        tree = tree[section]
    return tree


def _merge_into(tree: Tree, override: Tree, path: str) -> None:
    for key, value in override.items():
        place, old = join(path, key), tree.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            _merge_into(old, value, place)
        elif isinstance(old, dict) and value is not None:
            found, cure = f"found {describe(value)}", "override single keys of it, or null to drop it"
            raise ConfigError(f"{_WHERE}: {place!r}: {found}, expected {describe(old)}: {cure}")
        else:
            tree[key] = value


def _path_of(sections: list[str]) -> str:
    path = ""
    for section in sections:
        path = join(path, section)
    return path
