"""Memory that the machine has for sure. Knows no contestants."""

import mmap

import numpy as np


def touch_memory(num_bytes: int) -> None:
    """Just before somebody grows into it: so much on small pages, and so much on huge ones. A virtual machine may give
    free memory back to its host after two seconds, and gets it again on first touch: 5 ms for 2 MB where we looked, and
    0.35 for what was freed just now. A contestant that grows would then be measured by the host's speed, and one that
    took all of its memory before would not."""
    for advice in (mmap.MADV_NOHUGEPAGE, mmap.MADV_HUGEPAGE):
        with mmap.mmap(-1, num_bytes, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
            memory.madvise(advice)
            np.frombuffer(memory, np.uint8)[:: mmap.PAGESIZE] = 1
