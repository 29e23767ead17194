"""Names for unfinished files that tell whose they are, so that only the dead's are swept. Knows no store."""

import hashlib
import itertools
import os
from collections.abc import Iterator
from pathlib import Path

from samovar.store.process import ProcessName


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
