"""Running something in a forked child that may be killed at any instant."""

import ctypes
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from samovar.errors import SamovarError

_LOOK_SECONDS = 0.001
_MAPPED_FILES = Path("/proc/self/maps")
_PAUSE_HARD = 2  # omp_pause_hard of OpenMP 5


@dataclass(frozen=True)
class Ended:
    """How a child ended: its exit code, or minus the signal that killed it; and what it said."""

    code: int
    output: str
    seconds: float

    @property
    def was_killed(self) -> bool:
        return self.code == -signal.SIGKILL


@dataclass(frozen=True)
class Child:
    """A child at work."""

    pid: int
    log: Path
    begun: float

    def wait(self, kill_after_seconds: float | None = None) -> Ended:
        """Its end; it is killed with SIGKILL if it lives longer than that."""
        while kill_after_seconds is not None and time.monotonic() - self.begun < kill_after_seconds:
            ended = self.look()
            if ended is not None:
                return ended
            time.sleep(_LOOK_SECONDS)
        if kill_after_seconds is not None:
            os.kill(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        return self._ended(status)

    def look(self) -> Ended | None:
        """How it ended, None while it lives."""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        return self._ended(status) if pid else None

    def _ended(self, status: int) -> Ended:
        output = self.log.read_text() if self.log.exists() else ""
        return Ended(os.waitstatus_to_exitcode(status), output, time.monotonic() - self.begun)


def start_child(act: Callable[[], object], log: Path) -> Child:
    """Run something in a child; what it prints goes to the log."""
    log.unlink(missing_ok=True)
    begun = time.monotonic()
    _send_openmp_threads_home()
    pid = os.fork()
    if pid == 0:
        _be_the_child(act, log)
    return Child(pid, log, begun)


def run_in_child(act: Callable[[], object], log: Path, kill_after_seconds: float | None = None) -> Ended:
    """The child does not outlive an interrupt of its parent."""
    child = start_child(act, log)
    try:
        return child.wait(kill_after_seconds)
    except KeyboardInterrupt:
        with suppress(OSError):  # it may have ended by itself
            child.wait(kill_after_seconds=0)
        raise


def _send_openmp_threads_home() -> None:
    """A fork copies no threads, and in the child torch would wait for ever for those of its OpenMP team. A team that
    was dismissed before is made anew by whoever needs it, on both sides."""
    if not _MAPPED_FILES.exists():
        return
    mapped = {line.split()[-1] for line in _MAPPED_FILES.read_text().splitlines()}
    for path in mapped:
        if Path(path).name.startswith("libgomp"):
            ctypes.CDLL(path).omp_pause_resource_all(_PAUSE_HARD)


def _be_the_child(act: Callable[[], object], log: Path) -> None:
    code = 1
    try:
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115  # it lives as long as the child
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115  # the same
        act()
        code = 0
    except SamovarError as error:
        print(f"error: {error}", file=sys.stderr)
        code = error.exit_code
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
