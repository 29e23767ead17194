"""The store of any place: a folder of this machine, or a URL of an object store."""

import fnmatch
import glob
import re
from collections.abc import Iterator

from samovar.config.document import decode_config, read_config
from samovar.config.places import PathLike, Place, Url, as_place
from samovar.config.values import Tree
from samovar.errors import ConfigError, NotFound
from samovar.store.base import Store, read_small
from samovar.store.disk import Disk
from samovar.store.local import LocalStore

_PIECES = re.compile(r"\[!?\]?[^\]]*\]|.", re.DOTALL)
_WILDCARDS = {"*": "[^/]*", "?": "[^/]"}


def open_store(place: PathLike, disk: Disk | None = None) -> Store:
    """The store of a directory, which may not exist yet. Nothing is touched until it is used.

    Args:
        place: A path, or a URL such as `s3://bucket/models/click`.
        disk: Other system calls for a path; tests pass disks that fail.

    Raises:
        BadInput: It is no place that a store has.

    Example:
        >>> open_store("models/click").list()
        []
    """
    found = as_place(place)
    if isinstance(found, Url):
        from samovar.store.objects import ObjectStore  # here, because obstore is an extra

        return ObjectStore(found)
    return LocalStore(found, disk)


def read_config_at(place: PathLike) -> Tree:
    """Read a config from a JSON file, wherever it is.

    Raises:
        ConfigError: There is no such file, or it is not a JSON object.
    """
    found = as_place(place, "the config")
    if not isinstance(found, Url):
        return read_config(found)
    try:
        return decode_config(read_small(open_store(found.parent), found.name), str(found))
    except NotFound:
        raise ConfigError(f"{found}: no such file") from None


def match_folders(pattern: Url) -> list[Url]:
    """The folders of an object store that a pattern such as `s3://bucket/models/*` names, sorted. `**` stands for any
    number of folders. Without a wildcard: the place itself, if there is anything."""
    if not glob.has_magic(pattern.key):
        return [pattern] if open_store(pattern).exists() else []
    found = {Url(pattern.scheme, pattern.bucket, "")}
    for part in pattern.key.split("/"):
        if part == "**":
            found |= {below for place in found for below in _folders_below(place)}
        elif glob.has_magic(part):
            found = {place / name for place in found for name in fnmatch.filter(_folders(place), part)}
        else:
            found = {place / part for place in found}
    return sorted(place for place in found if open_store(place).exists())


def _folders(place: Url) -> list[str]:
    return [name for name, is_folder in open_store(place).names().items() if is_folder]


def _folders_below(place: Url) -> Iterator[Url]:
    for name in _folders(place):
        yield place / name
        yield from _folders_below(place / name)


def match_files(pattern: Url) -> list[Url]:
    """The files of an object store that a pattern such as `s3://bucket/logs/**/*.parquet` names, sorted."""
    fixed = pattern
    while glob.has_magic(fixed.key):
        fixed = fixed.parent
    if fixed == pattern:
        return [pattern] if open_store(pattern.parent).size(pattern.name) is not None else []
    wanted = re.compile(_to_regex(pattern.key[len(fixed.key) :].lstrip("/")))
    return [fixed / entry.path for entry in open_store(fixed).list() if wanted.fullmatch(entry.path)]


def _to_regex(pattern: str) -> str:
    """A glob as a regular expression: `*` and `?` stay within a name, `**/` stands for any number of folders."""
    parts = []
    for part in pattern.split("/"):
        names = "".join(_WILDCARDS.get(piece) or _to_class(piece) for piece in _PIECES.findall(part))
        parts.append("(?:[^/]+/)*" if part == "**" else f"{names}/")
    return "".join(parts).removesuffix("/")


def _to_class(piece: str) -> str:
    if len(piece) == 1:
        return re.escape(piece)
    body = piece[1:-1].replace("\\", r"\\")
    return f"[^{body[1:]}]" if body.startswith("!") else f"[{body}]"


def place_of(store: Store) -> Place:
    """The place that a store was opened with."""
    return as_place(store.name)
