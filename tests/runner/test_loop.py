"""The order of the loop, and how it ends."""

import subprocess
import sys

import pytest
import torch

from samovar.errors import Stopped
from samovar.policies import EarlyStopping
from samovar.runner import Callback, Learner, Loader, MinibatchWorkerPool, Run, Runner, UriList
from samovar.testing.callback import make_learner, make_uris


class Recorder(Callback):
    """Records every moment."""

    def __init__(self, notes: list[str], name: str = "") -> None:
        self.notes = notes
        self.name = name

    def on_run_begin(self, run: Run) -> None:
        self.notes.append(f"{self.name}run begins")

    def on_uri_begin(self, run: Run) -> None:
        assert run.uri is not None
        self.notes.append(f"{self.name}{run.uri.name} begins")

    def on_batch_end(self, run: Run) -> None:
        assert run.record is not None
        self.notes.append(f"{self.name}batch {run.record.number}")

    def on_uri_end(self, run: Run) -> None:
        assert run.uri is not None
        self.notes.append(f"{self.name}{run.uri.name} ends, next {run.next_uri}")

    def on_run_end(self, run: Run) -> None:
        self.notes.append(f"{self.name}run ends")


def train(callbacks: list[Callback], learner: Learner | None = None, uris: UriList | None = None) -> Run:
    learner = learner or make_learner()
    pool = MinibatchWorkerPool(learner)
    run = Run(learner, pool.settings.policies, callbacks)
    Runner(pool, Loader(), callbacks).run(run, uris or make_uris())
    return run


def test_the_five_moments_come_in_order_even_for_an_hour_without_rows() -> None:
    notes: list[str] = []
    run = train([Recorder(notes)], uris=UriList(make_uris().uris[1:3]))
    assert notes == [
        "run begins",
        "hour 1 begins", "batch 2", "batch 3", "hour 1 ends, next 2",
        "hour 2 begins", "hour 2 ends, next 3",
        "run ends",
    ]  # fmt: skip
    assert (run.num_batches, run.num_examples) == (2, 8)


def test_callbacks_are_called_in_their_order() -> None:
    notes: list[str] = []
    train([Recorder(notes, "a "), Recorder(notes, "b ")], uris=UriList(make_uris().uris[:1]))
    assert [note for note in notes if "ends, next" in note] == ["a hour 0 ends, next 1", "b hour 0 ends, next 1"]


def test_early_stopping_ends_the_run_after_the_other_callbacks_of_the_uri() -> None:
    class Enough(Callback):
        def on_uri_end(self, run: Run) -> None:
            if run.next_uri == 2:
                raise EarlyStopping("enough")

    notes: list[str] = []
    run = train([Enough(), Recorder(notes)])
    assert notes[-2:] == ["hour 1 ends, next 2", "run ends"]
    assert run.end_reason == "enough"


def test_a_run_that_has_ended_trains_no_more_when_it_is_resumed() -> None:
    learner = make_learner()
    pool = MinibatchWorkerPool(learner)
    run = Run(learner, pool.settings.policies)
    run.end_reason = "enough"
    notes: list[str] = []
    Runner(pool, Loader(), [Recorder(notes)]).run(run, make_uris())
    assert notes == ["run begins", "run ends"]


def test_a_run_stops_after_all_callbacks_of_the_uri() -> None:
    class Stop(Callback):
        def on_batch_end(self, run: Run) -> None:
            run.stop("as asked")

    notes: list[str] = []
    with pytest.raises(Stopped, match=r"stopped after hour 0 \(as asked\)"):
        train([Stop(), Recorder(notes)])
    assert notes[-1] == "hour 0 ends, next 1"


def test_an_error_names_the_minibatch() -> None:
    learner = make_learner()

    def loss(output: torch.Tensor, targets: object) -> torch.Tensor:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught:
        train([], Learner(learner.model, learner.optimizers, loss))
    assert caught.value.__notes__ == ["in minibatch 0 of hour 0"]


class Enough(Callback):
    def on_uri_begin(self, run: Run) -> None:
        assert run.uri is not None
        if run.uri.number == 1:
            raise EarlyStopping("enough")


def test_early_stopping_at_a_uris_begin_ends_the_run_before_it() -> None:
    notes: list[str] = []
    run = train([Enough(), Recorder(notes)])
    assert (run.end_reason, run.next_uri) == ("enough", 1)
    assert notes[-2:] == ["hour 1 begins", "run ends"]


# Six threads collide more often than two. The parent never calls the functions; each child makes its own first call.
PROGRAM = """
import os, sys, torch
import samovar.runner
torch.set_num_threads(6)
x, other = torch.rand(600_000), torch.rand(400_000)  # no parallel work before the fork
num_different = 0
for _ in range(int(sys.argv[1])):
    child = os.fork()
    if child == 0:
        for _ in range(20):
            other + 1  # the threads are awake
        os._exit(not torch.equal(torch.sqrt(x), torch.sqrt(x)))
    num_different += os.waitpid(child, 0)[1] != 0
print(num_different)
"""


@pytest.mark.long
def test_the_first_call_of_a_vectorized_function_equals_the_second() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "300"], capture_output=True, text=True, check=True, timeout=280
    )
    assert int(done.stdout) == 0
