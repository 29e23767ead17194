"""Changing a local disk: the few system calls, one method each, so that tests can kill, fail or record any of them;
files that appear whole or not at all; and what the disk's error numbers mean. Reading is not here.

A file is published in this order, so that a kill or a power loss leaves the old file or the new one:

    create under a scratch name ─▶ write ─▶ fsync ─▶ rename, or link if it must not replace ─▶ fsync the folder
"""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from samovar.errors import AlreadyExists, BadPath, StoreError
from samovar.store.process import ScratchNames, abandoned_files

# A large file goes to the disk while it is written, in steps of this size, so that the fsync has little left to do.
_WRITEBACK_BYTES = 32 << 20
_SCRATCH = ".samovar-"


class Disk:
    """The real disk. A subclass in `samovar.testing.disks` may kill the process, fail or record at each call."""

    def create(self, path: Path) -> int:
        """Create a file, open for appending and reading; it must not exist."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o666)

    def write(self, descriptor: int, data: memoryview) -> int:
        return os.write(descriptor, data)

    def start_writeback(self, descriptor: int, start: int, size: int) -> None:
        """Start writing these bytes to the disk. Only a hint: it makes nothing durable, and fsync reports errors."""
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

    def touch(self, descriptor: int, steady_seconds: float) -> None:
        """A heartbeat: set the file's modification time to now, and its access time to these seconds."""
        os.utime(descriptor)  # the time of the machine that has the disk
        os.utime(descriptor, ns=(int(steady_seconds * 1e9), os.fstat(descriptor).st_mtime_ns))

    def write_all(self, descriptor: int, data: bytes | memoryview) -> None:
        rest = memoryview(data).cast("B")
        while rest:
            rest = rest[self.write(descriptor, rest) :]


@contextmanager
def publish(
    path: Path, disk: Disk | None = None, *, replace: bool = True, durable: bool = True, verb: str = "write"
) -> Iterator["PendingFile"]:
    r"""Write a file that appears under its name when the block ends, whole, and not at all when the block fails.

    Args:
        path: The file to make. Its folder must exist.
        disk: The disk to write through; the real one by default.
        replace: Whether an existing file is replaced.
        durable: Whether the file survives a power loss. False saves the fsync, for caches.
        verb: What the caller is doing, for the error: "could not <verb> <path>".

    Raises:
        AlreadyExists: The file exists and must not be replaced.
        BadPath: A file is where a folder is needed.
        StoreError: The disk failed.

    Example:
        >>> with publish(folder / "report.csv") as file:
        ...     file.write(b"a,b\n")
    """
    disk = disk or Disk()
    try:
        for abandoned in abandoned_files(path.parent, _SCRATCH, include_other_machines=False):
            with suppress(FileNotFoundError):
                disk.unlink(abandoned)
        file = PendingFile(path.with_name(f"{_SCRATCH}{ScratchNames().next()}"), disk, durable)
        try:
            yield file
            file.publish(path, replace=replace)
        finally:
            file.discard()
    except FileExistsError as error:
        raise AlreadyExists(f"{path} already exists") from error
    except OSError as error:
        raise store_error(error, verb, path, path.parent) from error


class PendingFile:
    """A file under a scratch name, open for writing. It ends with `publish` or `discard`."""

    def __init__(self, path: Path, disk: Disk, durable: bool = True) -> None:
        self.path = path
        """The scratch name, for libraries that open files by name."""
        self._disk = disk
        self._durable = durable
        self._descriptor: int | None = disk.create(path)
        self._is_renamed = False
        self._size = 0
        self._writeback_start = 0

    def write(self, data: bytes | memoryview) -> None:
        assert self._descriptor is not None, "write after the end"
        self._disk.write_all(self._descriptor, data)
        self._size += memoryview(data).nbytes
        pending = self._size - self._writeback_start
        if pending >= _WRITEBACK_BYTES:
            self._disk.start_writeback(self._descriptor, self._writeback_start, pending)
            self._writeback_start = self._size

    def publish(self, target: Path, *, replace: bool, before: Callable[[], object] | None = None) -> None:
        """Give the file its name. `before` is called last, after the slow fsync, and may still refuse by raising.

        Raises:
            FileExistsError: The name is taken and must not be replaced.
        """
        assert self._descriptor is not None, "publish after the end"
        try:
            if self._durable:
                self._disk.fsync(self._descriptor)
            if before is not None:
                before()
            if replace:
                self._disk.replace(self.path, target)
                self._is_renamed = True
            else:
                self._disk.link(self.path, target)  # fails if the name is taken, unlike a rename
            if self._durable:
                self._disk.fsync_folder(target.parent)
        finally:
            self.discard()

    def discard(self) -> None:
        """Remove the scratch file. Does nothing after `publish` or another `discard`."""
        if self._descriptor is None:
            return
        descriptor, self._descriptor = self._descriptor, None
        with suppress(OSError):
            self._disk.close(descriptor)
        if not self._is_renamed:
            with suppress(OSError):  # removed later, by a sweep or the next publish
                self._disk.unlink(self.path)


_REASONS = {
    errno.ENOSPC: ("the disk is full", "Free some space and start again"),
    errno.EDQUOT: ("the disk quota is used up", "Free some space and start again"),
    errno.EACCES: ("permission denied", "Make the folder writable for this user and start again"),
    errno.EPERM: ("permission denied", "Make the folder writable for this user and start again"),
    errno.EROFS: ("the disk is read-only", "Remount it writable and start again"),
    errno.EIO: ("the disk reports an input/output error", "Copy the directory to a good disk and continue there"),
    errno.EMFILE: ("too many open files", "Raise `ulimit -n` and start again"),
    errno.EXDEV: ("a folder inside is on another disk", "Keep the whole directory on one disk"),
    errno.ENAMETOOLONG: ("the name is too long", "Use a shorter one"),
    errno.ENOTDIR: ("a file is where a folder is needed", "Move it away and start again"),
    errno.EISDIR: ("a folder is where a file is needed", "Move it away and start again"),
}


def store_error(error: OSError, verb: str, path: Path, root: Path) -> StoreError | BadPath:
    """Turn a failed disk operation below `root` into one clear message. A file in the place of a folder is the user's
    mistake."""
    file = next((place for place in (root, *root.parents) if place.is_file()), None)
    if file is not None:
        return BadPath(f"{file} is a file; expected a directory")
    if error.errno in (errno.ENOENT, errno.ESTALE) or (error.errno not in _REASONS and not root.exists()):
        reason, advice = "the folder is missing", "Was it moved, or its disk unmounted? Bring it back and start again"
    else:
        reason, advice = _REASONS.get(error.errno or 0, (error.strerror or str(error), "Fix it and start again"))
    kept = "; everything committed before is intact" if root.exists() else ""
    return StoreError(f"could not {verb} {path}: {reason}{kept}. {advice}")
