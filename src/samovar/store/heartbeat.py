"""How the holder of a lease on a local disk shows that it is alive, and how others see that it is not.

The holder locks a file of its own and touches it as a heartbeat. The lock is a POSIX record lock: the kernel drops
it when the process ends, however it ends, and a forked child does not inherit it. Nothing else in the holder's
process may open the file, because closing any descriptor of it would drop the lock.

A beat leaves two times on the file, because the time of day may be set while a holder works:

    access time         the steady clock of the holder's machine, for processes of that machine
    modification time   the time of day, for other machines
"""

import fcntl
import os
import stat
import struct
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from samovar.config.records import check_record
from samovar.store.base import LEASE_SECONDS, Heartbeat, Json, Liveness, split_file
from samovar.store.disk import Disk
from samovar.store.process import ProcessName, steady_clock_id

_FLOCK = "hhqqi4x"  # struct flock on 64-bit Linux: type, whence, start, len, pid
_GRAIN_SECONDS = 2.0  # of file times on the coarsest disk


@dataclass(frozen=True)
class Clock:
    """Two clocks, in seconds. Tests pass clocks that are ahead."""

    day: Callable[[], float] = time.time
    """The time of day, which all machines share and which may jump."""
    steady: Callable[[], float] = time.monotonic
    """Never set; the same for all processes of a machine until it boots. Stands still while the machine sleeps, as
    heartbeats do."""


def _check_plain(name: str) -> str:
    if len(split_file(name)) > 1:
        raise ValueError("not a plain name")
    return name


@dataclass(frozen=True)
class HeartbeatRecord:
    """What the lease says about its holder's heartbeat."""

    file: Annotated[str, AfterValidator(_check_plain)]
    """The name of the lock file."""
    inode: Annotated[int, Field(ge=0, lt=2**64)]
    process: ProcessName
    clock: str
    """Which steady clock the access time is of; empty if the disk does not keep access times."""


class LocalHeartbeat(Heartbeat):
    """The lock file of this process."""

    def __init__(self, path: Path, disk: Disk, clock: Clock) -> None:
        self._path = path
        self._disk = disk
        self._clock = clock
        self._descriptor = disk.create(path)
        fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        inode = os.fstat(self._descriptor).st_ino
        clock_id = steady_clock_id() if self._keeps_access_times() else ""
        self.record = asdict(HeartbeatRecord(path.name, inode, ProcessName.of_this_process(), clock_id))

    def _keeps_access_times(self) -> bool:
        self.beat()
        since = self._clock.steady() - os.fstat(self._descriptor).st_atime
        return abs(since) <= _GRAIN_SECONDS

    def beat(self) -> None:
        with suppress(OSError):  # to others it is then silent, which is right
            self._disk.touch(self._descriptor, self._clock.steady())

    def stop(self) -> None:
        with suppress(OSError):
            self._disk.unlink(self._path)
        with suppress(OSError):
            self._disk.close(self._descriptor)


def find_liveness(folder: Path, record: Mapping[str, Json], clock: Clock) -> Liveness:
    """Whether a process is alive, from its heartbeat's record and its lock file."""
    found = check_record(HeartbeatRecord, record, f"{folder}: the record of a heartbeat")
    path = folder / found.file
    try:
        file = path.lstat()
    except OSError:
        return "dead"  # released, swept, or not copied with the directory
    if file.st_ino != found.inode or not stat.S_ISREG(file.st_mode):
        return "dead"  # a copied directory: the lease belongs to the original
    if not _shows_life(path, found.process):
        return "dead"
    return "alive" if _silence(file, found.clock, clock) <= LEASE_SECONDS else "silent"


def _silence(file: os.stat_result, clock_id: str, clock: Clock) -> float:
    """Seconds since the last beat, by the steady clock if the holder has the same one as we do."""
    since = clock.steady() - file.st_atime
    can_be_steady = since >= -_GRAIN_SECONDS  # else a backup has read the file, or the disk keeps no access times
    if clock_id and clock_id == steady_clock_id() and can_be_steady:
        return since
    return clock.day() - file.st_mtime


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
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        request = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        answer = fcntl.fcntl(descriptor, fcntl.F_GETLK, request)
        return bool(struct.unpack(_FLOCK, answer)[0] != fcntl.F_UNLCK)
    finally:
        os.close(descriptor)
