"""Trainings that share their cores are noticed, by readings of the clocks that the tests make up."""

from collections.abc import Sequence

from tests.runner.test_slices import minibatch

from samovar.runner import MinibatchRecord, Uri
from samovar.testing.callback import make_uris
from samovar.training.core_watch import CoreWatch


class Clocks:
    """A step that takes some time and some processor time, and the clocks that show both."""

    def __init__(self) -> None:
        self.seconds = self.processor_seconds = 0.0
        self.next = (0.0, 0.0)
        self.calls: list[str] = []

    def begin(self, uri: Uri) -> None:
        self.calls.append("begin")

    def run(self, record: MinibatchRecord) -> float:
        self.seconds += self.next[0]
        self.processor_seconds += self.next[1]
        self.calls.append("run")
        return 0.5

    def drain(self) -> None:
        self.calls.append("drain")


def watch(uris: Sequence[Sequence[tuple[float, float]]]) -> list[str]:
    """What is reported when the steps of these URIs take so many seconds, and so many of a processor."""
    clocks, reports = Clocks(), list[str]()
    watched = CoreWatch(clocks, 8, reports.append, lambda: clocks.seconds, lambda: clocks.processor_seconds)
    for steps in uris:
        watched.begin(make_uris().uris[0])
        for clocks.next in steps:
            clocks.seconds += 1000  # waiting for the minibatch does not count
            assert watched.run(minibatch(0, 2)) == 0.5
        watched.drain()
    assert clocks.calls.count("run") == sum(map(len, uris))
    assert clocks.calls.count("drain") == clocks.calls.count("begin") == len(uris)
    return reports


def test_steps_that_get_half_of_a_processor_are_reported_once_with_the_cure() -> None:
    (report,) = watch([[(10.0, 5.0)] * 4] * 3)
    assert report == (
        "the last steps took 40 s, but got only 20 s of a processor: other processes use the same cores. If these are "
        "trainings, give each of them fewer threads (this one has num_threads 8, which is fixed for its directory), or "
        "set GOMP_SPINCOUNT=2000"
    )


def test_short_uris_are_judged_together() -> None:
    assert watch([[(10.0, 4.0)]] * 2) == []
    assert len(watch([[(10.0, 4.0)]] * 3)) == 1


def test_steps_alone_on_their_cores_are_not_reported() -> None:
    assert watch([[(10.0, 9.0)] * 4] * 5) == []


def test_trouble_that_comes_late_is_noticed_too() -> None:
    assert len(watch([[(10.0, 10.0)] * 40, [(10.0, 5.0)] * 4])) == 1
