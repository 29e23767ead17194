"""Config files: JSON text in, JSON text out, always written in one way. Does not know what the keys mean.

`--conf '{"model.lr": 1e-3}'`: changes merged into a config before it is written. Knows no schema: whether
the merged config makes sense is checked later, by those who read it.
"""

import copy
import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from samovar.config.diff import flatten
from samovar.config.strict_json import parse_json
from samovar.config.values import Tree, at, describe, join, nearest
from samovar.errors import ConfigError


def read_config(path: str | os.PathLike[str]) -> Tree:
    file = Path(path)
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        raise ConfigError(_missing_file(file)) from None
    except IsADirectoryError:
        cure = f"name the file in it{_suggest(file / 'model_config.json')}"
        raise ConfigError(f"{file}: found a directory, expected a JSON file: {cure}") from None
    except OSError as error:
        cure = "check the path and its permissions"
        raise ConfigError(f"{file}: {error.strerror}, expected a readable JSON file: {cure}") from None
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        found = f"found byte 0x{data[error.start]:02x} at offset {error.start}"
        raise ConfigError(f"{file}: {found}, expected UTF-8 text: save it as UTF-8") from None
    return parse_config(text, str(file))


def resolve_path(path: str, folder: Path, symlinks: Literal["keep", "follow"] | None = None) -> Path:
    """The file or folder that a config names: `~` is the home folder, a relative path starts at the config's folder.

    Args:
        path: The path as the config has it.
        folder: The folder of the config file.
        symlinks: "keep" and "follow" make the path absolute; "follow" also replaces symbolic links by their targets.
            None only joins: the path stays relative if `folder` is.
    """
    joined = folder / Path(path).expanduser()
    if symlinks is None:
        return joined
    return joined.resolve() if symlinks == "follow" else Path(os.path.abspath(joined))


def parse_config(text: str, where: str) -> Tree:
    tree = parse_json(text.removeprefix("\ufeff"), where)  # Windows editors put a byte order mark first
    if not isinstance(tree, dict):
        cure = 'write {"key": value, …}'
        raise ConfigError(f"{where}: found {describe(tree)}, expected an object at the top: {cure}")
    return tree


def dump_config(tree: Mapping[str, Any]) -> str:
    """The one way a config is written: keys stay in the given order."""
    for path, found in _foreign(tree, ""):
        raise ConfigError(f"{path or 'config'}: found {found}, which JSON cannot hold: use plain values")
    return json.dumps(tree, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _foreign(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, item in value.items():
            if isinstance(key, str):
                yield from _foreign(item, join(path, key))
            else:  # json would write 1 as "1", and the config would come back changed
                yield path, f"the key {key!r}"
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _foreign(item, at(path, index))
    elif isinstance(value, float) and not math.isfinite(value):
        yield path, str(value)
    elif not isinstance(value, str | int | float | None):
        yield path, describe(value)


def _missing_file(file: Path) -> str:
    return f"{file}: no such file, expected a JSON config: check the path{_suggest(file)}"


def _suggest(file: Path) -> str:
    """Names the JSON file of that folder which is most like `file`, if there is one."""
    try:
        names = [entry.name for entry in file.parent.iterdir() if entry.suffix == ".json"]
    except OSError:  # the folder is missing too: there is nothing to suggest
        return ""
    best = nearest(file.name, names)
    return f"; did you mean {str(file.with_name(best))!r}?" if best else ""


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
