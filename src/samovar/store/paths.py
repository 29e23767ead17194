"""Which names may stand in a store: relative, clean, and the same name on every disk. Touches no disk."""

import unicodedata

from samovar.errors import BadPath

RESERVED = ".samovar"  # the store's own folder: attributes, locks, temporaries
MAX_NAME_BYTES = 255
_HIDDEN_CATEGORIES = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def split_path(path: str) -> tuple[str, ...]:
    """The parts of a path, each of them safe; the empty path is the root and has none."""
    if path == "":
        return ()
    parts = tuple(path.split("/"))
    for part in parts:
        reason = _refuse(part)
        if reason is not None:
            raise BadPath(
                f"path {path!r}: the part {part!r} {reason}; a path in a store is plain names joined by '/': rename it"
            )
    if _folded(parts[0]) == RESERVED:
        raise BadPath(f"path {path!r}: {RESERVED!r} belongs to the store itself; expected another name: rename it")
    return parts


def split_file(path: str) -> tuple[str, ...]:
    """As `split_path`, for a path that names a file."""
    if not path:
        raise BadPath("path '': names the root, which is a directory; expected a file's name: give one")
    return split_path(path)


def _folded(part: str) -> str:
    """The name as a disk that ignores case or normalises Unicode would see it."""
    return unicodedata.normalize("NFKC", part).casefold()


def _refuse(part: str) -> str | None:
    if part == "":
        return "is empty (an absolute path, or '//')"
    if any(unicodedata.category(char) in _HIDDEN_CATEGORIES for char in part):
        return "holds a control or invisible character"
    folded = _folded(part)
    if folded in {".", ".."}:
        return "points elsewhere"
    if "/" in folded or "\\" in folded:
        return "holds a separator"
    if part != unicodedata.normalize("NFC", part):
        return "is not in Unicode's composed form (NFC)"
    if part != part.strip():
        return "begins or ends with a space"
    if len(part.encode()) > MAX_NAME_BYTES:
        return f"is longer than {MAX_NAME_BYTES} bytes"
    return None
