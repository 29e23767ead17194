"""The queue: jobs are added, taken, kept alive and ended, each in one transaction. Runs nothing, and trusts no
worker's clock.

take    waiting ─▶ running, epoch + 1       one transaction; no two workers get one job
beat    only with the epoch that was taken  else the job is somebody else's by now
end     only with the epoch that was taken  a worker that slept beyond its lease changes nothing

A task and its life in the queue.

    add ─▶ waiting ──take──▶ running ──▶ done           its directory is finished
              ▲                 │ ├────▶ failed         the user's mistake, or no attempt is left; retry ─▶ waiting
              │                 │ └────▶ cancelled      retry ─▶ waiting
              └─────────────────┘ stopped; failed with attempts left; its worker gave no sign of life

Every taking raises the epoch, and a change by a worker counts only with the epoch that it took.

Jobs as rows of the table, there and back. Changes nothing.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from sqlalchemy import Connection, Row, func, insert, select, update

from samovar.errors import BadInput, Conflict
from samovar.queue.database import Database, database_now, jobs
from samovar.queue.task import MOST, Task, describe_difference, is_done, is_made, is_rebuilt

State = Literal["waiting", "running", "done", "failed", "cancelled"]
STATES: tuple[State, ...] = get_args(State)
OVER: tuple[State, ...] = ("done", "failed", "cancelled")


@dataclass(frozen=True)
class Job:
    id: int
    task: Task
    state: State
    attempts: int
    """Failures and dead workers so far."""
    epoch: int
    holder: str | None
    """The worker that has it, or had it last."""
    silent_seconds: float | None
    """Since its worker's last sign of life, by the database's clock; None when it is not running."""
    lease_seconds: float | None
    """What is left of the lease; below zero it may be taken over."""
    exit_code: int | None
    error: str | None
    log: str | None
    """The end of what the command printed."""

    @property
    def is_lost(self) -> bool:
        """Running on paper, but its worker is silent for too long."""
        return self.lease_seconds is not None and self.lease_seconds < 0


@dataclass(frozen=True)
class Outcome:
    """What a worker says of a job that it had."""

    verdict: Literal["done", "wrong", "failed", "put back"]
    """wrong: cannot work however often it is tried; failed: may work the next time; put back: stopped on request."""
    exit_code: int | None = None
    error: str | None = None
    log: str | None = None
    delay_seconds: float = 0.0
    """How long a job that was put back is left alone."""


SELECT = select(
    jobs,
    (database_now() - jobs.c.beat_at).label("silent_seconds"),
    (jobs.c.lease_until - database_now()).label("lease_seconds"),
)


def to_columns(task: Task) -> dict[str, Any]:
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


def to_job(row: Row[Any]) -> Job:
    task = Task(
        row.kind,
        row.config_path,
        tuple(json.loads(row.overrides)),
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


LEASE_SECONDS = 60.0
_CLEAN: dict[str, Any] = {"attempts": 0, "ready_at": 0.0, "exit_code": None, "error": None, "log": None}
_FREE: dict[str, Any] = {"beat_at": None, "lease_until": None}


@dataclass(frozen=True)
class Added:
    """What became of a task that was added."""

    job: Job
    how: Literal["added", "known", "finished", "again", "replaced"]
    """known: nothing to do; finished: its directory is; again: its directory was removed; replaced: of a job that
    had failed, was cancelled or was rebuilt."""


class Queue:
    def __init__(self, database: Database) -> None:
        self.name = database.name
        self._transact = database.transact

    def add(self, tasks: Sequence[Task]) -> list[Added]:
        """All of them or, when one contradicts a job that is there, none."""
        made = {task.out for task in tasks if is_made(task)}
        finished = {task.out for task in tasks if task.out in made and is_done(task)}

        def act(connection: Connection) -> list[Added]:
            return [_add(connection, task, task.out in finished, task.out in made) for task in tasks]

        return self._transact(act)

    def put(self, task: Task, state: State, error: str | None = None) -> bool:
        """A job as its directory says; False if there is one for that directory."""

        def act(connection: Connection) -> bool:
            if _find(connection, task.out) is not None:
                return False
            connection.execute(insert(jobs).values(**to_columns(task), state=state, error=error))
            return True

        return self._transact(act)

    def jobs(self, states: Sequence[str] = (), ids: Sequence[int] = ()) -> list[Job]:
        """In the order of adding."""
        query = SELECT.order_by(jobs.c.id)
        if states:
            query = query.where(jobs.c.state.in_(states))
        if ids:
            query = query.where(jobs.c.id.in_(_possible(ids)))
        return self._transact(lambda connection: [to_job(row) for row in connection.execute(query)])

    def job(self, number: int) -> Job:
        found = self.jobs(ids=[number])
        if not found:
            raise BadInput(f"{self.name}: has no job {number}; expected one of `samovar queue ls`: check the number")
        return found[0]

    def counts(self) -> dict[str, int]:
        """How many jobs are in each state."""
        query = select(jobs.c.state, func.count()).group_by(jobs.c.state)
        return self._transact(lambda connection: {row[0]: row[1] for row in connection.execute(query)})

    def states(self, ids: Sequence[int]) -> dict[int, State]:
        query = select(jobs.c.id, jobs.c.state).where(jobs.c.id.in_(ids)).order_by(jobs.c.id)
        return self._transact(lambda connection: {row[0]: row[1] for row in connection.execute(query)})

    def take(self, holder: str, lease_seconds: float = LEASE_SECONDS) -> Job | None:
        """The next job, now held under a new epoch; None when none waits. `holder` is another name each time."""

        def act(connection: Connection) -> Job | None:
            # the answer to an earlier try may have been lost
            had = connection.scalar(select(jobs.c.id).where(jobs.c.state == "running", jobs.c.holder == holder))
            if had is None:
                _free_lost(connection)
                had = connection.scalar(_NEXT)
                if had is None:
                    return None
                connection.execute(
                    update(jobs)
                    .where(jobs.c.id == had)
                    .values(state="running", epoch=jobs.c.epoch + 1, holder=holder, **_alive(lease_seconds))
                )
            return to_job(connection.execute(SELECT.where(jobs.c.id == had)).one())

        return self._transact(act)

    def beat(self, job: Job, lease_seconds: float = LEASE_SECONDS, log: str | None = None) -> bool:
        """A sign of life; False when the job is not ours any more."""
        change = _held(job).values(log=log, **_alive(lease_seconds))
        return self._transact(lambda connection: connection.execute(change).rowcount == 1)

    def end(self, job: Job, outcome: Outcome) -> bool:
        """What became of it; False, and nothing is changed, when the job is not ours any more."""
        values = _ended(job, outcome)

        def act(connection: Connection) -> bool:
            if connection.execute(_held(job).values(**values)).rowcount == 1:
                return True
            # the answer to an earlier try may have been lost
            now = connection.execute(select(jobs.c.epoch, jobs.c.state).where(jobs.c.id == job.id)).one_or_none()
            return now is not None and (now.epoch, now.state) == (job.epoch, values["state"])

        return self._transact(act)

    def retry(self, ids: Sequence[int]) -> list[Job]:
        """Failed and cancelled ones wait again, with all their attempts; gives those."""
        return self._change(ids, ("failed", "cancelled"), {"state": "waiting", **_CLEAN})

    def cancel(self, ids: Sequence[int]) -> list[Job]:
        """Waiting and running ones are given up; a running one is stopped by its worker, and keeps its snapshot."""
        return self._change(ids, ("waiting", "running"), {"state": "cancelled", "epoch": jobs.c.epoch + 1, **_FREE})

    def _change(self, ids: Sequence[int], states: Sequence[State], values: dict[str, Any]) -> list[Job]:
        query = select(jobs.c.id).where(jobs.c.id.in_(_possible(ids)), jobs.c.state.in_(states)).with_for_update()

        def act(connection: Connection) -> list[Job]:
            found = list(connection.scalars(query))
            connection.execute(update(jobs).where(jobs.c.id.in_(found)).values(**values))
            return [to_job(row) for row in connection.execute(SELECT.where(jobs.c.id.in_(found)).order_by(jobs.c.id))]

        return self._transact(act)


def open_queue(url: str, *, is_new: bool = False, patience_seconds: float | None = None) -> Queue:
    options = {} if patience_seconds is None else {"patience_seconds": patience_seconds}
    return Queue(Database.open(url, is_new=is_new, **options))


# A job that failed goes behind the others of its priority.
_NEXT = (
    select(jobs.c.id)
    .where(jobs.c.state == "waiting", jobs.c.ready_at <= database_now())
    .order_by(jobs.c.priority.desc(), jobs.c.attempts, jobs.c.id)
    .limit(1)
    .with_for_update(skip_locked=True)
)


def _possible(ids: Sequence[int]) -> list[int]:
    """No database has a job of another number, and none can be asked for it."""
    return [number for number in ids if 0 < number <= MOST]


def _alive(lease_seconds: float) -> dict[str, Any]:
    return {"beat_at": database_now(), "lease_until": database_now() + lease_seconds}


def _held(job: Job) -> Any:
    """A change that counts only while the job is held under the epoch that was taken."""
    return update(jobs).where(jobs.c.id == job.id, jobs.c.epoch == job.epoch, jobs.c.state == "running")


def _ended(job: Job, outcome: Outcome) -> dict[str, Any]:
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
        **_FREE,
    }


def _free_lost(connection: Connection) -> None:
    """Jobs whose workers gave no sign of life: an attempt is gone, and the epoch is raised, so that a worker which
    only slept cannot end it any more."""
    lost = select(jobs).where(jobs.c.state == "running", jobs.c.lease_until < database_now())
    for row in connection.execute(lost.with_for_update(skip_locked=True)).all():
        attempts = row.attempts + 1
        state = "failed" if attempts >= row.max_attempts else "waiting"
        error = f"its worker {row.holder} gave no sign of life within its lease (attempt {attempts})"
        values = {"state": state, "attempts": attempts, "epoch": row.epoch + 1, "error": error, **_FREE}
        connection.execute(update(jobs).where(jobs.c.id == row.id).values(**values))


def _add(connection: Connection, task: Task, is_finished: bool, is_there: bool) -> Added:
    """`is_there`: something is finished in its directory, be it this task's or not."""
    state: State = "done" if is_finished else "waiting"
    row = _find(connection, task.out)
    if row is None:
        number = connection.execute(insert(jobs).values(**to_columns(task), state=state)).inserted_primary_key
        assert number is not None
        return Added(_read(connection, number[0]), "finished" if is_finished else "added")
    job = to_job(row)
    how = _meet(job, task, is_finished, is_there)
    if how != "known":
        values = {**to_columns(task), **_CLEAN, **_FREE, "state": state, "epoch": jobs.c.epoch + 1}
        connection.execute(update(jobs).where(jobs.c.id == job.id).values(**values))
    return Added(_read(connection, job.id), how)


def _meet(job: Job, task: Task, is_finished: bool, is_there: bool) -> Literal["known", "finished", "again", "replaced"]:
    """What to do with a task for whose directory there is a job."""
    if is_finished and job.state == "done":
        return "known"
    is_given_up = job.state in ("failed", "cancelled")
    difference = describe_difference(job.task, task)
    if difference is not None and not is_given_up:
        first = "" if job.state == "done" else f", or `samovar queue cancel {job.id}` first"
        raise Conflict(
            f"{task.out}: job {job.id} ({job.state}) makes it from another config: {difference}; expected one config "
            f"a directory: give another --out{first}"
        )
    if difference is not None:
        return "replaced"
    if is_finished:
        return "known" if job.state == "running" else "finished"
    if is_rebuilt(job.task) and not is_rebuilt(task) and (is_given_up or job.state == "waiting"):
        return "replaced"  # what the user typed says more than what the directory keeps
    return "again" if job.state == "done" and not is_there else "known"


def _find(connection: Connection, out: str) -> Row[Any] | None:
    return connection.execute(SELECT.where(jobs.c.out == out).with_for_update()).one_or_none()


def _read(connection: Connection, number: int) -> Job:
    return to_job(connection.execute(SELECT.where(jobs.c.id == number)).one())
