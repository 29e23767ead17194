"""Memory that the machine has for sure. Knows no contestants."""

import numpy as np


def touch_memory(num_bytes: int) -> None:
    """Just before somebody grows into it. A virtual machine may give free memory back to its host after two seconds,
    and gets it again on first touch: 5 ms for 2 MB where we looked, 0.35 for what was freed just now. A contestant that
    grows would then be measured by the host's speed, and one that took all of its memory before would not."""
    np.ones(num_bytes, np.uint8)
