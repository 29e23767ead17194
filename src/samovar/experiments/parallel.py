"""The same small work on very many items, on all cores. Knows nothing of the work."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from samovar.signals import NUMBERS

Item = TypeVar("Item")
Answer = TypeVar("Answer")

_MOST_IN_CHUNK = 250
_LEAST_TO_FORK = 500  # below, starting the workers costs more than they save


def map_many(
    work: Callable[[Item], Answer], items: Sequence[Item], least_to_fork: int = _LEAST_TO_FORK
) -> list[Answer]:
    """The answers in the order of the items. Few items, one core, or a process with threads, which must not fork: then
    they are worked off here."""
    num_workers = min(len(os.sched_getaffinity(0)), len(items))
    if num_workers < 2 or len(items) < least_to_fork or threading.active_count() > 1:
        return [work(item) for item in items]
    chunk = max(1, min(_MOST_IN_CHUNK, len(items) // (4 * num_workers)))
    heard = signal.pthread_sigmask(signal.SIG_BLOCK, NUMBERS)  # half a pool would replace its ended workers for ever
    try:
        with multiprocessing.get_context("fork").Pool(num_workers, _leave_interrupts_to_the_parent) as pool:
            signal.pthread_sigmask(signal.SIG_SETMASK, heard)
            return pool.map(work, items, chunk)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, heard)


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # by which the parent ends them
    signal.pthread_sigmask(signal.SIG_UNBLOCK, NUMBERS)
