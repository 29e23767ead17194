"""Jobs and the queue that holds them: they are added, taken, kept alive and ended, each in one transaction. Runs
nothing, and trusts no worker's clock.

    add ─▶ waiting ──take──▶ running ──▶ done           its directory is finished
              ▲                 │ ├────▶ failed         user error, or no attempt is left; retry ─▶ waiting
              │                 │ └────▶ cancelled      retry ─▶ waiting
              └─────────────────┘ stopped; failed with attempts left; its worker's lease ran out

    take         waiting ─▶ running, lease epoch + 1        no two workers get the same job
    heartbeat    only with the lease epoch that was taken   otherwise another worker has the job by now
    end          only with the lease epoch that was taken   a worker that slept past its lease changes nothing
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from sqlalchemy import Connection, Row, func, insert, select, update

from samovar.config.records import read_record
from samovar.errors import BadInput, Conflict, CorruptData
from samovar.queue.database import Database, database_now, jobs
from samovar.queue.task import (
    MAX_INTEGER,
    Task,
    describe_changed_code,
    describe_difference,
    is_done,
    is_made,
    is_rebuilt,
)

State = Literal["waiting", "running", "done", "failed", "cancelled"]
STATES: tuple[State, ...] = get_args(State)
ENDED_STATES: tuple[State, ...] = ("done", "failed", "cancelled")


LEASE_SECONDS = 60.0
_RESET: dict[str, Any] = {"attempts": 0, "ready_at": 0.0, "exit_code": None, "error": None, "log": None}
_TEXTS = ("kind", "config_path", "overrides", "config", "script", "out", "folder", "state", "holder", "error", "log")
_INTEGERS = ("id", "priority", "max_attempts", "attempts", "epoch", "exit_code")
_NULLABLE = ("script", "holder", "error", "log", "exit_code")
_RELEASED: dict[str, Any] = {"beat_at": None, "lease_until": None}


@dataclass(frozen=True)
class Job:
    """A task and its state in the queue.

    Example:
        >>> queue = open_queue("sqlite:///jobs.db", is_new=True)
        >>> added = queue.add([make_task("online.json", script="model.py")])
        >>> queue.job(1).state
        'waiting'
    """

    id: int
    """Its number in the queue."""
    task: Task
    """What to run."""
    state: State
    """waiting, running, done, failed or cancelled."""
    attempts: int
    """Failures and dead workers so far."""
    epoch: int
    """The job's lease epoch, which grows each time it is taken or taken away."""
    holder: str | None
    """The worker that has the job, or had it last."""
    silent_seconds: float | None
    """Since its worker's last heartbeat, by the database's clock; None if it is not running."""
    lease_seconds: float | None
    """The rest of the lease; below zero the job may be taken over."""
    exit_code: int | None
    """Of its command, the last time."""
    error: str | None
    """The last lines that its command wrote about its failure."""
    log: str | None
    """The end of what the command printed."""

    @property
    def is_lost(self) -> bool:
        """Marked as running, but its worker has been silent for longer than its lease."""
        return self.lease_seconds is not None and self.lease_seconds < 0


@dataclass(frozen=True)
class Outcome:
    """What a worker reports about a job it had.

    Example:
        >>> queue = open_queue("sqlite:///jobs.db", is_new=True)
        >>> added = queue.add([make_task("online.json", script="model.py")])
        >>> job = queue.take("me")
        >>> queue.end(job, Outcome("failed", exit_code=1, error="out of memory"))
        True
    """

    verdict: Literal["done", "wrong", "failed", "put back"]
    """wrong: would fail every time; failed: may work next time; put back: stopped on request."""
    exit_code: int | None = None
    """Of the command; None if it was not started or killed."""
    error: str | None = None
    """What to show as the reason of a failure."""
    log: str | None = None
    """Path of the log of the command."""
    delay_seconds: float = 0.0
    """How long a job that is put back must wait."""


@dataclass(frozen=True)
class Added:
    """What happened to a task that was added.

    Example:
        >>> queue = open_queue("sqlite:///jobs.db", is_new=True)
        >>> print(*(added.how for added in queue.add([make_task("online.json", script="model.py")])))
        added
    """

    job: Job
    """The job that the queue has for it."""
    how: Literal["added", "known", "finished", "again", "replaced"]
    """known: nothing to do; finished: its directory is finished; again: its directory was removed; replaced: it took
    the place of a job that had failed, was cancelled or was rebuilt."""
    note: str | None = None
    """What a user should look at: the code differs from that of the finished directory."""


_SELECT = select(
    jobs,
    (database_now() - jobs.c.beat_at).label("silent_seconds"),
    (jobs.c.lease_until - database_now()).label("lease_seconds"),
)


def _to_columns(task: Task) -> dict[str, Any]:
    return {
        "out": task.out,
        "kind": task.kind,
        "config_path": task.config_path,
        "overrides": json.dumps(task.overrides),
        "config": task.config,
        "script": task.script,
        "folder": task.folder,
        "priority": task.priority,
        "max_attempts": task.max_attempts,
    }


def _to_job(row: Row[Any]) -> Job:
    _refuse_other_types(row)
    task = Task(
        row.kind,
        row.config_path,
        read_record(tuple[str, ...], str(row.overrides).encode(), f"the overrides of job {row.id}"),
        row.config,
        row.script,
        row.out,
        row.folder,
        row.priority,
        row.max_attempts,
    )
    return Job(
        row.id,
        task,
        row.state,
        row.attempts,
        row.epoch,
        row.holder,
        row.silent_seconds,
        row.lease_seconds,
        row.exit_code,
        row.error,
        row.log,
    )


def _refuse_other_types(row: Row[Any]) -> None:
    """SQLite keeps any value in any column, and its file may be damaged."""
    for names, kind in ((_TEXTS, str), (_INTEGERS, int)):
        for name in names:
            value = row._mapping[name]
            if not isinstance(value, kind) and not (value is None and name in _NULLABLE):
                raise CorruptData(f"the queue is damaged: {name} of job {row.id!r} is {type(value).__name__}")
    if row.state not in STATES:
        raise CorruptData(f"the queue is damaged: job {row.id} has the state {row.state!r}")


class Queue:
    """Jobs in a database; every method is one transaction.

    Args:
        database: Where the jobs are; see `open_queue`.

    Example:
        >>> queue = open_queue("sqlite:///jobs.db", is_new=True)
        >>> print(*(added.how for added in queue.add([make_task("online.json", script="model.py")])))
        added
        >>> queue.counts()
        {'waiting': 1}
    """

    def __init__(self, database: Database) -> None:
        self.name = database.name
        self._transact = database.transact
        self._read = database.read

    def add(self, tasks: Sequence[Task]) -> list[Added]:
        """Add all tasks; or none, if one of them conflicts with a job.

        Args:
            tasks: What to add.

        Raises:
            Conflict: A job makes the same directory from another config.
        """
        made = {task.out for task in tasks if is_made(task)}
        finished = {task.out for task in tasks if task.out in made and is_done(task)}

        def act(connection: Connection) -> list[Added]:
            return [_add(connection, task, task.out in finished, task.out in made) for task in tasks]

        added = self._transact(act)
        return [replace(each, note=describe_changed_code(each.job.task)) for each in added]

    def put(self, task: Task, state: State, error: str | None = None) -> bool:
        """Add a job in the state that its directory shows; False if there is a job for that directory.

        Args:
            task: What the directory was made from.
            state: The state of the job.
            error: Why it failed, if it did.
        """

        def act(connection: Connection) -> bool:
            if _find(connection, task.out) is not None:
                return False
            connection.execute(insert(jobs).values(**_to_columns(task), state=state, error=error))
            return True

        return self._transact(act)

    def jobs(self, states: Sequence[str] = (), ids: Sequence[int] = ()) -> list[Job]:
        """Jobs in the order in which they were added, all of them by default.

        Args:
            states: Only jobs in one of these states.
            ids: Only jobs with one of these numbers.
        """
        query = _SELECT.order_by(jobs.c.id)
        if states:
            query = query.where(jobs.c.state.in_(states))
        if ids:
            query = query.where(jobs.c.id.in_(_valid_ids(ids)))
        return self._read(lambda connection: [_to_job(row) for row in connection.execute(query)])

    def job(self, number: int) -> Job:
        """The job of that number.

        Args:
            number: Its number.
        """
        found = self.jobs(ids=[number])
        if not found:
            raise BadInput(f"{self.name} has no job {number}. See `samovar queue ls`")
        return found[0]

    def counts(self) -> dict[str, int]:
        """How many jobs are in each state."""
        query = select(jobs.c.state, func.count()).group_by(jobs.c.state)
        return self._read(lambda connection: {row[0]: row[1] for row in connection.execute(query)})

    def states(self, ids: Sequence[int]) -> dict[int, State]:
        """The state of each of these jobs.

        Args:
            ids: Their numbers.
        """
        query = select(jobs.c.id, jobs.c.state).where(jobs.c.id.in_(ids)).order_by(jobs.c.id)
        return self._read(lambda connection: {row[0]: row[1] for row in connection.execute(query)})

    def take(self, holder: str, lease_seconds: float = LEASE_SECONDS) -> Job | None:
        """Take the next job under a new lease epoch; None if none waits. Every call needs another `holder`, except a
        call repeated because its answer was lost.

        Args:
            holder: The name of the worker.
            lease_seconds: How long the job is its own without a heartbeat.
        """

        def act(connection: Connection) -> Job | None:
            # the answer to an earlier call may have been lost
            number = connection.scalar(select(jobs.c.id).where(jobs.c.state == "running", jobs.c.holder == holder))
            if number is None:
                _release_lost(connection)
                number = connection.scalar(_NEXT)
                if number is None:
                    return None
                connection.execute(
                    update(jobs)
                    .where(jobs.c.id == number)
                    .values(state="running", epoch=jobs.c.epoch + 1, holder=holder, **_new_lease(lease_seconds))
                )
            return _read(connection, number)

        return self._transact(act)

    def heartbeat(self, job: Job, lease_seconds: float = LEASE_SECONDS, log: str | None = None) -> bool:
        """Renew the lease; False if the job is no longer ours.

        Args:
            job: The job as it was taken.
            lease_seconds: How long it stays ours from now.
            log: Path of the log of its command, if it is new.
        """
        change = _update_held(job).values(log=log, **_new_lease(lease_seconds))
        return self._transact(lambda connection: connection.execute(change).rowcount == 1)

    def end(self, job: Job, outcome: Outcome) -> bool:
        """Record the outcome; False, and nothing changes, if the job is no longer ours.

        Args:
            job: The job as it was taken.
            outcome: How it ended.
        """
        values = _end_values(job, outcome)

        def act(connection: Connection) -> bool:
            if connection.execute(_update_held(job).values(**values)).rowcount == 1:
                return True
            # the answer to an earlier call may have been lost
            now = connection.execute(select(jobs.c.epoch, jobs.c.state).where(jobs.c.id == job.id)).one_or_none()
            return now is not None and (now.epoch, now.state) == (job.epoch, values["state"])

        return self._transact(act)

    def retry(self, ids: Sequence[int]) -> list[Job]:
        """Let failed and cancelled jobs wait again, with all their attempts; return those jobs.

        Args:
            ids: Their numbers.
        """
        return self._change(ids, ("failed", "cancelled"), {"state": "waiting", **_RESET})

    def cancel(self, ids: Sequence[int]) -> list[Job]:
        """Cancel waiting and running jobs; return those jobs. A running one is stopped by its worker and keeps its
        snapshot.

        Args:
            ids: Their numbers.
        """
        return self._change(ids, ("waiting", "running"), {"state": "cancelled", "epoch": jobs.c.epoch + 1, **_RELEASED})

    def _change(self, ids: Sequence[int], states: Sequence[State], values: dict[str, Any]) -> list[Job]:
        query = select(jobs.c.id).where(jobs.c.id.in_(_valid_ids(ids)), jobs.c.state.in_(states)).with_for_update()

        def act(connection: Connection) -> list[Job]:
            found = list(connection.scalars(query))
            connection.execute(update(jobs).where(jobs.c.id.in_(found)).values(**values))
            return [_to_job(row) for row in connection.execute(_SELECT.where(jobs.c.id.in_(found)).order_by(jobs.c.id))]

        return self._transact(act)


def open_queue(url: str, *, is_new: bool = False, patience_seconds: float | None = None) -> Queue:
    """Open the queue at an address such as `sqlite:///queue.db` or `postgresql://user@host/name`.

    Args:
        url: The address of the database.
        is_new: Create the queue if there is none; otherwise that is an error.
        patience_seconds: How long an operation waits for a database that does not answer; 20 by default.

    Returns:
        The queue.

    Raises:
        BadInput: The address is not one of a database that can hold a queue.
        NotAResult: There is no queue at the address.
        QueueUnavailable: The database does not answer.

    Example:
        >>> open_queue("sqlite:///queue.db", is_new=True).counts()
        {}
    """
    options = {} if patience_seconds is None else {"patience_seconds": patience_seconds}
    return Queue(Database.open(url, is_new=is_new, **options))


# A job that failed goes behind the others of the same priority.
_NEXT = (
    select(jobs.c.id)
    .where(jobs.c.state == "waiting", jobs.c.ready_at <= database_now())
    .order_by(jobs.c.priority.desc(), jobs.c.attempts, jobs.c.id)
    .limit(1)
    .with_for_update(skip_locked=True)
)


def _valid_ids(ids: Sequence[int]) -> list[int]:
    """No job has another number, and a database fails if asked for one that is too large."""
    return [number for number in ids if 0 < number <= MAX_INTEGER]


def _new_lease(lease_seconds: float) -> dict[str, Any]:
    return {"beat_at": database_now(), "lease_until": database_now() + lease_seconds}


def _update_held(job: Job) -> Any:
    """An update that changes the job only while it is held under the lease epoch that was taken."""
    return update(jobs).where(jobs.c.id == job.id, jobs.c.epoch == job.epoch, jobs.c.state == "running")


def _end_values(job: Job, outcome: Outcome) -> dict[str, Any]:
    attempts = job.attempts + (outcome.verdict in ("wrong", "failed"))
    states: dict[str, State] = {
        "done": "done",
        "wrong": "failed",
        "failed": "failed" if attempts >= job.task.max_attempts else "waiting",
        "put back": "waiting",
    }
    return {
        "state": states[outcome.verdict],
        "attempts": attempts,
        "ready_at": database_now() + outcome.delay_seconds,
        "exit_code": outcome.exit_code,
        "error": outcome.error,
        "log": outcome.log,
        **_RELEASED,
    }


def _release_lost(connection: Connection) -> None:
    """Take jobs from workers whose lease ran out. That costs the job an attempt. The new lease epoch keeps a worker
    that only slept from ending the job."""
    lost = select(jobs).where(jobs.c.state == "running", jobs.c.lease_until < database_now())
    for row in connection.execute(lost.with_for_update(skip_locked=True)).all():
        attempts = row.attempts + 1
        state = "failed" if attempts >= row.max_attempts else "waiting"
        error = f"its worker {row.holder} sent no heartbeat within its lease (attempt {attempts})"
        values = {"state": state, "attempts": attempts, "epoch": row.epoch + 1, "error": error, **_RELEASED}
        connection.execute(update(jobs).where(jobs.c.id == row.id).values(**values))


def _add(connection: Connection, task: Task, is_finished: bool, has_result: bool) -> Added:
    """`is_finished`: its directory is finished by this very task; `has_result`: by any task."""
    state: State = "done" if is_finished else "waiting"
    row = _find(connection, task.out)
    if row is None:
        number = connection.execute(insert(jobs).values(**_to_columns(task), state=state)).inserted_primary_key
        assert number is not None
        return Added(_read(connection, number[0]), "finished" if is_finished else "added")
    job = _to_job(row)
    how = _decide(job, task, is_finished, has_result)
    if how != "known":
        values = {**_to_columns(task), **_RESET, **_RELEASED, "state": state, "epoch": jobs.c.epoch + 1}
        connection.execute(update(jobs).where(jobs.c.id == job.id).values(**values))
    return Added(_read(connection, job.id), how)


def _decide(
    job: Job, task: Task, is_finished: bool, has_result: bool
) -> Literal["known", "finished", "again", "replaced"]:
    """What to do with a task if there is a job for its directory."""
    if is_finished and job.state == "done":
        return "known"
    is_abandoned = job.state in ("failed", "cancelled")
    difference = describe_difference(job.task, task)
    if difference is not None and not is_abandoned:
        first = "" if job.state == "done" else f", or run `samovar queue cancel {job.id}` first"
        raise Conflict(
            f"{task.out}: job {job.id} ({job.state}) already uses this directory with another config: {difference}. "
            f"Choose another directory with --out (out=… in Python){first}"
        )
    if difference is not None:
        return "replaced"
    if is_finished:
        return "known" if job.state == "running" else "finished"
    if is_rebuilt(job.task) and not is_rebuilt(task) and (is_abandoned or job.state == "waiting"):
        return "replaced"  # what the user typed says more than what the directory holds
    return "again" if job.state == "done" and not has_result else "known"


def _find(connection: Connection, out: str) -> Row[Any] | None:
    return connection.execute(_SELECT.where(jobs.c.out == out).with_for_update()).one_or_none()


def _read(connection: Connection, number: int) -> Job:
    return _to_job(connection.execute(_SELECT.where(jobs.c.id == number)).one())
