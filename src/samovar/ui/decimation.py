"""Fewer points that look the same, and a smooth line that does not lie. Pure functions."""

from collections.abc import Sequence


def decimate(values: Sequence[float], most: int) -> list[int]:
    """Which points to draw: of each stretch the first, the least, the greatest and the last, so that no spike is lost.

    Args:
        values: In the order of the curve.
        most: About how many points may be drawn; all are kept if there are no more.

    Returns:
        Their numbers, rising.

    Example:
        >>> decimate([0, 0, 9, 0, 0, 0, -9, 0], most=4)
        [0, 2, 6, 7]
    """
    count = len(values)
    if count <= most:
        return list(range(count))
    num_stretches = max(1, most // 4)
    kept: set[int] = set()
    for number in range(num_stretches):
        stretch = range(number * count // num_stretches, (number + 1) * count // num_stretches)
        kept.update(
            (stretch[0], min(stretch, key=values.__getitem__), max(stretch, key=values.__getitem__), stretch[-1])
        )
    return sorted(kept)


def smooth(values: Sequence[float], strength: float) -> list[float]:
    """An average over the past that forgets, and that does not start at zero: the first point is the first value, and a
    constant stays the same constant. A point never moves when later ones are added.

    Args:
        values: In the order of the curve.
        strength: 0 leaves the values alone; 0.9 averages over about ten.

    Example:
        >>> smooth([1.0, 1.0, 3.0], 0.5)
        [1.0, 1.0, 2.142857142857143]
    """
    found, mean, weight = [], 0.0, 0.0
    for value in values:
        weight = strength * weight + 1.0  # the sum of the weights so far
        mean += (value - mean) / weight
        found.append(mean)
    return found
