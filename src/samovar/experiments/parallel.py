"""The same small work on very many items, on all cores. Knows nothing of the work."""

import multiprocessing
import os
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

Item = TypeVar("Item")
Answer = TypeVar("Answer")

_CHUNK = 250


def map_many(work: Callable[[Item], Answer], items: Sequence[Item]) -> list[Answer]:
    """The answers in the order of the items. Few items, one core, or a process with threads, which must not fork: then
    they are worked off here."""
    num_workers = min(len(os.sched_getaffinity(0)), len(items) // _CHUNK)
    if num_workers < 2 or threading.active_count() > 1:
        return [work(item) for item in items]
    with multiprocessing.get_context("fork").Pool(num_workers) as pool:
        return pool.map(work, items, _CHUNK)
