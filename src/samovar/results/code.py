"""The code of a result: its short name, and how other code differs from it. Reads directories, runs nothing."""

import json
from collections.abc import Mapping
from difflib import unified_diff

from samovar.results.directory import ResultDirectory
from samovar.results.lineage import digest

_MOST_DIFF_LINES = 20
_NAME_LENGTH = 8


def name_code(code: Mapping[str, str]) -> str | None:
    """A short name that is the same for the same code, as tables show it; None if there is no code.

    Args:
        code: The digest of each file, as `ResultDirectory.code` has it.
    """
    return digest(json.dumps(dict(code), sort_keys=True).encode())[:_NAME_LENGTH] if code else None


def find_changed_files(directory: ResultDirectory, files: Mapping[str, bytes]) -> list[str]:
    """The files of the code in which a directory differs from these, by the paths that the directory keeps."""
    old, new = directory.code, {name: digest(data) for name, data in files.items()}
    return sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))


def diff_code(directory: ResultDirectory, files: Mapping[str, bytes]) -> str:
    """A colon and the lines in which these files differ from the code of a directory; empty if there are none."""
    lines: list[str] = []
    for name in find_changed_files(directory, files):
        kept = directory.store.read(name) if directory.store.size(name) is not None else b""
        old, new = (code.decode(errors="replace").splitlines() for code in (kept, files.get(name, b"")))
        lines += unified_diff(old, new, name, name, n=0, lineterm="")
    if not lines:
        return ""
    shown = "\n".join(f"  {line}" for line in lines[:_MOST_DIFF_LINES])
    rest = f"\n  … {len(lines) - _MOST_DIFF_LINES} more lines" if len(lines) > _MOST_DIFF_LINES else ""
    return f":\n{shown}{rest}"
