"""What the disk's error numbers mean to a person, and what to do about them."""

import errno
from pathlib import Path

from samovar.errors import StoreError

_CURES = {
    errno.ENOSPC: ("the disk is full", "free some space and start again"),
    errno.EDQUOT: ("the disk quota is used up", "free some space and start again"),
    errno.EACCES: ("permission is denied", "make the folder writable for this user and start again"),
    errno.EPERM: ("permission is denied", "make the folder writable for this user and start again"),
    errno.EROFS: ("the disk is read-only", "mount it writable and start again"),
    errno.EIO: (
        "the disk reports an input/output error",
        "check the disk, copy the directory to a good one and go on there",
    ),
    errno.EMFILE: ("too many files are open", "raise `ulimit -n` and start again"),
    errno.EXDEV: ("a folder inside is another disk", "keep the whole directory on one disk"),
    errno.ENAMETOOLONG: ("the name is too long", "use a shorter one"),
    errno.ENOTDIR: ("a file stands where a folder is needed", "move it away and start again"),
    errno.EISDIR: ("a folder stands where a file is needed", "move it away and start again"),
}


def store_error(error: OSError, verb: str, path: Path, root: Path) -> StoreError:
    """One clear message for a failed disk operation."""
    if error.errno in (errno.ENOENT, errno.ESTALE) or not root.exists():
        what, cure = (
            "the folder vanished",
            "bring it back (was it moved, or its disk unmounted?) and start again",
        )
    else:
        what, cure = _CURES.get(error.errno or 0, (error.strerror or str(error), "mend it and start again"))
    return StoreError(f"could not {verb} {path}: {what}; what was committed before is untouched: {cure}")
