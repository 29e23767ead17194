"""The raw files that a stage's config names: `"files": "images/**/*.png"`, or a list of such patterns. Reads their
names and sizes and, with `"checksum": true`, every byte; changes nothing.

The list is kept in lineage.json, so that it can be told later which file changed.
"""

import glob
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from samovar.brew.sources import fingerprint
from samovar.config.diff import diff_flat
from samovar.config.values import MISSING, describe
from samovar.errors import BadInput, ConfigError
from samovar.results import Source

KEY = "files"
CHECKSUM = "checksum"


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
            raise BadInput(f"{KEY}: {', '.join(self.patterns)}: no such file; expected at least one: check the pattern")
        return paths

    def as_source(self, has_checksum: bool) -> Source:
        """The list of files as a link of lineage, where the chain ends."""
        base = os.path.commonpath([_fixed_part(pattern) for pattern in self.patterns])
        files = {os.path.relpath(path, base): _describe(path, has_checksum) for path in self.find()}
        text = json.dumps(files, sort_keys=True).encode()
        name = hashlib.sha256(text).hexdigest()[:32]
        return Source(KEY, ", ".join(self.patterns), name, is_raw=True, content={"files": files})


def find_raw(config: Mapping[str, Any], folder: Path) -> RawFiles | None:
    """Relative patterns begin at `folder`; None when the config names no files."""
    given = config.get(KEY)
    if given is None:
        return None
    listed = [given] if isinstance(given, str) else given
    if not isinstance(listed, list) or not listed or not all(isinstance(each, str) and each for each in listed):
        raise ConfigError(f"{KEY}: found {describe(given)}, expected a path or pattern, or a list of them: mend it")
    return RawFiles(
        [os.path.abspath(folder / Path(each).expanduser()) for each in listed], is_list=isinstance(given, list)
    )


def wants_checksum(config: Mapping[str, Any]) -> bool:
    """Whether raw files count by their content."""
    given = config.get(CHECKSUM)
    if given is not None and not isinstance(given, bool):
        raise ConfigError(f"{CHECKSUM}: found {describe(given)}, expected true or false: mend it")
    return bool(given)


def changed_files(old: Source, new: Source) -> list[str]:
    """Which files are not as they were, one line each."""
    before, after = ((source.content or {})[KEY] for source in (old, new))
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
