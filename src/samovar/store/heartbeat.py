"""Naming a process so that others can tell later whether it still lives. Knows Linux's /proc, and no store.

Names for unfinished files that tell whose they are, so that only the dead's are swept. Knows no store.

How a local lease holder shows that it lives, and how others see that it does not.

The holder locks a file of its own (a POSIX record lock: the kernel drops it when the process ends, however it
ends, and a forked child does not inherit it) and touches it as its heartbeat. The lock file is opened by nobody
else in the holder's process, because closing any descriptor of it would drop the lock.
"""

import fcntl
import hashlib
import itertools
import os
import socket
import struct
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Self

from samovar.store.base import LEASE_SECONDS, Heartbeat, Json, Liveness
from samovar.store.disk import Disk


@dataclass(frozen=True)
class ProcessName:
    """A process, told apart from a later one with the same number, a rebooted machine and another container."""

    host: str
    boot: str
    namespace: str
    pid: int
    started: int

    @classmethod
    def of_this_process(cls) -> Self:
        pid = os.getpid()
        return cls(*_machine(), pid, _start_ticks(pid) or 0)

    @property
    def is_this_process(self) -> bool:
        return self == ProcessName.of_this_process()

    @property
    def is_on_this_machine(self) -> bool:
        """Also true of a process from before this machine's last boot."""
        return self.host == _machine()[0]

    @property
    def can_be_seen(self) -> bool:
        """Whether a process number means the same to us: same boot, same container."""
        return (self.host, self.boot, self.namespace) == _machine()

    @property
    def is_running(self) -> bool:
        return self.can_be_seen and _start_ticks(self.pid) == self.started


@lru_cache(maxsize=1)
def _machine() -> tuple[str, str, str]:
    boot = Path("/proc/sys/kernel/random/boot_id")
    namespace = Path("/proc/self/ns/pid")
    return (
        socket.gethostname(),
        boot.read_text().strip() if boot.exists() else "",
        os.readlink(namespace) if namespace.is_symlink() else "",
    )


def _start_ticks(pid: int) -> int | None:
    """When a living process was started, in clock ticks since boot; None when there is none (or a zombie)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    state, *fields = stat.rpartition(")")[2].split()  # the name before ')' may hold spaces
    return None if state in "ZX" else int(fields[18])


class ScratchNames:
    """Names of this process: `<machine>-<pid>-<started>-<n>`."""

    def __init__(self) -> None:
        self._numbers = itertools.count()

    def next(self) -> str:
        process = ProcessName.of_this_process()
        return f"{_machine_tag(process)}-{process.pid}-{process.started}-{id(self):x}.{next(self._numbers)}"

    def left_by_the_dead(self, folder: Path) -> Iterator[Path]:
        """Files of processes that are gone. A file from another machine is one too: only the lease's holder
        asks, and a process that lost its lease must not finish what it began."""
        try:
            names = sorted(os.listdir(folder))
        except FileNotFoundError:
            return
        here = ProcessName.of_this_process()
        for name in names:
            tag, pid, started, *_ = [*name.split("-", 3), "", ""]
            if tag != _machine_tag(here) or not _is_running(here, pid, started):
                yield folder / name


def _machine_tag(process: ProcessName) -> str:
    machine = f"{process.host} {process.boot} {process.namespace}"
    return hashlib.sha256(machine.encode()).hexdigest()[:12]


def _is_running(here: ProcessName, pid: str, started: str) -> bool:
    if not (pid.isdigit() and started.isdigit()):
        return False
    return ProcessName(here.host, here.boot, here.namespace, int(pid), int(started)).is_running


_FLOCK = "hhqqi4x"  # struct flock on 64-bit Linux: type, whence, start, len, pid


class LocalHeartbeat(Heartbeat):
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
        with suppress(OSError):  # a heartbeat that cannot be shown is a silent one: others judge it so
            self._disk.touch(self._descriptor)

    def drop(self) -> None:
        with suppress(OSError):
            self._disk.unlink(self._path)
        with suppress(OSError):
            self._disk.close(self._descriptor)


def judge(folder: Path, record: Mapping[str, Json], now: float) -> Liveness:
    """Alive, silent or dead: what a heartbeat's record and its lock file tell."""
    process = ProcessName(**record["process"])
    path = folder / record["file"]
    try:
        stat = path.stat()
    except OSError:
        return "dead"  # released, swept, or never copied along
    if stat.st_ino != record["inode"]:
        return "dead"  # a copy of the directory: the lease stayed with the original
    if not _has_sign_of_life(path, process):
        return "dead"
    return "alive" if now - stat.st_mtime <= LEASE_SECONDS else "silent"


def _has_sign_of_life(path: Path, process: ProcessName) -> bool:
    if process.is_this_process:
        return True  # and we must not open the file
    if _is_locked(path):
        return True
    if process.can_be_seen:
        return process.is_running
    # Another machine's lock may be invisible here, a container's or an earlier boot's is not: those are gone.
    return not process.is_on_this_machine


def _is_locked(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        question = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        answer = fcntl.fcntl(descriptor, fcntl.F_GETLK, question)
        return bool(struct.unpack(_FLOCK, answer)[0] != fcntl.F_UNLCK)
    finally:
        os.close(descriptor)
