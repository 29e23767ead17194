"""Config files: read, written in one way only, and changed by overrides such as `--conf '{"model.lr": 1e-3}'`. Knows
no schema: whether a config makes sense is checked later.
"""

import copy
import json
import math
import os
from collections.abc import Iterator, Mapping
from typing import Any

from samovar.config.diff import flatten
from samovar.config.places import as_path, suggest_path
from samovar.config.records import read_regular
from samovar.config.strict_json import parse_json
from samovar.config.values import Tree, at, describe, join
from samovar.errors import ConfigError

ROW_SUFFIXES = (".parquet", ".pq", ".csv", ".tsv", ".jsonl", ".ndjson", ".arrow", ".feather", ".ipc")
"""Of files that brewing reads, without JSON, which configs are written in."""
COMPRESSIONS = (".gz", ".bz2", ".zst", ".lz4")


def read_config(path: str | os.PathLike[str]) -> Tree:
    """Read a config from a JSON file.

    Raises:
        ConfigError: There is no such file, or it is not a JSON object.

    Example:
        >>> read_config("model.json")["model_dir"]
        'models/click'
    """
    file = as_path(path, "the config")
    inner = file.with_suffix("") if file.suffix.lower() in COMPRESSIONS else file
    if inner.suffix.lower() in ROW_SUFFIXES and file.is_file():
        hint = f"`samovar recipe {file}` drafts a recipe to brew it"
        raise ConfigError(f"{file} holds rows; expected a JSON config. {hint}")
    try:
        data = read_regular(file)
    except FileNotFoundError:
        raise ConfigError(f"{file}: no such file{suggest_path(file, '*.json')}") from None
    except IsADirectoryError:
        hint = suggest_path(file / "model_config.json", "*.json")
        raise ConfigError(f"{file} is a directory, not a JSON file{hint}") from None
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from None
    return decode_config(data, str(file))


def decode_config(data: bytes, where: str) -> Tree:
    """Parse the bytes of a config file; `where` is its name in errors."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        found = f"byte 0x{data[error.start]:02x} at offset {error.start}"
        raise ConfigError(f"{where} must be UTF-8 text, got {found}") from None
    return parse_config(text, where)


def parse_config(text: str, where: str) -> Tree:
    """Parse the text of a config; `where` is its name in errors."""
    tree = parse_json(text.removeprefix("\ufeff"), where)  # Windows editors write a byte order mark
    if not isinstance(tree, dict):
        raise ConfigError(f'{where} must be an object, {{"key": value, …}}, got {describe(tree)}')
    return tree


def dump_config(tree: Mapping[str, Any]) -> str:
    """The only way a config is written. Keys keep their order."""
    for path, found in _foreign(tree, ""):
        raise ConfigError(f"{path or 'config'}: JSON cannot hold {found}")
    return json.dumps(tree, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _foreign(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, item in value.items():
            if isinstance(key, str):
                yield from _foreign(item, join(path, key))
            else:  # json would write 1 as "1"
                yield path, f"the key {key!r}"
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _foreign(item, at(path, index))
    elif isinstance(value, float) and not math.isfinite(value):
        yield path, str(value)
    elif not isinstance(value, str | int | float | None):
        yield path, describe(value)


_WHERE = "--conf"
_EXAMPLE = """Example: --conf '{"model.lr": 1e-3}' (the single quotes protect the double ones from the shell)"""


def parse_override(text: str) -> Tree:
    """Parse the value of `--conf`. A dotted key is kept: only `merge` knows whether it is a path.

    Raises:
        ConfigError: The text is not a JSON object, or gives a key twice.
    """
    try:
        override = parse_config(text, _WHERE)
    except ConfigError as error:
        raise ConfigError(f"{error}\nThe text was: {text}\n{_EXAMPLE}") from None
    seen: set[str] = set()
    for key, value in override.items():
        for path in flatten(value, key) if isinstance(value, dict) else [key]:
            if path in seen:
                raise ConfigError(f"{_WHERE}: {path!r} is given twice")
            seen.add(path)
    return override


def merge(base: Mapping[str, Any], *overrides: Mapping[str, Any], where: str = _WHERE) -> Tree:
    """Apply overrides to a config: objects are merged, other values replaced, and null replaces anything.

    A dotted key at the top of an override is a path, unless the config has that very key. Inside an object keys are
    literal. `where` names the overrides in errors.

    Returns:
        A new config.

    Raises:
        ConfigError: An override would replace an object by a value, or a value by an object.

    Example:
        >>> merge({"model": {"lr": 0.1, "dim": 8}}, {"model.lr": 0.2})
        {'model': {'lr': 0.2, 'dim': 8}}
    """
    merged = copy.deepcopy(dict(base))
    for override in overrides:
        for key, value in override.items():
            *sections, last = _address(merged, key, where)
            section = _descend(merged, sections, key, where)
            _merge_into(section, {last: copy.deepcopy(value)}, _path_of(sections), where)
    return merged


def _address(tree: Tree, key: str, where: str) -> list[str]:
    """The keys on the way from `tree`. Existing keys win, the longest first, so `emb.lr` may be one key."""
    names = key.split(".")
    for count in range(len(names), 0, -1):
        head, rest = ".".join(names[:count]), ".".join(names[count:])
        if head in tree and count == len(names):
            return [head]
        if isinstance(tree.get(head), dict):
            return [head, *_address(tree[head], rest, where)]
    if len(names) > 1 and "" in names:
        raise ConfigError(f"{where}: the key {key!r} has an empty name between its dots. Use a path such as model.lr")
    return names


def _descend(tree: Tree, sections: list[str], key: str, where: str) -> Tree:
    for depth, section in enumerate(sections, 1):
        if tree.get(section) is None:
            tree[section] = {}
        if not isinstance(tree[section], dict):
            path = _path_of(sections[:depth])
            raise ConfigError(f"{where}: cannot set {key!r}, because {path!r} is {describe(tree[section])}")
        tree = tree[section]
    return tree


def _merge_into(tree: Tree, override: Tree, path: str, where: str) -> None:
    for key, value in override.items():
        place, old = join(path, key), tree.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            _merge_into(old, value, place, where)
        elif isinstance(old, dict) and value is not None:
            raise ConfigError(
                f"{where}: {place!r} is {describe(old)} and cannot become {describe(value)}. "
                "Set single keys of it, or remove it with null"
            )
        else:
            tree[key] = value


def _path_of(sections: list[str]) -> str:
    path = ""
    for section in sections:
        path = join(path, section)
    return path
