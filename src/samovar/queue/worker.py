"""A worker: takes jobs, runs each as a child process, and says what became of it. Knows no kind of job.

take ─▶ child starts ─▶ beats while it lives ─▶ its exit code is the outcome
             │ stop asked, job lost, database gone: the child is told, saves a snapshot and ends; a successor goes
             ▼ on from there, because the directory's own lease lets only one of them write

The process that does a job: started, watched, told to stop. Knows no queue.

It has a group of its own, so that ctrl-C reaches the worker alone, and it is told to stop when its worker dies.
"""

import math
import os
import secrets
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from samovar.errors import QueueUnavailable, SamovarError, Stopped
from samovar.queue.queue import LEASE_SECONDS, Job, Outcome, Queue
from samovar.queue.task import Command, is_made, make_command
from samovar.results import ResultDirectory
from samovar.signals import StopRequest
from samovar.store import LocalStore, lease_state

LOG_BYTES = 16 * 1024

# Linux sends SIGTERM to the child when its parent is gone, however it went: no orphan works on beside a successor.
_LAUNCH = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGTERM)
if os.getppid() != int(sys.argv[1]):
    sys.exit(75)
os.execv(sys.argv[2], sys.argv[2:])
"""


class Child:
    """Runs between `__enter__` and `__exit__`; what it prints goes to a file that vanishes with it."""

    def __init__(self, command: Sequence[str], folder: str) -> None:
        self._command = command
        self._folder = folder

    def __enter__(self) -> Self:
        launcher = [sys.executable, "-I", "-S", "-c", _LAUNCH, str(os.getpid()), *self._command]
        with ExitStack() as stack:
            self._log: IO[bytes] = stack.enter_context(tempfile.TemporaryFile(prefix="samovar-job-"))
            self._process = subprocess.Popen(
                launcher,
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=subprocess.STDOUT,
                process_group=0,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
            stack.callback(self._end)
            self._handle = os.pidfd_open(self._process.pid)
            stack.callback(os.close, self._handle)
            self._opened = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.close()

    def _end(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait(self, seconds: float) -> int | None:
        """Its exit code, or minus the signal that killed it; None if it still lives after so many seconds."""
        select.select([self._handle], [], [], seconds)
        return self._process.poll()

    def stop(self) -> None:
        """It saves what it has, and ends."""
        self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """It ends at once, and its newest snapshot stays."""
        self._process.kill()

    def log_tail(self) -> str:
        size = os.fstat(self._log.fileno()).st_size
        data = os.pread(self._log.fileno(), LOG_BYTES, max(0, size - LOG_BYTES))
        return data.decode(errors="replace").replace("\0", "")  # PostgreSQL holds no zero bytes


_LOOK_SECONDS = 0.2
_BEATS_PER_LEASE = 6
_BUSY_SECONDS = 5.0
_STOPPED_BY_SIGNAL = (-signal.SIGTERM, -signal.SIGINT, -signal.SIGKILL, 128 + signal.SIGINT, 128 + signal.SIGTERM)


def worker_name(given: str = "worker") -> str:
    """Told apart from every other worker's: by host and process for people, and by a word of chance, because containers
    may share a host's name and have the same process numbers."""
    return f"{given}@{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"


@dataclass
class Worker:
    queue: Queue
    name: str
    """Shown in the queue. No two workers may have one name at a time: see `worker_name`."""
    tell: Callable[[str], None] = print
    stop: StopRequest = field(default_factory=StopRequest)
    lease_seconds: float = LEASE_SECONDS
    poll_seconds: float = 1.0
    """Between two looks at a queue without a waiting job."""
    grace_seconds: float = 600.0
    """How long the process of a job that is lost or cancelled may take to save what it has; then it is killed."""
    make_command: Command = make_command
    num_taken: int = 0
    failed: set[int] = field(default_factory=set)
    """Jobs that it had, and that did not come to a good end the last time."""

    def run(self, is_over: Callable[[], bool] = lambda: False) -> None:
        """Do jobs until somebody asks to stop, or `is_over` is true when none can be taken."""
        while not self.stop.count:
            job = self._take()
            if job is not None:
                self._do(job)
            elif is_over():
                return
            else:
                self.stop.wait(self.poll_seconds)

    def run_one(self) -> bool:
        """Do one job; False when none waits."""
        job = self._take()
        if job is not None:
            self._do(job)
        return job is not None

    def run_until_empty(self) -> None:
        """Until no job waits, and none runs anywhere: one that runs may still come back."""
        self.run(lambda: not any(self.queue.counts().get(state) for state in ("waiting", "running")))

    def _take(self) -> Job | None:
        job = self.queue.take(f"{self.name}/{self.num_taken + 1}", self.lease_seconds)
        self.num_taken += job is not None
        return job

    def _do(self, job: Job) -> None:
        place = job.task.out
        self.tell(f"job {job.id}: {job.task.kind} {place}{f' (attempt {job.attempts + 1})' if job.attempts else ''}")
        try:
            outcome = self._attempt(job)
        except SamovarError as error:
            if isinstance(error, QueueUnavailable):
                raise
            outcome = Outcome("wrong" if error.exit_code == 2 else "failed", error.exit_code, str(error))
        except OSError as error:  # the machine has no room for a process: another try, or machine, may fare better
            outcome = Outcome("failed", error=f"its process could not be run: {error}")
        if outcome is None or not self.queue.end(job, outcome):
            self.tell(f"job {job.id}: was taken over or cancelled; nothing of it is said by this worker")
        else:
            self.tell(f"job {job.id}: {outcome.verdict}{f': {outcome.error}' if outcome.error else ''}")
            is_failed = outcome.verdict in ("wrong", "failed")
            self.failed.add(job.id) if is_failed else self.failed.discard(job.id)

    def _attempt(self, job: Job) -> Outcome | None:
        """None: the job is not ours any more."""
        if (holder := _holder(job)) is not None:
            return self._busy(holder)
        with Child(self.make_command(job.task), _folder(job)) as child:
            watch = _Watch(self, job, child)
            code = watch.wait()
            if watch.gone is not None:
                raise watch.gone
            if watch.is_lost:
                return None
            return self._judge(job, code, child)

    def _judge(self, job: Job, code: int, child: Child) -> Outcome:
        log = child.log_tail()
        if code == 0 and is_made(job.task):  # the directories are the truth, not what a process says of itself
            return Outcome("done", code, log=log)
        if code == Stopped.exit_code or (self.stop.count and code in _STOPPED_BY_SIGNAL):
            return Outcome("put back", code, log=log)
        if (holder := _holder(job)) is not None:
            return self._busy(holder)  # whoever was faster goes on; that is nobody's failure
        return Outcome("wrong" if code == 2 else "failed", code, _explain(job, code, child.pid, log), log)

    def _busy(self, holder: str) -> Outcome:
        """An earlier worker's process still works there: it ends, or falls silent, and then the job goes on."""
        delay = min(_BUSY_SECONDS, self.lease_seconds)
        return Outcome("put back", error=f"waits for {holder}", delay_seconds=delay)


@dataclass
class _Watch:
    """A child's life beside the job's lease."""

    worker: Worker
    job: Job
    child: Child
    is_lost: bool = False
    gone: QueueUnavailable | None = None
    num_stops: int = 0
    ends_at: float = math.inf
    """When the grace of a child is over that nobody wants any more."""

    def wait(self) -> int:
        pause = self.worker.lease_seconds / _BEATS_PER_LEASE
        next_beat = time.monotonic() + pause
        while (code := self.child.wait(min(_LOOK_SECONDS, pause))) is None:
            self._stop_if_asked()
            if time.monotonic() >= next_beat and not self.is_lost and self.gone is None:
                self._beat()
                next_beat = time.monotonic() + pause
        return code

    def _stop_if_asked(self) -> None:
        is_unwanted = self.is_lost or self.gone is not None
        if is_unwanted and math.isinf(self.ends_at):
            self.ends_at = time.monotonic() + self.worker.grace_seconds
        is_late = time.monotonic() >= self.ends_at
        wanted = max(self.worker.stop.count, int(is_unwanted) + int(is_late))
        for _ in range(self.num_stops, min(wanted, 2)):
            self.child.stop() if self.num_stops == 0 else self.child.kill()
            self.num_stops += 1

    def _beat(self) -> None:
        try:
            self.is_lost = not self.worker.queue.beat(self.job, self.worker.lease_seconds, self.child.log_tail())
        except QueueUnavailable as error:
            self.gone = error
            self.worker.tell(f"job {self.job.id}: the queue does not answer; its process is stopped, to go on later")


def _holder(job: Job) -> str | None:
    state = lease_state(LocalStore(Path(job.task.out)))
    return str(state.holder) if state.is_held else None


def _folder(job: Job) -> str:
    """Where it was added; where its config stands if that is gone, or on another machine: all its paths are whole."""
    folder = Path(job.task.folder)
    return str(folder if folder.is_dir() else Path(job.task.config_path).parent)


def _explain(job: Job, code: int, pid: int, log: str) -> str:
    """What the directory says of this very process, else the end of the log."""
    how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    how += ", but there is no finished result" if code == 0 else ""
    try:
        status = ResultDirectory(LocalStore(Path(job.task.out))).status
    except SamovarError:
        status = None
    if status is not None and status.error is not None and status.holder is not None and status.holder.pid == pid:
        return f"{how}: {status.error['type']}: {status.error['message']}"
    said = log[log.rfind("error: ") :] if "error: " in log else (log.strip().splitlines() or ["it said nothing"])[-1]
    return f"{how}: {said.strip()}"
