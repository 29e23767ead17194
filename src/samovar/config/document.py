"""Config files: JSON text in, JSON text out, always written in one way. Does not know what the keys mean."""

import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from samovar.config.nearest import nearest
from samovar.config.paths import at, join
from samovar.config.strict_json import parse_json
from samovar.config.values import Tree, describe
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
