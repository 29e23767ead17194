"""Notices that a training has to share its cores, which makes steps several times slower. Knows no other processes: it
compares the time that steps take with the processor time that they get.
"""

import time
from collections.abc import Callable

from samovar.runner import MinibatchRecord, Step, Uri

_LEAST_SECONDS = 30.0
"""Of steps, before they are judged: a short URI says little."""
_SUSPICIOUS_RATIO = 1.5
"""Alone on its cores, the thread of a step computes all the time, or spins while it waits for the others."""


class CoreWatch:
    """A step that measures another one, and reports once if it gets much less processor time than it takes.

    Waiting for minibatches does not count, nor do callbacks. The check comes at the end of a URI.

    Args:
        step: The step to measure.
        num_threads: The threads of the run, for the message.
        report: Called with the message, at most once.
        clock: The time in seconds.
        processor_clock: The processor time of this thread in seconds.
    """

    def __init__(
        self,
        step: Step,
        num_threads: int,
        report: Callable[[str], None],
        clock: Callable[[], float] = time.perf_counter,
        processor_clock: Callable[[], float] = time.thread_time,
    ) -> None:
        self._step = step
        self._num_threads = num_threads
        self._report = report
        self._clock = clock
        self._processor_clock = processor_clock
        self._seconds = self._processor_seconds = 0.0
        self._is_done = False

    def begin(self, uri: Uri) -> None:
        self._step.begin(uri)

    def run(self, record: MinibatchRecord) -> float | None:
        start, processor_start = self._clock(), self._processor_clock()
        loss = self._step.run(record)
        self._seconds += self._clock() - start
        self._processor_seconds += self._processor_clock() - processor_start
        return loss

    def drain(self) -> None:
        self._step.drain()
        if self._is_done or self._seconds < _LEAST_SECONDS:
            return
        if self._seconds > _SUSPICIOUS_RATIO * self._processor_seconds:
            self._is_done = True
            self._report(
                f"the last steps took {self._seconds:.0f} s, but got only {self._processor_seconds:.0f} s of a "
                "processor: other processes use the same cores. If these are trainings, give each of them fewer "
                f"threads (this one has num_threads {self._num_threads}, which is fixed for its directory), or set "
                "GOMP_SPINCOUNT=2000"
            )
        self._seconds = self._processor_seconds = 0.0
