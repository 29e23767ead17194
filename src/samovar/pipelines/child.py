"""Running something in a forked child that may be killed at any instant. The parent must not have used torch's
threads: a fork copies none of them."""

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from samovar.errors import SamovarError

_LOOK_SECONDS = 0.001


@dataclass(frozen=True)
class Ended:
    """How a child ended: its exit code, or minus the signal that killed it; and what it said."""

    code: int
    output: str
    seconds: float

    @property
    def was_killed(self) -> bool:
        return self.code == -signal.SIGKILL


def run_in_child(act: Callable[[], object], log: Path, kill_after_seconds: float | None = None) -> Ended:
    """Wait for the child's end; kill it with SIGKILL if it lives longer than that."""
    begun = time.monotonic()
    child = os.fork()
    if child == 0:
        _be_the_child(act, log)
    while kill_after_seconds is not None and time.monotonic() - begun < kill_after_seconds:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return _ended(status, log, begun)
        time.sleep(_LOOK_SECONDS)
    if kill_after_seconds is not None:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return _ended(status, log, begun)


def _ended(status: int, log: Path, begun: float) -> Ended:
    return Ended(os.waitstatus_to_exitcode(status), log.read_text(), time.monotonic() - begun)


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
