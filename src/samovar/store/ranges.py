"""Which ranges of a file to ask for, when each request costs a round trip. Pure functions."""

from collections.abc import Sequence
from itertools import pairwise

MAX_GAP_BYTES = 256 << 10  # read and thrown away, rather than asking twice
MAX_REQUEST_BYTES = 16 << 20  # larger ones are cut, so that several connections share them

Range = tuple[int, int]
"""Bytes [start, stop)."""


def merge_ranges(ranges: Sequence[Range]) -> list[Range]:
    """Ranges that cover all the given ones, sorted and apart from each other by more than `MAX_GAP_BYTES`.

    Example:
        >>> merge_ranges([(900_000, 950_000), (0, 10), (5, 20)])
        [(0, 20), (900000, 950000)]
    """
    merged: list[Range] = []
    for start, stop in sorted(each for each in ranges if each[0] < each[1]):
        if merged and start - merged[-1][1] <= MAX_GAP_BYTES:
            merged[-1] = merged[-1][0], max(stop, merged[-1][1])
        else:
            merged.append((start, stop))
    return merged


def cut_range(start: int, stop: int, max_bytes: int = MAX_REQUEST_BYTES) -> list[Range]:
    """A range in pieces of about equal size, none larger than `max_bytes`.

    Example:
        >>> cut_range(0, 10, max_bytes=4)
        [(0, 4), (4, 7), (7, 10)]
    """
    count = max(1, -(-(stop - start) // max_bytes))
    cuts = [start + -(-(stop - start) * index // count) for index in range(count + 1)]
    return list(pairwise(cuts))
