"""Result directories below a folder, found by their files: no list of them is kept."""

import os
from collections.abc import Iterator
from pathlib import Path

from samovar.results.directory import CONFIG, EXTERNAL
from samovar.store.paths import RESERVED

# What a result directory has inside is no other result.
_INNER = frozenset({"snapshot", "evaluation", "logs", "model", EXTERNAL})


def is_result(folder: Path) -> bool:
    return (folder / CONFIG).is_file() and (folder / RESERVED).is_dir()


def find_results(folder: Path | str) -> Iterator[Path]:
    """The folder itself if it is a result, and all that lie below it, sorted; links are not followed."""
    entries = _entries(folder)
    is_inside = {CONFIG, RESERVED} <= entries.keys()
    if is_inside:
        yield Path(folder)
    for name in sorted(entries):
        if name.startswith(".") or (is_inside and (name in _INNER or name.startswith("all_files"))):
            continue
        if entries[name].is_dir(follow_symlinks=False):
            yield from find_results(entries[name].path)


def _entries(folder: Path | str) -> dict[str, os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return {entry.name: entry for entry in found}
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return {}  # gone since it was listed, or not ours to look into
