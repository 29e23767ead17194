"""Times contestants in turns, so that a slow minute hits all of them. Knows nothing of what they do."""

import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from rich.progress import track

from samovar.seeds import numpy_generator

Seconds = Mapping[str, Sequence[float]]
"""The times of each contestant, one per round."""


def interleave(timers: Mapping[str, Callable[[], float]], rounds: int, what: str) -> Seconds:
    """Every contestant once per round, each round in a different order. A timer returns the seconds it took."""
    seconds: dict[str, list[float]] = {name: [] for name in timers}
    for name in track(_order(list(timers), rounds), what, rounds * len(timers), transient=True):
        seconds[name].append(timers[name]())
    return seconds


def _order(names: Sequence[str], rounds: int) -> Iterable[str]:
    for number in range(rounds):
        for index in numpy_generator(1, "order of contestants", number).permutation(len(names)):
            yield names[index]


def time_call(act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def paired_ratio(seconds: Seconds, contestant: str, peer: str) -> float:
    """How many times as fast as the peer in the same round: the median over the rounds."""
    pairs = zip(seconds[peer], seconds[contestant], strict=True)
    return statistics.median(of_peer / own for of_peer, own in pairs)
