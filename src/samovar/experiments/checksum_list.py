"""Lists of checksums as sha256sum writes and checks them, and what differs between two. Reads none of the files."""

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from samovar.errors import BadInput

_LINE = re.compile(rb"(\\?)([0-9a-f]{64}) [ *](.+)")
_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r"})
_SPECIAL = re.compile(r"[\\\n\r]")
_ESCAPED = re.compile(r"\\(.)")
_MEANINGS = {"\\": "\\", "n": "\n", "r": "\r"}


@dataclass(frozen=True)
class Changes:
    changed: list[str]
    new: list[str]
    removed: list[str]

    def __bool__(self) -> bool:
        return bool(self.changed or self.new or self.removed)


def to_text(digests: Mapping[str, str]) -> bytes:
    """A line a file: `<digest>  <name>`. A name with a line break or backslash is escaped, as sha256sum does it."""
    if not _SPECIAL.search("".join(digests)):
        return os.fsencode("".join([f"{digest}  {name}\n" for name, digest in digests.items()]))
    lines = []
    for name, digest in digests.items():
        mark = "\\" if _SPECIAL.search(name) else ""
        lines.append(f"{mark}{digest}  {name.translate(_ESCAPES)}\n")
    return os.fsencode("".join(lines))


def digest_of(digests: Mapping[str, str]) -> str:
    """One digest of all names and contents: that of the list itself."""
    return hashlib.sha256(to_text(digests)).hexdigest()


def write_list(path: Path, digests: Mapping[str, str]) -> None:
    """A list is never overwritten: it is what later ones are compared with."""
    try:
        with path.open("xb") as file:
            file.write(to_text(digests))
    except FileExistsError:
        raise BadInput(f"{path}: exists already; expected a new name: give another, or remove it first") from None
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}; expected a place for the list: give another") from None


def read_list(path: Path) -> dict[str, str]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}; expected a list that --save or sha256sum wrote: check it") from None
    digests = {}
    for number, line in enumerate(data.splitlines(), 1):
        form = _LINE.fullmatch(line)
        if form is None:
            raise BadInput(
                f"{path}, line {number}: found {line[:60].decode(errors='replace')!r}; expected a SHA-256 and a name, "
                "as --save or sha256sum writes them: make the list again"
            )
        name = os.fsdecode(form[3])
        digests[_ESCAPED.sub(_unescape, name) if form[1] else name] = form[2].decode()
    return digests


def _unescape(found: re.Match[str]) -> str:
    return _MEANINGS.get(found[1], found[0])


def find_changes(old: Mapping[str, str], new: Mapping[str, str]) -> Changes:
    return Changes(
        sorted(name for name in old.keys() & new.keys() if old[name] != new[name]),
        sorted(new.keys() - old.keys()),
        sorted(old.keys() - new.keys()),
    )
