"""The few system calls that change a local disk, one method each, so that tests can kill, fail or record any.

Reading is not here: it changes nothing.

What the disk's error numbers mean to a person, and what to do about them.
"""

import errno
import os
from pathlib import Path

from samovar.errors import StoreError


class Disk:
    """The real disk. A subclass in samovar.testing.disks may die, fail or record at each call."""

    def create(self, path: Path) -> int:
        """A new file, open for appending and reading; it must not exist."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o666)

    def write(self, descriptor: int, data: memoryview) -> int:
        return os.write(descriptor, data)

    def start_writeback(self, descriptor: int, start: int, size: int) -> None:
        """Let the disk begin with these bytes, so that the fsync at the end finds little to do. Only a hint: it makes
        nothing durable, and an error that it meets is told by the fsync."""
        if hasattr(os, "posix_fadvise"):  # not on macOS
            # Linux starts writing dirty pages; it drops only those that are on the disk already.
            os.posix_fadvise(descriptor, start, size, os.POSIX_FADV_DONTNEED)

    def fsync(self, descriptor: int) -> None:
        os.fsync(descriptor)

    def close(self, descriptor: int) -> None:
        os.close(descriptor)

    def replace(self, source: Path, target: Path) -> None:
        os.replace(source, target)

    def link(self, source: Path, target: Path) -> None:
        os.link(source, target)

    def unlink(self, path: Path) -> None:
        os.unlink(path)

    def mkdir(self, path: Path) -> None:
        os.mkdir(path)

    def rmdir(self, path: Path) -> None:
        os.rmdir(path)

    def fsync_folder(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def touch(self, descriptor: int) -> None:
        """Move a file's time to now: a heartbeat."""
        os.utime(descriptor)

    def write_all(self, descriptor: int, data: bytes | memoryview) -> None:
        rest = memoryview(data).cast("B")
        while rest:
            rest = rest[self.write(descriptor, rest) :]


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
