"""SIGTERM and Ctrl-C: the only module that handles them. Knows nothing of the work that is to stop.

             inside `asking`: the work checks      inside `interrupting`: nothing checks
             the request and ends in order
first signal the request is counted                KeyboardInterrupt, as soon as no lock can be left taken
one too many the process ends at once              the process ends at once
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

from samovar.errors import Stopped, hide_passwords

NUMBERS = (signal.SIGTERM, signal.SIGINT)
_REPEAT_SECONDS = 1.0
_POLL_SECONDS = 0.2
_RAISE_AGAIN_SECONDS = 0.005
_MAX_DELAYS = 1000
_LOCKING_MODULES = {"concurrent", "contextlib", "logging", "multiprocessing", "queue", "threading"}


@dataclass
class StopRequest:
    """How often a stop was requested, and why the last time.

    It has no lock, because a signal may arrive while another one is being handled.

    Example:
        >>> stop = StopRequest()
        >>> stop.ask("enough"), stop.count
        (True, 1)
    """

    count: int = 0
    """How often a stop was requested."""
    reason: str = ""
    """Why, the last time."""
    exit_code: int = Stopped.exit_code
    """The exit code of a process that is interrupted or ends at once."""
    _last_time: float = -math.inf

    def ask(self, reason: str = "") -> bool:
        """Count a request; False if it only repeats the last one.

        `timeout` sends a signal to a process and to its group, so one request may arrive twice.

        Args:
            reason: As messages show it.
        """
        now = time.monotonic()
        is_new = now - self._last_time > _REPEAT_SECONDS
        if is_new:
            self.count, self.reason, self._last_time = self.count + 1, reason, now
        return is_new

    def wait(self, seconds: float) -> bool:
        """Wait for a request, at most this long; returns whether there is one.

        Args:
            seconds: At most.
        """
        deadline = time.monotonic() + seconds
        while not self.count and (left := deadline - time.monotonic()) > 0:
            time.sleep(min(left, _POLL_SECONDS))
        return self.count > 0

    @contextmanager
    def asking(self, most: int = 1) -> Iterator[None]:
        """Inside the block, up to `most` signals are requests to stop; the next one ends the process at once.

        Args:
            most: Signals that only request a stop.
        """

        def handle(number: int, frame: FrameType | None) -> None:
            self.ask(_name(number))
            if self.count > most:
                self._end_at_once()

        with _handling(handle):
            yield

    @contextmanager
    def interrupting(self) -> Iterator[None]:
        """Inside the block, the first signal raises KeyboardInterrupt and the second ends the process at once."""

        def handle(number: int, frame: FrameType | None) -> None:
            if not self.ask(_name(number)):
                return
            self.exit_code = 128 + number
            if self.count > 1:
                self._end_at_once()
            interrupt(frame)

        interrupt = _Interrupt()
        with _handling(handle), _raising_again(interrupt):
            yield

    def _end_at_once(self) -> NoReturn:
        """Not by an exception: a stuck reader or model would never let it through."""
        os.write(2, f"stopped at once ({self.reason}); {how_to_continue()}\n".encode())
        os._exit(self.exit_code)


def end_quietly() -> None:
    """From now on a signal ends the process immediately, without a traceback from the clean-up."""
    for number in NUMBERS:
        signal.signal(number, signal.SIG_DFL)


def how_to_continue() -> str:
    """The command to type to run this process again. Every command resumes, or starts over, when run again."""
    program = Path(sys.argv[0])
    if program.name != "samovar":
        return f"to continue: {hide_passwords(shlex.join(sys.orig_argv))}"
    is_found = shutil.which("samovar") == str(program)
    words = ["samovar" if is_found else str(program), *sys.argv[1:]]
    return f"to continue: {hide_passwords(shlex.join(words))}"


@contextmanager
def _handling(handle: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Only the main thread gets signals; in other threads this does nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handle) for number in NUMBERS}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


class _Interrupt:
    """Raises KeyboardInterrupt where it can do no harm.

    Inside `Condition.__enter__` it would leave the condition's lock taken, and the process would wait forever for a
    thread that needs it. So while the main thread moves through such a module, the interrupt is delayed. A thread that
    does not move is blocked in a wait or in taking a lock, and both can be interrupted."""

    def __init__(self) -> None:
        self._num_delays = 0
        self._last_place: tuple[FrameType, int] | None = None

    def __call__(self, frame: FrameType | None) -> None:
        if frame is not None and _takes_locks(frame) and self._num_delays < _MAX_DELAYS:
            place = frame, frame.f_lasti
            if place != self._last_place:
                self._last_place, self._num_delays = place, self._num_delays + 1
                _raise_soon()
                return
        self._last_place = None  # it would keep the frame's variables
        raise KeyboardInterrupt


def _takes_locks(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).partition(".")[0] in _LOCKING_MODULES


def _raise_soon() -> None:
    signal.setitimer(signal.ITIMER_REAL, _RAISE_AGAIN_SECONDS)


@contextmanager
def _raising_again(interrupt: _Interrupt) -> Iterator[None]:
    """Raise an interrupt that was delayed, or lost: Python ignores exceptions in `__del__` and in callbacks of weak
    references."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def on_ignored(what: "sys.UnraisableHookArgs") -> None:
        if what.exc_type is KeyboardInterrupt:
            _raise_soon()
        else:
            hook(what)

    hook, handler = sys.unraisablehook, signal.signal(signal.SIGALRM, lambda _, frame: interrupt(frame))
    sys.unraisablehook = on_ignored
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        sys.unraisablehook = hook


def _name(number: int) -> str:
    return signal.Signals(number).name
