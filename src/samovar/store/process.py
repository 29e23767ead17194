"""Names for processes and their files, so that others can tell later whether the process still runs. Knows /proc."""

import hashlib
import itertools
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Self


@dataclass(frozen=True)
class ProcessName:
    """One process, distinct from a later one with the same pid, on a rebooted machine or in another container."""

    host: str
    boot: str
    namespace: str
    pid: int
    started: int

    @classmethod
    def of_this_process(cls) -> Self:
        pid = os.getpid()
        return cls(*_machine(), pid, _own_start_ticks(pid))

    @property
    def is_this_process(self) -> bool:
        return self == ProcessName.of_this_process()

    @property
    def is_on_this_machine(self) -> bool:
        """Also true for a process that ran before the last boot."""
        return self.host == _machine()[0]

    @property
    def can_be_seen(self) -> bool:
        """Whether its pid means the same to us: same boot, same container."""
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


@lru_cache(maxsize=1)
def steady_clock_id() -> str:
    """Two processes with the same id have the same `time.monotonic`; empty if that cannot be known."""
    boot = _machine()[1]
    namespace = Path("/proc/self/ns/time")
    return f"{boot} {os.readlink(namespace) if namespace.is_symlink() else ''}".strip() if boot else ""


def _start_ticks(pid: int) -> int | None:
    """When a running process started, in clock ticks since boot; None if it does not run or is a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    state, *fields = stat.rpartition(")")[2].split()  # the program name before ')' may contain spaces
    return None if state in "ZX" else int(fields[18])


@lru_cache(maxsize=1)
def _own_start_ticks(pid: int) -> int:
    """Of this process, read once: each new file needs it, and /proc is slow on a busy machine."""
    return _start_ticks(pid) or 0


os.register_at_fork(after_in_child=_own_start_ticks.cache_clear)  # a child may get a pid that its ancestor once had


class ScratchNames:
    """Names for unfinished files of this process: `<machine>-<pid>-<started>-<n>`."""

    def __init__(self) -> None:
        self._numbers = itertools.count()

    def next(self) -> str:
        process = ProcessName.of_this_process()
        return f"{_machine_tag(process)}-{process.pid}-{process.started}-{id(self):x}.{next(self._numbers)}"


def abandoned_files(folder: Path, prefix: str = "", *, include_other_machines: bool) -> Iterator[Path]:
    """Unfinished files whose process is gone.

    Whether a process of another machine runs cannot be known from here. Only the holder of a lease may include
    those: a process that lost the lease must not finish its files anyway.
    """
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        return
    here = ProcessName.of_this_process()
    for name in names:
        tag, pid, started, *_ = [*name.removeprefix(prefix).split("-", 3), "", ""]
        is_from_here = tag == _machine_tag(here)
        is_abandoned = not _is_running(here, pid, started) if is_from_here else include_other_machines
        if name.startswith(prefix) and is_abandoned:
            yield folder / name


def _machine_tag(process: ProcessName) -> str:
    machine = f"{process.host} {process.boot} {process.namespace}"
    return hashlib.sha256(machine.encode()).hexdigest()[:12]


def _is_running(here: ProcessName, pid: str, started: str) -> bool:
    if not (pid.isdigit() and started.isdigit()):
        return False
    return ProcessName(here.host, here.boot, here.namespace, int(pid), int(started)).is_running
