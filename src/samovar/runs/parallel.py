"""Ways to get through very many small items fast: all cores, and no garbage collection. Knows nothing of the work."""

import gc
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from samovar.signals import NUMBERS

Item = TypeVar("Item")
Answer = TypeVar("Answer")

_MAX_CHUNK_SIZE = 250
_MIN_ITEMS_TO_FORK = 500  # below this, starting the workers costs more than they save


@contextmanager
def paused_gc() -> Iterator[None]:
    """Pause Python's garbage collector, around a block or as a decorator.

    While very many small objects are made, none of them is garbage, and the collector would scan them all repeatedly.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def map_many(
    work: Callable[[Item], Answer], items: Sequence[Item], min_items_to_fork: int = _MIN_ITEMS_TO_FORK
) -> list[Answer]:
    """Return `work(item)` of every item, in order, computed on all cores.

    Runs in this process if there are few items, if there is one core, or if the process has threads and so must not
    fork.
    """
    num_workers = min(len(os.sched_getaffinity(0)), len(items))
    if num_workers < 2 or len(items) < min_items_to_fork or threading.active_count() > 1:
        return [work(item) for item in items]
    chunk_size = max(1, min(_MAX_CHUNK_SIZE, len(items) // (4 * num_workers)))
    # A signal that interrupts the pool's start leaves a pool that replaces its dead workers indefinitely.
    old_mask = signal.pthread_sigmask(signal.SIG_BLOCK, NUMBERS)
    try:
        with multiprocessing.get_context("fork").Pool(num_workers, _leave_signals_to_the_parent) as pool:
            signal.pthread_sigmask(signal.SIG_SETMASK, old_mask)
            return pool.map(work, items, chunk_size)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, old_mask)


def _leave_signals_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # the pool ends its workers with it
    signal.pthread_sigmask(signal.SIG_UNBLOCK, NUMBERS)
