"""The process that does a job: started, watched, told to stop. Knows no queue.

It has a group of its own, so that ctrl-C reaches the worker alone, and it is told to stop when its worker dies.
"""

import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import IO, Self

LOG_BYTES = 16 * 1024

# Linux sends SIGTERM to the child when its parent is gone, however it went: no orphan works on beside a successor.
_LAUNCH = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGTERM)
if os.getppid() != int(sys.argv[1]):
    sys.exit(75)
os.execv(sys.argv[2], sys.argv[2:])
"""


class Child:
    """Runs between `__enter__` and `__exit__`; what it prints goes to a file that vanishes with it."""

    def __init__(self, command: Sequence[str], folder: str) -> None:
        self._command = command
        self._folder = folder

    def __enter__(self) -> Self:
        launcher = [sys.executable, "-I", "-S", "-c", _LAUNCH, str(os.getpid()), *self._command]
        with ExitStack() as stack:
            self._log: IO[bytes] = stack.enter_context(tempfile.TemporaryFile(prefix="samovar-job-"))
            self._process = subprocess.Popen(
                launcher,
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=subprocess.STDOUT,
                process_group=0,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
            stack.callback(self._end)
            self._handle = os.pidfd_open(self._process.pid)
            stack.callback(os.close, self._handle)
            self._opened = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.close()

    def _end(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait(self, seconds: float) -> int | None:
        """Its exit code, or minus the signal that killed it; None if it still lives after so many seconds."""
        select.select([self._handle], [], [], seconds)
        return self._process.poll()

    def stop(self) -> None:
        """It saves what it has, and ends."""
        self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """It ends at once, and its newest snapshot stays."""
        self._process.kill()

    def log_tail(self) -> str:
        size = os.fstat(self._log.fileno()).st_size
        data = os.pread(self._log.fileno(), LOG_BYTES, max(0, size - LOG_BYTES))
        return data.decode(errors="replace").replace("\0", "")  # PostgreSQL holds no zero bytes
