"""Finds and waits for rounds in which no other process used the machine. Times no contestant itself."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.contest.rounds import Seconds, interleave

LEAST_QUIET = 3
MOST_ELSEWHERE = 0.05  # of one core
PAUSE_SECONDS = 0.5


@dataclass(frozen=True)
class Outcome:
    seconds: Seconds
    """Times of the quiet rounds, or of all rounds if there are too few quiet ones."""
    num_quiet: int
    is_disturbed: bool
    """There were too few quiet rounds."""


def compete(
    timers: Mapping[str, Callable[[], float]], rounds: int, what: str, patience: "Patience", pids: Sequence[int] = ()
) -> Outcome:
    """Time contestants in turns, as `interleave` does; `pids` are their processes, if they have their own."""
    watch = Watch(len(timers), patience, pids)
    seconds = interleave({name: partial(watch.follow, timer) for name, timer in timers.items()}, rounds, what)
    quiet = watch.quiet_rounds()
    is_disturbed = len(quiet) < min(LEAST_QUIET, rounds)
    chosen: Sequence[int] = range(rounds) if is_disturbed else quiet
    kept = {name: [times[number] for number in chosen] for name, times in seconds.items()}
    return Outcome(kept, len(quiet), is_disturbed)


class Watch:
    """Finds rounds in which other processes used the cores, by comparing the kernel's count with our own.

    OpenMP's threads spin while they wait. With another process on a core, all threads wait for the one that lost it:
    an FBGEMM step took 870 ms, and 7 ms with OMP_WAIT_POLICY=passive in the same minute. Such a round says nothing
    about the contestants. (The policy stays: in quiet rounds FBGEMM seemed slower with sleeping threads.) After such
    a round the next one starts when the machine is quiet, or when all patience is used up.
    """

    def __init__(self, num_contestants: int, patience: "Patience", pids: Sequence[int] = ()) -> None:
        """`pids` are processes of contestants; this process always counts."""
        self._num_contestants = num_contestants
        self._pids = tuple(pids)
        self._patience = patience
        self._turns: list[tuple[float, float]] = []

    def follow(self, timer: Callable[[], float]) -> float:
        if len(self._turns) % self._num_contestants == 0:
            rounds = self._is_quiet()
            if rounds and not rounds[-1]:
                self._patience.wait(self._pids)
        busy, start = _busy_elsewhere(self._pids), time.perf_counter()
        seconds = timer()
        self._turns.append((_busy_elsewhere(self._pids) - busy, time.perf_counter() - start))
        return seconds

    def quiet_rounds(self) -> list[int]:
        return [number for number, is_quiet in enumerate(self._is_quiet()) if is_quiet]

    def _is_quiet(self) -> list[bool]:
        rounds = [self._turns[i : i + self._num_contestants] for i in range(0, len(self._turns), self._num_contestants)]
        sums = [[sum(part) for part in zip(*turns, strict=True)] for turns in rounds]
        return [busy <= MOST_ELSEWHERE * wall for busy, wall in sums]


@dataclass
class Patience:
    """Seconds that a run may still wait for a quiet machine."""

    seconds: float

    def wait(self, pids: Sequence[int] = ()) -> None:
        is_quiet = False
        while self.seconds > 0 and not is_quiet:
            busy = _busy_elsewhere(pids)
            time.sleep(PAUSE_SECONDS)
            self.seconds -= PAUSE_SECONDS
            is_quiet = _busy_elsewhere(pids) - busy <= MOST_ELSEWHERE * PAUSE_SECONDS


def _busy_elsewhere(pids: Sequence[int]) -> float:
    """Seconds that the cores worked for processes other than this one, its finished children and `pids`."""
    user, nice, system, _, _, *rest = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    ticks = sum(map(int, (user, nice, system, *rest))) - sum(map(_ticks_of, pids))
    own = os.times()
    return ticks / os.sysconf("SC_CLK_TCK") - own.user - own.system - own.children_user - own.children_system


def _ticks_of(pid: int) -> int:
    after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(after_name[11]) + int(after_name[12])  # utime and stime, of all its threads
