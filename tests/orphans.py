"""Child processes that end with the process that started them, however that ends: a killed test leaves none behind."""

import ctypes
import os
import signal
from collections.abc import Callable
from functools import partial

_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1


def ending_with_me() -> Callable[[], None]:
    """For `preexec_fn` of a new process."""
    return partial(end_with_parent, os.getpid())


def end_with_parent(parent: int) -> None:
    """In a child: let the kernel kill it when its parent ends. Those that it forks in turn end with it."""
    _set_death_signal()
    if os.getppid() != parent:  # it has ended meanwhile
        os._exit(1)
    os.register_at_fork(after_in_child=_set_death_signal)


def _set_death_signal() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
