"""What the user asks for, put together from files and options. Runs nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from samovar.config import merge, parse_override, read_config
from samovar.config.place import named_place
from samovar.pipelines.script import Script, parse_file_options, read_script
from samovar.store.disk import Disk


@dataclass(frozen=True)
class Request:
    """A training."""

    tree: Mapping[str, Any]
    """The config, after all overrides."""
    where: str
    """For messages: the config's file."""
    folder: Path
    """Where relative paths begin."""
    script: Script
    out: Path
    """The model directory."""
    accept_script: bool = False
    disk: Disk | None = None
    """Another disk below the model directory, for tests."""


def make_request(
    config: Path,
    script: Path,
    overrides: Sequence[str] = (),
    files: Sequence[str] = (),
    out: Path | None = None,
    accept_script: bool = False,
) -> Request:
    tree = merge(read_config(config), *map(parse_override, overrides))
    place = out if out is not None else named_place(config, tree)
    read = read_script(script, parse_file_options(list(files)))
    return Request(tree, str(config), config.parent, read, place, accept_script)
