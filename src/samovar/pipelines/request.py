"""What the user asks for, put together from files and options. Runs nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from samovar.config import merge, parse_override, read_config
from samovar.config.place import DIRECTORY_KEYS, named_place
from samovar.pipelines.script import Script, parse_file_options, read_script
from samovar.results import ResultDirectory
from samovar.store.disk import Disk


@dataclass(frozen=True)
class Request:
    """A training, or a stage of the user's own."""

    tree: Mapping[str, Any]
    """The config, after all overrides."""
    where: str
    """For messages: the config's file."""
    folder: Path
    """Where relative paths begin."""
    script: Script
    out: Path
    """The result directory."""
    accept_script: bool = False
    accept_defaults: bool = False
    """Go on though the code's defaults changed since an earlier run of the config."""
    replayed: ResultDirectory | None = None
    """The result that is made again: its versions of tables are read, and its defaults hold."""
    disk: Disk | None = None
    """Another disk below the model directory, for tests."""


def make_request(
    config: Path,
    script: Path,
    overrides: Sequence[str] = (),
    files: Sequence[str] = (),
    out: Path | None = None,
    directory_keys: Sequence[str] = DIRECTORY_KEYS,
) -> Request:
    """The directory is `out`, or named by one of the keys, or by the config's own name."""
    tree = merge(read_config(config), *map(parse_override, overrides))
    place = out if out is not None else named_place(config, tree, directory_keys)
    read = read_script(script, parse_file_options(list(files)))
    return Request(tree, str(config), config.parent, read, place)
