"""Which earlier results a stage's config names: the keys `source` and `table`. Opens them, and changes nothing.

    "source": "data"      "source": ["data", "labels"]      "source": {"train": "data", "test": "other/data"}

A `source` must be a finished result; a `table` counts as a link if it is a result directory.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from samovar.config.paths import at, join
from samovar.config.values import describe
from samovar.errors import ConfigError, Conflict, NotOurs
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
        return Named(place, name, (folder / Path(path).expanduser()).resolve(), place == key)

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
    except NotOurs:
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
        except NotOurs as error:
            cure = "run the stage that makes it first; raw files are named by another key"
            raise NotOurs(f"{each.key}: {error}, or {cure}") from error
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
