"""The states of jobs against a simple model, for operations in any order, including those of replaced workers."""

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from samovar.queue import Job, Outcome, Task, open_queue

NAMES = st.sampled_from("abcd")
MAX_ATTEMPTS = 2


@dataclass
class Known:
    """What the model knows of a job."""

    number: int
    priority: int
    state: str = "waiting"
    attempts: int = 0
    taking: int = 0
    """The number of the `take` that holds it; 0 for none."""
    is_expired: bool = False


class QueueStates(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        memory = Path("/dev/shm")
        self.folder = Path(tempfile.mkdtemp(prefix="samovar-test-", dir=memory if memory.is_dir() else None))
        self.queue = open_queue(f"sqlite:///{self.folder}/queue.db", is_new=True)
        self.model: dict[str, Known] = {}
        self.takings: list[tuple[Job, str]] = []

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    @rule(name=NAMES, priority=st.integers(0, 1))
    def add(self, name: str, priority: int) -> None:
        out = str(self.folder / name)
        task = Task("run", f"{out}.json", (), "{}", None, out, str(self.folder), priority, MAX_ATTEMPTS)
        [added] = self.queue.add([task])
        if name not in self.model:
            assert added.how == "added"
            self.model[name] = Known(added.job.id, priority)
        elif self.model[name].state == "done":  # its directory is not there
            assert added.how == "again"
            self.model[name] = Known(added.job.id, priority)
        else:
            assert added.how == "known"

    @rule(is_mortal=st.booleans())
    def take(self, is_mortal: bool) -> None:
        job = self.queue.take(f"worker/{len(self.takings)}", -1.0 if is_mortal else 1000.0)
        for known in self.model.values():
            if known.state == "running" and known.is_expired:
                self.fail(known)
        waiting = [known for known in self.model.values() if known.state == "waiting"]
        if not waiting:
            assert job is None
            return
        best = min(waiting, key=lambda known: (-known.priority, known.attempts, known.number))
        assert job is not None
        assert job.id == best.number
        self.takings.append((job, Path(job.task.out).name))
        best.state, best.taking, best.is_expired = "running", len(self.takings), is_mortal

    @rule(data=st.data())
    def heartbeat(self, data: st.DataObject) -> None:
        if not self.takings:
            return
        taking = data.draw(st.integers(1, len(self.takings)))
        job, name = self.takings[taking - 1]
        is_held = self.is_held(name, taking)
        assert self.queue.heartbeat(job, 1000.0) == is_held
        if is_held:
            self.model[name].is_expired = False

    @rule(data=st.data(), verdict=st.sampled_from(["done", "wrong", "failed", "put back"]))
    def end(self, data: st.DataObject, verdict: str) -> None:
        if not self.takings:
            return
        taking = data.draw(st.integers(1, len(self.takings)))
        job, name = self.takings[taking - 1]
        if not self.is_held(name, taking):
            before = self.queue.jobs()
            self.queue.end(job, Outcome(verdict))  # type: ignore[arg-type]  # drawn from the same list
            assert [each.state for each in self.queue.jobs()] == [each.state for each in before]
            return
        assert self.queue.end(job, Outcome(verdict))  # type: ignore[arg-type]  # the same
        known = self.model[name]
        if verdict == "failed":
            self.fail(known)
            return
        known.attempts += verdict == "wrong"
        known.state = {"done": "done", "wrong": "failed", "put back": "waiting"}[verdict]
        known.taking = 0

    @rule(name=NAMES)
    def retry(self, name: str) -> None:
        if name in self.model:
            known = self.model[name]
            changed = self.queue.retry([known.number])
            assert bool(changed) == (known.state in ("failed", "cancelled"))
            if changed:
                known.state, known.attempts = "waiting", 0

    @rule(name=NAMES)
    def cancel(self, name: str) -> None:
        if name in self.model:
            known = self.model[name]
            changed = self.queue.cancel([known.number])
            assert bool(changed) == (known.state in ("waiting", "running"))
            if changed:
                known.state, known.taking = "cancelled", 0

    @invariant()
    def the_queue_is_as_the_model_says(self) -> None:
        found = {Path(job.task.out).name: (job.id, job.state, job.attempts) for job in self.queue.jobs()}
        assert found == {name: (known.number, known.state, known.attempts) for name, known in self.model.items()}

    def is_held(self, name: str, taking: int) -> bool:
        return self.model[name].state == "running" and self.model[name].taking == taking

    def fail(self, known: Known) -> None:
        known.attempts += 1
        known.state = "failed" if known.attempts >= MAX_ATTEMPTS else "waiting"
        known.taking = 0


TestQueueStates = QueueStates.TestCase
TestQueueStates.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)
