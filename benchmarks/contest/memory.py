"""Memory that is known to be backed by the machine. Knows no contestants."""

import mmap

import numpy as np


def touch_memory(num_bytes: int) -> None:
    """Touch memory on small and on huge pages just before a contestant grows into it. A virtual machine returns free
    memory to its host after about two seconds and gets it back on first touch: 5 ms for 2 MB where we measured, and
    0.35 ms for pages freed just now. Without this, a growing contestant is timed by its host, and one that allocated
    everything up front is not."""
    for advice in (mmap.MADV_NOHUGEPAGE, mmap.MADV_HUGEPAGE):
        with mmap.mmap(-1, num_bytes, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
            memory.madvise(advice)
            np.frombuffer(memory, np.uint8)[:: mmap.PAGESIZE] = 1
