"""What a stage's config reads: earlier results (`source`, `table`) and raw files (`files`). Changes nothing.

    "source": "data"      "source": ["data", "labels"]      "source": {"train": "data", "test": "other/data"}
    "files": "images/**/*.png", or a list of such patterns; "checksum": true reads every byte of them

A `source` must be a finished result; a `table` is a link of the chain if it is a result directory. The list of raw
files is kept in lineage.json, so that `samovar why` can name the file that changed.
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
from samovar.config.places import Place, as_path
from samovar.config.values import MISSING, at, describe, join
from samovar.errors import BadInput, ConfigError, Conflict, CorruptData, NotAResult
from samovar.results import ResultDirectory, Source, open_directory
from samovar.store import open_store

SOURCE_KEYS = ("source", "table")
FILES_KEY = "files"
CHECKSUM_KEY = "checksum"


@dataclass(frozen=True)
class NamedSource:
    """One place in a config that names an earlier result."""

    key: str
    name: str
    """What a script calls it."""
    path: Place
    is_only: bool = False
    """Written as a plain string: a script may call it anything."""

    def open(self) -> ResultDirectory:
        return open_directory(self.path)


@dataclass(frozen=True)
class RawFiles:
    patterns: Sequence[str]
    """As absolute paths."""
    is_list: bool
    """Whether the config has a list."""

    @property
    def value(self) -> str | list[str]:
        """The value of `files` in the effective config."""
        return list(self.patterns) if self.is_list else self.patterns[0]

    @property
    def any_exists(self) -> bool:
        return any(os.path.isfile(path) for pattern in self.patterns for path in glob.iglob(pattern, recursive=True))

    def find(self) -> list[Path]:
        """Sorted, without duplicates."""
        found = {path for pattern in self.patterns for path in glob.glob(pattern, recursive=True)}
        paths = sorted(Path(path) for path in found if os.path.isfile(path))
        if not paths:
            raise BadInput(f"{FILES_KEY}: no file matches {', '.join(self.patterns)}")
        return paths

    def as_source(self, with_checksum: bool) -> Source:
        """The list of files as a link of the lineage, where the chain ends."""
        base = os.path.commonpath([_fixed_part(pattern) for pattern in self.patterns])
        files = {os.path.relpath(path, base): _describe_file(path, with_checksum) for path in self.find()}
        text = json.dumps(files, sort_keys=True).encode()
        source_id = hashlib.sha256(text).hexdigest()[:32]
        return Source(FILES_KEY, ", ".join(self.patterns), source_id, is_raw=True, content={"files": files})


@dataclass(frozen=True)
class StageInputs:
    """Everything that a stage's config names."""

    named: Sequence[NamedSource]
    raw: RawFiles | None
    with_checksum: bool

    def with_absolute_paths(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """A copy of the config that can be run again from anywhere."""
        resolved = dict(config)
        for key in SOURCE_KEYS:
            paths = [each for each in self.named if each.key.startswith(key)]
            if not paths:
                continue
            if isinstance(config[key], str):
                resolved[key] = str(paths[0].path)
            elif isinstance(config[key], list):
                resolved[key] = [str(each.path) for each in paths]
            else:
                resolved[key] = {each.name: str(each.path) for each in paths}
        return resolved if self.raw is None else {**resolved, FILES_KEY: self.raw.value}

    def as_sources(self, recorded: Sequence[Source]) -> list[Source]:
        """The links of the lineage. An input that is gone counts as it was recorded."""
        known = {source.key: source for source in recorded}
        links = [_link(each, known.get(each.key)) for each in self.named]
        if self.raw is None:
            return links
        files = known.get(FILES_KEY)
        if files is not None and files.path == ", ".join(self.raw.patterns) and not self.raw.any_exists:
            return [*links, files]
        return [*links, self.raw.as_source(self.with_checksum)]

    def check_sources(self, out: Place) -> None:
        """Each source exists, is finished, and was not made from `out`."""
        for each in self.named:
            _check_source(each, out)


def find_inputs(config: Mapping[str, Any], folder: Place) -> StageInputs:
    """Relative paths and patterns are relative to `folder`."""
    return StageInputs(find_sources(config, folder), find_raw_files(config, folder), wants_checksum(config))


def find_sources(config: Mapping[str, Any], folder: Place) -> list[NamedSource]:
    """The earlier results that `source` and `table` name."""
    named = [each for key in SOURCE_KEYS for each in _read_sources(key, config.get(key), folder)]
    found = [each for each in named if each.key.startswith("source") or _is_result(each.path)]
    names = [each.name for each in found]
    for each in found:
        if names.count(each.name) > 1:
            raise ConfigError(
                f'{each.key}: two sources are called {each.name!r}. Name them: "source": {{"name": "path", …}}'
            )
    return [replace(each, is_only=each.is_only and len(found) == 1) for each in found]


def find_raw_files(config: Mapping[str, Any], folder: Place) -> RawFiles | None:
    """None if the config has no `files`."""
    given = config.get(FILES_KEY)
    if given is None:
        return None
    listed = [given] if isinstance(given, str) else given
    if not isinstance(listed, list) or not listed or not all(isinstance(each, str) and each for each in listed):
        raise ConfigError(f"{FILES_KEY}: expected a path or pattern, or a list of them, got {describe(given)}")
    return RawFiles(
        [str(as_path(resolve_path(each, folder, symlinks="keep"), FILES_KEY)) for each in listed],
        is_list=isinstance(given, list),
    )


def wants_checksum(config: Mapping[str, Any]) -> bool:
    """Whether raw files are identified by their content, and not only by name and size."""
    given = config.get(CHECKSUM_KEY)
    if given is not None and not isinstance(given, bool):
        raise ConfigError(f"{CHECKSUM_KEY}: expected true or false, got {describe(given)}")
    return bool(given)


def list_changed_files(old: Source, new: Source) -> list[str]:
    """One line per raw file that was added, removed or changed."""
    before, after = (dict(source.content or {}).get(FILES_KEY, {}) for source in (old, new))
    if not isinstance(before, dict):
        raise CorruptData(f"the lineage of {old.path} is damaged ({FILES_KEY} is {describe(before)}, not an object)")
    lines = []
    for name, (was, now) in diff_flat({"old": before, "new": after}).rows.items():
        state = "is missing" if now is MISSING else "is new" if was is MISSING else "changed"
        lines.append(f"{name} {state}")
    return lines


def _read_sources(key: str, value: Any, folder: Place) -> Iterator[NamedSource]:
    def named(place: str, name: str, path: Any) -> NamedSource:
        if not isinstance(path, str) or not path:
            raise ConfigError(f"{place}: expected the path of a result directory, got {describe(path)}")
        return NamedSource(place, name, resolve_path(path, folder, symlinks="follow"), place == key)

    if value is None or (key == "table" and not isinstance(value, str)):
        return
    if isinstance(value, list):
        paths = [named(at(key, index), "", path) for index, path in enumerate(value)]
        yield from (replace(each, name=each.path.name) for each in paths)
    elif isinstance(value, Mapping):
        yield from (named(join(key, name), name, path) for name, path in value.items())
    else:
        yield named(key, key, value)


def _is_result(path: Place) -> bool:
    try:
        return open_directory(path).is_created
    except NotAResult:
        return False


def _check_source(source: NamedSource, out: Place) -> None:
    try:
        origin = source.open()
    except NotAResult as error:
        raise NotAResult(
            f"{source.key}: {error}. Run the stage that makes it first; raw files go in `files`"
        ) from error
    above = [str(source.path), *(link.source.path for link in origin.chain())]
    if str(out.resolve()) in above:
        circle = " → ".join([str(out), *above[: above.index(str(out.resolve())) + 1]])
        raise ConfigError(f"{source.key}: {source.path} was itself made from {out} ({circle})")
    if not origin.is_finished and not origin.is_live:
        raise Conflict(f"{source.key}: {source.path} is not finished ({origin.describe_state()})")


def _link(source: NamedSource, recorded: Source | None) -> Source:
    if recorded is not None and recorded.path == str(source.path) and not open_store(source.path).exists():
        return recorded
    origin = source.open()
    return origin.as_source(source.key, origin.version)


def _fixed_part(pattern: str) -> str:
    """The folder above the first part with a wildcard."""
    parts = Path(pattern).parts
    count = next((index for index, part in enumerate(parts) if glob.has_magic(part)), len(parts) - 1)
    return str(Path(*parts[:count]))


def _describe_file(path: Path, with_checksum: bool) -> list[str | int]:
    """Its size and, if asked for, its XXH64."""
    size = path.stat().st_size
    return [size, fingerprint(path)["xxh64"]] if with_checksum else [size]
