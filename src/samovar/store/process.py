"""Naming a process so that others can tell later whether it still lives. Knows Linux's /proc, and no store."""

import os
import socket
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Self


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
