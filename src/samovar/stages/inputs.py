"""Which earlier results a stage's config names: the keys `source` and `table`. Opens them, and changes nothing.

    "source": "data"      "source": ["data", "labels"]      "source": {"train": "data", "test": "other/data"}

A `source` must be a finished result; a `table` counts as a link if it is a result directory.

The raw files that a stage's config names: `"files": "images/**/*.png"`, or a list of such patterns. Reads their
names and sizes and, with `"checksum": true`, every byte; changes nothing.

The list is kept in lineage.json, so that it can be told later which file changed.
"""

import glob
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from samovar.brewing.sources import fingerprint
from samovar.config import resolve_path
from samovar.config.diff import diff_flat
from samovar.config.values import MISSING, at, describe, join
from samovar.errors import BadInput, ConfigError, Conflict, NotAResult
from samovar.results import ResultDirectory, Source, open_directory

KEYS = ("source", "table")


@dataclass(frozen=True)
class Named:
    """One place of a config that names an earlier result."""

    key: str
    name: str
    """How a script calls it."""
    path: Path
    is_only: bool = False
    """Written as a plain string: a script may call it what it likes."""

    def open(self) -> ResultDirectory:
        return open_directory(self.path)


def find_named(config: Mapping[str, Any], folder: Path) -> list[Named]:
    """Relative paths begin at `folder`."""
    named = [each for key in KEYS for each in _read(key, config.get(key), folder)]
    found = [each for each in named if each.key.startswith("source") or _is_result(each.path)]
    names = [each.name for each in found]
    for each in found:
        if names.count(each.name) > 1:
            raise ConfigError(
                f"{each.key}: {each.name!r} is the name of two sources; expected one of each: "
                'give them names, "source": {"name": "path", …}'
            )
    return [replace(each, is_only=each.is_only and len(found) == 1) for each in found]


def _read(key: str, value: Any, folder: Path) -> Iterator[Named]:
    def named(place: str, name: str, path: Any) -> Named:
        if not isinstance(path, str) or not path:
            raise ConfigError(f"{place}: found {describe(path)}, expected the path of a result directory: mend it")
        return Named(place, name, resolve_path(path, folder, symlinks="follow"), place == key)

    if value is None or (key == "table" and not isinstance(value, str)):
        return
    if isinstance(value, list):
        paths = [named(at(key, index), "", path) for index, path in enumerate(value)]
        yield from (replace(each, name=each.path.name) for each in paths)
    elif isinstance(value, Mapping):
        yield from (named(join(key, name), name, path) for name, path in value.items())
    else:
        yield named(key, key, value)


def _is_result(path: Path) -> bool:
    try:
        return open_directory(path).is_created
    except NotAResult:
        return False


def with_paths(config: Mapping[str, Any], named: Sequence[Named]) -> dict[str, Any]:
    """The config with whole paths, so that it can be run again from anywhere."""
    whole = dict(config)
    for key in KEYS:
        paths = [each for each in named if each.key.startswith(key)]
        if not paths:
            continue
        if isinstance(config[key], str):
            whole[key] = str(paths[0].path)
        elif isinstance(config[key], list):
            whole[key] = [str(each.path) for each in paths]
        else:
            whole[key] = {each.name: str(each.path) for each in paths}
    return whole


def require_good(named: Sequence[Named], out: Path) -> None:
    """Each is there, finished, and not made from the result that is to be made."""
    for each in named:
        try:
            origin = each.open()
        except NotAResult as error:
            cure = "run the stage that makes it first; raw files are named by another key"
            raise NotAResult(f"{each.key}: {error}, or {cure}") from error
        above = [str(each.path), *(link.source.path for link in origin.chain())]
        if str(out.resolve()) in above:
            way = " → ".join([str(out), *above[: above.index(str(out.resolve())) + 1]])
            raise ConfigError(
                f"{each.key}: {each.path} is itself made from {out}, a circle ({way}); expected sources that were made "
                "before: name another source, or another directory"
            )
        if not origin.is_finished and not origin.is_live:
            raise Conflict(
                f"{each.key}: {each.path} is not finished ({origin.describe_state()}); expected a finished result: "
                "let it end first"
            )


def as_sources(named: Sequence[Named], known: Sequence[Source] = ()) -> list[Source]:
    """The links of lineage; one that is gone counts as it was recorded."""
    recorded = {source.key: source for source in known}
    links = []
    for each in named:
        old = recorded.get(each.key)
        if old is not None and old.path == str(each.path) and not each.path.exists():
            links.append(old)
        else:
            origin = each.open()
            links.append(origin.as_source(each.key, origin.store.attributes().values.get("version")))
    return links


FILES_KEY = "files"
CHECKSUM_KEY = "checksum"


@dataclass(frozen=True)
class RawFiles:
    patterns: Sequence[str]
    """With whole paths."""
    is_list: bool
    """Whether the config gives a list."""

    @property
    def value(self) -> str | list[str]:
        """As the effective config keeps them."""
        return list(self.patterns) if self.is_list else self.patterns[0]

    @property
    def is_there(self) -> bool:
        return any(os.path.isfile(path) for pattern in self.patterns for path in glob.iglob(pattern, recursive=True))

    def find(self) -> list[Path]:
        """Sorted, each once."""
        found = {path for pattern in self.patterns for path in glob.glob(pattern, recursive=True)}
        paths = sorted(Path(path) for path in found if os.path.isfile(path))
        if not paths:
            raise BadInput(f"{FILES_KEY}: {', '.join(self.patterns)}: no such file: check the pattern")
        return paths

    def as_source(self, has_checksum: bool) -> Source:
        """The list of files as a link of lineage, where the chain ends."""
        base = os.path.commonpath([_fixed_part(pattern) for pattern in self.patterns])
        files = {os.path.relpath(path, base): _describe(path, has_checksum) for path in self.find()}
        text = json.dumps(files, sort_keys=True).encode()
        name = hashlib.sha256(text).hexdigest()[:32]
        return Source(FILES_KEY, ", ".join(self.patterns), name, is_raw=True, content={"files": files})


def find_raw(config: Mapping[str, Any], folder: Path) -> RawFiles | None:
    """Relative patterns begin at `folder`; None when the config names no files."""
    given = config.get(FILES_KEY)
    if given is None:
        return None
    listed = [given] if isinstance(given, str) else given
    if not isinstance(listed, list) or not listed or not all(isinstance(each, str) and each for each in listed):
        raise ConfigError(f"{FILES_KEY}: found {describe(given)}, expected a path or pattern, or a list of them")
    return RawFiles(
        [str(resolve_path(each, folder, symlinks="keep")) for each in listed], is_list=isinstance(given, list)
    )


def wants_checksum(config: Mapping[str, Any]) -> bool:
    """Whether raw files count by their content."""
    given = config.get(CHECKSUM_KEY)
    if given is not None and not isinstance(given, bool):
        raise ConfigError(f"{CHECKSUM_KEY}: found {describe(given)}, expected true or false: mend it")
    return bool(given)


def changed_files(old: Source, new: Source) -> list[str]:
    """Which files are not as they were, one line each."""
    before, after = ((source.content or {})[FILES_KEY] for source in (old, new))
    rows = diff_flat({"old": before, "new": after}).rows.items()
    words = {True: "is new", False: "changed"}
    return [f"{name} {'is gone' if now is MISSING else words[was is MISSING]}" for name, (was, now) in rows]


def _fixed_part(pattern: str) -> str:
    """The folder above the first part that fits more than one name."""
    parts = Path(pattern).parts
    count = next((index for index, part in enumerate(parts) if glob.has_magic(part)), len(parts) - 1)
    return str(Path(*parts[:count]))


def _describe(path: Path, has_checksum: bool) -> list[str | int]:
    """Size and, if asked for, XXH64."""
    whole = fingerprint(path) if has_checksum else {}
    return [path.stat().st_size, *([whole["xxh64"]] if has_checksum else [])]
