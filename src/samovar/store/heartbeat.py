"""How the holder of a lease on a local disk shows that it is alive, and how others see that it is not.

The holder locks a file of its own and touches it as a heartbeat. The lock is a POSIX record lock: the kernel drops
it when the process ends, however it ends, and a forked child does not inherit it. Nothing else in the holder's
process may open the file, because closing any descriptor of it would drop the lock.
"""

import fcntl
import os
import struct
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from samovar.store.base import LEASE_SECONDS, Heartbeat, Json, Liveness
from samovar.store.disk import Disk
from samovar.store.process import ProcessName

_FLOCK = "hhqqi4x"  # struct flock on 64-bit Linux: type, whence, start, len, pid


class LocalHeartbeat(Heartbeat):
    """The lock file of this process."""

    def __init__(self, path: Path, disk: Disk) -> None:
        self._path = path
        self._disk = disk
        self._descriptor = disk.create(path)
        fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.record = {
            "file": path.name,
            "inode": os.fstat(self._descriptor).st_ino,
            "process": asdict(ProcessName.of_this_process()),
        }

    def beat(self) -> None:
        with suppress(OSError):  # to others it is then silent, which is right
            self._disk.touch(self._descriptor)

    def stop(self) -> None:
        with suppress(OSError):
            self._disk.unlink(self._path)
        with suppress(OSError):
            self._disk.close(self._descriptor)


def find_liveness(folder: Path, record: Mapping[str, Json], now: float) -> Liveness:
    """Whether a process is alive, from its heartbeat's record and its lock file."""
    process = ProcessName(**record["process"])
    path = folder / record["file"]
    try:
        stat = path.stat()
    except OSError:
        return "dead"  # released, swept, or not copied with the directory
    if stat.st_ino != record["inode"]:
        return "dead"  # a copied directory: the lease belongs to the original
    if not _shows_life(path, process):
        return "dead"
    return "alive" if now - stat.st_mtime <= LEASE_SECONDS else "silent"


def _shows_life(path: Path, process: ProcessName) -> bool:
    if process.is_this_process:
        return True  # and its lock file must not be opened here
    if _is_locked(path):
        return True
    if process.can_be_seen:
        return process.is_running
    # The lock of another machine may be invisible here. That of a container or an earlier boot would be visible.
    return not process.is_on_this_machine


def _is_locked(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        request = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        answer = fcntl.fcntl(descriptor, fcntl.F_GETLK, request)
        return bool(struct.unpack(_FLOCK, answer)[0] != fcntl.F_UNLCK)
    finally:
        os.close(descriptor)
