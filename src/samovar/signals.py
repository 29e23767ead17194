"""SIGTERM and ctrl-C: the only module that listens to them. Knows nothing of the work that is to stop.

               in `asking`: who works looks, and ends in order     in `interrupting`: nobody looks
the first      counts                                              KeyboardInterrupt, wherever the process is
one too many   the process ends at once                            the process ends at once
"""

import math
import os
import shlex
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import NoReturn

from samovar.errors import Stopped

NUMBERS = (signal.SIGTERM, signal.SIGINT)
_ECHO_SECONDS = 1.0
_LOOK_SECONDS = 0.2
_AGAIN_SECONDS = 0.02


@dataclass
class StopRequest:
    """How often somebody asked to stop, and the last who did.

    Without locks, because a signal may come while another one is being heard."""

    count: int = 0
    reason: str = ""
    exit_code: int = Stopped.exit_code
    """Of a process that is interrupted, or ends at once."""
    _counted: float = -math.inf

    def ask(self, reason: str = "") -> bool:
        """One request may come twice, as `timeout` sends it to a process and to its group: that counts once."""
        now = time.monotonic()
        is_new = now - self._counted > _ECHO_SECONDS
        if is_new:
            self.count, self.reason, self._counted = self.count + 1, reason, now
        return is_new

    def wait(self, seconds: float) -> bool:
        """Until that time is over, or somebody asks, which is the answer."""
        deadline = time.monotonic() + seconds
        while not self.count and (left := deadline - time.monotonic()) > 0:
            time.sleep(min(left, _LOOK_SECONDS))
        return self.count > 0

    @contextmanager
    def asking(self, most: int = 1) -> Iterator[None]:
        """While the block runs, so many signals ask; the next one does not wait any longer."""

        def hear(number: int) -> None:
            self.ask(_name(number))
            if self.count > most:
                self._end_at_once()

        with _heard(hear):
            yield

    @contextmanager
    def interrupting(self) -> Iterator[None]:
        """While the block runs, the first signal ends it, and the second the process."""

        def hear(number: int) -> None:
            if not self.ask(_name(number)):
                return
            self.exit_code = 128 + number
            if self.count > 1:
                self._end_at_once()
            raise KeyboardInterrupt

        with _heard(hear), _insisting():
            yield

    def _end_at_once(self) -> NoReturn:
        """A stuck reader or model would never let an exception through."""
        os.write(2, f"stopped at once ({self.reason}); {how_to_go_on()}\n".encode())
        os._exit(self.exit_code)


def end_quietly() -> None:
    """From now on a signal ends the process as the system does, without a traceback of what was being cleaned up."""
    for number in NUMBERS:
        signal.signal(number, signal.SIG_DFL)


def how_to_go_on() -> str:
    """What is to be typed, so that this process starts again: everything here goes on, or begins anew, by that."""
    program = Path(sys.argv[0])
    if program.name != "samovar":
        return f"to go on: {shlex.join(sys.orig_argv)}"
    is_found = shutil.which("samovar") == str(program)
    return f"to go on: {shlex.join(['samovar' if is_found else str(program), *sys.argv[1:]])}"


@contextmanager
def _heard(hear: Callable[[int], None]) -> Iterator[None]:
    """Only the main thread gets signals: in others the block runs as if none came."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        hear(number)

    before = {number: signal.signal(number, handle) for number in NUMBERS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _insisting() -> Iterator[None]:
    """Where Python ignores exceptions, as in `__del__` and callbacks of weak references, an interrupt would be lost: it
    is raised again a moment later."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def ignored(what: "sys.UnraisableHookArgs") -> None:
        if what.exc_type is KeyboardInterrupt:
            signal.setitimer(signal.ITIMER_REAL, _AGAIN_SECONDS)
        else:
            hook(what)

    hook, handler = sys.unraisablehook, signal.signal(signal.SIGALRM, signal.default_int_handler)
    sys.unraisablehook = ignored
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        sys.unraisablehook = hook


def _name(number: int) -> str:
    return signal.Signals(number).name
