"""A worker: takes jobs, runs each in a child process, and reports the outcome. Knows no kind of job.

take ─▶ child starts ─▶ heartbeats while it runs ─▶ its exit code is the outcome
             │ on a stop request, a lost job or a lost database, the child is asked to save a snapshot and end;
             ▼ a successor continues from there, because the directory's own lease lets only one of them write
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

from samovar.config.places import as_place
from samovar.errors import QueueUnavailable, SamovarError, Stopped
from samovar.queue.jobs import LEASE_SECONDS, Job, Outcome, Queue
from samovar.queue.task import Command, is_made, make_command
from samovar.results import ResultDirectory
from samovar.results.status import Status
from samovar.signals import StopRequest
from samovar.store import lease_state, open_store

LOG_BYTES = 16 * 1024

# Linux sends SIGTERM to the child when its parent ends for any reason: no orphan keeps working beside a successor.
_LAUNCH = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGTERM)
if os.getppid() != int(sys.argv[1]):
    sys.exit(75)
os.execv(sys.argv[2], sys.argv[2:])
"""


class Child:
    """The process that runs a job, between `__enter__` and `__exit__`. What it prints goes to a temporary file.

    It has its own process group, so that ctrl-C reaches only the worker, and it is asked to stop when its worker dies.
    """

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
        """Its exit code, or minus the signal that killed it; None if it still runs after these seconds."""
        select.select([self._handle], [], [], seconds)
        return self._process.poll()

    def stop(self) -> None:
        """Ask it to save a snapshot and end."""
        self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once; its newest snapshot stays."""
        self._process.kill()

    def log_tail(self) -> str:
        size = os.fstat(self._log.fileno()).st_size
        data = os.pread(self._log.fileno(), LOG_BYTES, max(0, size - LOG_BYTES))
        return data.decode(errors="replace").replace("\0", "")  # PostgreSQL stores no zero bytes


_POLL_SECONDS = 0.2
_HEARTBEATS_PER_LEASE = 6
_BUSY_SECONDS = 5.0
_STOPPED_BY_SIGNAL = (-signal.SIGTERM, -signal.SIGINT, -signal.SIGKILL, 128 + signal.SIGINT, 128 + signal.SIGTERM)


def worker_name(given: str = "worker") -> str:
    """Make a name that no other worker has: host and process for people, and a random word, because containers may
    share host names and process numbers.

    Args:
        given: What the name starts with.

    Returns:
        A name such as `gpu@host:4711:9f86d081`.

    Example:
        >>> worker_name("gpu").partition("@")[0]
        'gpu'
    """
    return f"{given}@{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"


@dataclass
class Worker:
    """Runs the jobs of a queue, one at a time.

    Example:
        >>> worker = Worker(open_queue("sqlite:///queue.db", is_new=True), worker_name())
        >>> worker.run_until_empty()
        >>> worker.num_taken
        0
    """

    queue: Queue
    """Where the jobs come from."""
    name: str
    """Shown in the queue. No two workers may have the same name at a time: see `worker_name`."""
    report: Callable[[str], None] = print
    """Called with one line at the start and the end of each job."""
    stop: StopRequest = field(default_factory=StopRequest)
    """Ends the worker, and its job with a snapshot."""
    lease_seconds: float = LEASE_SECONDS
    """How long a job stays its own without a heartbeat."""
    poll_seconds: float = 1.0
    """How often a queue without a waiting job is checked."""
    grace_seconds: float = 600.0
    """How long the process of a lost or cancelled job may take to save a snapshot before it is killed."""
    make_command: Command = make_command
    """The command of a task."""
    num_taken: int = 0
    """Jobs so far."""
    failed: set[int] = field(default_factory=set)
    """Jobs of this worker whose last attempt failed."""

    def run(self, is_over: Callable[[], bool] = lambda: False) -> None:
        """Run jobs until a stop is requested, or until none can be taken and `is_over` is true.

        Args:
            is_over: Whether no more jobs will come.
        """
        while not self.stop.count:
            job = self._take()
            if job is not None:
                self._run_job(job)
            elif is_over():
                return
            else:
                self.stop.wait(self.poll_seconds)

    def run_one(self) -> bool:
        """Run one job; False if none waits."""
        job = self._take()
        if job is not None:
            self._run_job(job)
        return job is not None

    def run_until_empty(self) -> None:
        """Run jobs until none waits and none runs anywhere: a running job may still come back."""
        self.run(lambda: not any(self.queue.counts().get(state) for state in ("waiting", "running")))

    def _take(self) -> Job | None:
        job = self.queue.take(f"{self.name}/{self.num_taken + 1}", self.lease_seconds)
        self.num_taken += job is not None
        return job

    def _run_job(self, job: Job) -> None:
        place = job.task.out
        self.report(f"job {job.id}: {job.task.kind} {place}{f' (attempt {job.attempts + 1})' if job.attempts else ''}")
        try:
            outcome = self._attempt(job)
        except SamovarError as error:
            if isinstance(error, QueueUnavailable):
                raise
            outcome = Outcome("wrong" if error.exit_code == 2 else "failed", error.exit_code, str(error))
        except OSError as error:  # the machine cannot start a process: another attempt, or machine, may succeed
            outcome = Outcome("failed", error=f"its process could not be started: {error}")
        if outcome is None or not self.queue.end(job, outcome):
            self.report(f"job {job.id}: was taken over or cancelled; this worker records no outcome")
        else:
            self.report(f"job {job.id}: {outcome.verdict}{f': {outcome.error}' if outcome.error else ''}")
            is_failed = outcome.verdict in ("wrong", "failed")
            self.failed.add(job.id) if is_failed else self.failed.discard(job.id)

    def _attempt(self, job: Job) -> Outcome | None:
        """None if the job is no longer ours."""
        if (holder := _holder(job)) is not None:
            return self._wait_for(holder)
        before = _last_report(job)
        with Child(self.make_command(job.task), _folder(job)) as child:
            watch = _Watch(self, job, child)
            code = watch.wait()
            if watch.database_error is not None:
                raise watch.database_error
            if watch.is_lost:
                return None
            return self._outcome_of(job, code, child, before)

    def _outcome_of(self, job: Job, code: int, child: Child, before: Status | None) -> Outcome:
        log = child.log_tail()
        if code == 0 and is_made(job.task):  # the directory is the truth, not the exit code
            return Outcome("done", code, log=log)
        if code == Stopped.exit_code or (self.stop.count and code in _STOPPED_BY_SIGNAL):
            return Outcome("put back", code, log=log)
        if (holder := _holder(job)) is not None:
            return self._wait_for(holder)  # another process was faster and continues: not a failure
        after = _last_report(job)
        if code and after is not None and after != before and not _is_of(after, child):
            # It was faster and has ended since. The next attempt finds what it left: perhaps a finished result.
            return Outcome("put back", code, f"{after.holder} has just left the directory", log)
        return Outcome("wrong" if code == 2 else "failed", code, _explain(after, code, child, log), log)

    def _wait_for(self, holder: str) -> Outcome:
        """An earlier worker's process still works in the directory. The job continues when it ends or falls silent."""
        delay = min(_BUSY_SECONDS, self.lease_seconds)
        return Outcome("put back", error=f"waits for {holder}", delay_seconds=delay)


@dataclass
class _Watch:
    """Watches a child, and renews its job's lease meanwhile."""

    worker: Worker
    job: Job
    child: Child
    is_lost: bool = False
    database_error: QueueUnavailable | None = None
    num_stops: int = 0
    kill_at: float = math.inf
    """When a child that is no longer wanted is killed."""

    def wait(self) -> int:
        pause = self.worker.lease_seconds / _HEARTBEATS_PER_LEASE
        next_heartbeat = time.monotonic() + pause
        while (code := self.child.wait(min(_POLL_SECONDS, pause))) is None:
            self._stop_if_asked()
            if time.monotonic() >= next_heartbeat and not self.is_lost and self.database_error is None:
                self._heartbeat()
                next_heartbeat = time.monotonic() + pause
        return code

    def _stop_if_asked(self) -> None:
        is_unwanted = self.is_lost or self.database_error is not None
        if is_unwanted and math.isinf(self.kill_at):
            self.kill_at = time.monotonic() + self.worker.grace_seconds
        is_late = time.monotonic() >= self.kill_at
        wanted = max(self.worker.stop.count, int(is_unwanted) + int(is_late))
        for _ in range(self.num_stops, min(wanted, 2)):
            self.child.stop() if self.num_stops == 0 else self.child.kill()
            self.num_stops += 1

    def _heartbeat(self) -> None:
        try:
            self.is_lost = not self.worker.queue.heartbeat(self.job, self.worker.lease_seconds, self.child.log_tail())
        except QueueUnavailable as error:
            self.database_error = error
            self.worker.report(f"job {self.job.id}: the queue does not answer; stopping its process, to continue later")


def _holder(job: Job) -> str | None:
    state = lease_state(open_store(job.task.out))
    return str(state.holder) if state.is_held else None


def _last_report(job: Job) -> Status | None:
    """What the last process of the directory said about itself; None if nothing can be read."""
    try:
        return ResultDirectory(open_store(job.task.out)).status
    except SamovarError:
        return None


def _is_of(status: Status, child: Child) -> bool:
    holder = status.holder
    return holder is not None and (holder.host, holder.pid) == (socket.gethostname(), child.pid)


def _folder(job: Job) -> str:
    """Where the job was added; the config's folder if that does not exist here: all paths are absolute."""
    folder = Path(job.task.folder)
    config = as_place(job.task.config_path)
    other = config.parent if isinstance(config, Path) else Path.cwd()
    return str(folder if folder.is_dir() else other)


def _explain(status: Status | None, code: int, child: Child, log: str) -> str:
    """The error that the directory records of this very process, else the end of the log."""
    how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    how += ", but there is no finished result" if code == 0 else ""
    if status is not None and status.error is not None and _is_of(status, child):
        return f"{how}: {status.error['type']}: {status.error['message']}"
    last = log[log.rfind("error: ") :] if "error: " in log else (log.strip().splitlines() or ["it printed nothing"])[-1]
    return f"{how}: {last.strip()}"
