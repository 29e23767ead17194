"""One worker: what it reports, how it is stopped and replaced, and what it does without its database."""

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import pytest
from sqlalchemy import Connection
from tests.queue.fleet import (
    children,
    finishes,
    kill,
    metrics,
    run_here,
    start_worker,
    toy_command,
    toy_task,
)
from tests.queue.postgres import PostgresServer
from tests.waiting import wait_until

from samovar.errors import QueueUnavailable
from samovar.queue import Outcome, Queue, Task, Worker, open_queue, worker_name
from samovar.queue.database import Database
from samovar.results import open_directory
from samovar.store import lease_state

# Where the kind of database cannot matter, one is enough.
on_sqlite = pytest.mark.parametrize("url", ["sqlite"], indirect=True)


@pytest.fixture
def queue(url: str) -> Queue:
    return open_queue(url, is_new=True)


@pytest.fixture
def sqlite_url(quick_path: Path) -> str:
    return f"sqlite:///{quick_path}/queue.db"


def has_saved(out: str, position: int) -> bool:
    try:
        status = open_directory(out).status
    except ValueError:
        return False
    return status is not None and status.position == position


def put_to_work(url: str, queue: Queue, task: Task) -> ForkServerProcess:
    """A worker that has started the task and saved a snapshot."""
    queue.add([task])
    worker = start_worker(url, lease_seconds=1.0)
    wait_until(lambda: has_saved(task.out, 1), "the job runs")
    return worker


@on_sqlite
def test_a_failure_is_retried_after_the_others_and_keeps_error_and_log(queue: Queue, quick_path: Path) -> None:
    cure = quick_path / "cure"
    tasks = [
        toy_task(quick_path, "breaks", {"fails_until": str(cure)}, max_attempts=2),
        toy_task(quick_path, "wrong", {"is_wrong": True}),
        toy_task(quick_path, "good"),
    ]
    queue.add(tasks)
    run_here(queue)
    breaks, wrong, good = queue.jobs()
    assert (breaks.state, breaks.attempts, breaks.exit_code) == ("failed", 2, 1)
    assert breaks.error == "exit code 1: RuntimeError: the toy broke"
    assert breaks.log is not None
    assert 'raise RuntimeError("the toy broke")' in breaks.log
    assert (wrong.state, wrong.attempts, wrong.exit_code) == ("failed", 1, 2)  # another attempt could not help
    assert wrong.error == "exit code 2: error: toy: is_wrong must not be set"
    assert (good.state, good.attempts) == ("done", 0)

    cure.touch()
    assert [job.id for job in queue.retry([breaks.id, good.id])] == [breaks.id]
    run_here(queue)
    assert queue.job(breaks.id).state == "done"
    assert metrics(breaks.task.out)[1]["began_at"] == 1  # it resumed from the snapshot before the failure


@on_sqlite
def test_an_exit_code_of_0_without_a_finished_directory_is_a_failure(queue: Queue, quick_path: Path) -> None:
    queue.add([toy_task(quick_path, "lazy", {"says_nothing_and_leaves": True}, max_attempts=2)])
    run_here(queue)
    [job] = queue.jobs()
    assert (job.state, job.attempts, job.exit_code) == ("failed", 2, 0)
    assert job.error == "exit code 0, but there is no finished result: it printed nothing"


@on_sqlite
def test_a_job_whose_folder_is_gone_runs_in_the_folder_of_its_config(queue: Queue, quick_path: Path) -> None:
    queue.add([replace(toy_task(quick_path, "moved"), folder=str(quick_path / "gone"))])
    run_here(queue)
    assert [(job.state, job.error) for job in queue.jobs()] == [("done", None)]


@on_sqlite
def test_a_job_whose_process_cannot_be_started_fails_alone(queue: Queue, quick_path: Path) -> None:
    """A log that cannot be written, a machine without processes left: the worker goes on with the next job."""
    bad = replace(toy_task(quick_path, "bad", max_attempts=2), kind="impossible")
    queue.add([bad, toy_task(quick_path, "good")])

    def command(task: Task) -> list[str]:
        too_long = ["x" * (1 << 22)] if task.kind == "impossible" else []  # more than Linux lets a process have
        return [*toy_command(task), *too_long]

    Worker(queue, "here", lambda line: None, make_command=command).run_until_empty()
    impossible, good = queue.jobs()
    assert (impossible.state, impossible.attempts, good.state) == ("failed", 2, "done")
    assert impossible.error is not None
    assert impossible.error.startswith("its process could not be started: [Errno 7] Argument list too long")


@on_sqlite
def test_higher_priorities_run_first_and_old_jobs_before_new_ones(queue: Queue, quick_path: Path) -> None:
    for name, priority in (("a", 0), ("b", 5), ("c", 0), ("d", 5)):
        queue.add([toy_task(quick_path, name, {"steps": 1}, priority=priority)])
    run_here(queue)
    assert finishes(quick_path) == ["b", "d", "a", "c"]


@on_sqlite
def test_a_stopped_worker_puts_back_its_job_and_another_continues(url: str, queue: Queue, quick_path: Path) -> None:
    task = toy_task(quick_path, "slow", {"wait_at_0": str(quick_path / "never")})
    queue.add([task])
    worker = start_worker(url)
    wait_until(lambda: has_saved(task.out, 1), "the job runs")
    os.kill(worker.pid or 0, signal.SIGTERM)
    worker.join()
    assert worker.exitcode == 75
    [job] = queue.jobs()
    assert (job.state, job.attempts, job.exit_code) == ("waiting", 0, 75)
    run_here(queue)
    assert [line["began_at"] for line in metrics(task.out)] == [0, 1]


def test_the_process_of_a_killed_worker_ends_and_its_job_resumes_elsewhere(
    url: str, queue: Queue, quick_path: Path
) -> None:
    task = toy_task(quick_path, "slow", {"wait_at_0": str(quick_path / "never")})
    worker = put_to_work(url, queue, task)
    kill(worker)
    directory = open_directory(task.out)
    wait_until(lambda: not lease_state(directory.store).is_held, "the orphan has ended")
    run_here(queue)
    [job] = queue.jobs()
    assert (job.state, job.attempts) == ("done", 1)  # a dead worker counts
    assert [line["began_at"] for line in metrics(task.out)] == [0, 1]


def test_workers_that_die_too_often_make_a_job_fail(queue: Queue, quick_path: Path) -> None:
    queue.add([toy_task(quick_path, "deadly", max_attempts=2)])
    for number in range(2):
        job = queue.take(f"mortal/{number}", lease_seconds=-1.0)
        assert job is not None
    assert queue.take("next/1") is None
    [job] = queue.jobs()
    assert job.state == "failed"
    assert job.error == "its worker mortal/1 sent no heartbeat within its lease (attempt 2)"


def pause(url: str, pids: Sequence[int]) -> None:
    """Between two of their transactions: a process paused inside one would keep the lock of an SQLite file."""

    def stop(connection: Connection) -> None:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)

    Database.open(url).transact(stop)


def test_a_worker_that_slept_past_its_lease_commits_nothing(url: str, queue: Queue, quick_path: Path) -> None:
    """Worker and child are paused; a second worker takes over in the queue and in the directory; both wake."""
    go = quick_path / "go"
    task = toy_task(quick_path, "slept", {"wait_at_0": str(go)})
    worker = put_to_work(url, queue, task)
    [child] = children(worker)
    paused = [worker.pid or 0, child]
    pause(url, paused)
    try:
        wait_until(lambda: queue.jobs()[0].is_lost, "the lease is over")
        # instead of waiting for a minute: the child's last heartbeat was long ago
        for path in (Path(task.out) / ".samovar").rglob("*"):
            if path.is_file():
                os.utime(path, (time.time() - 1000, time.time() - 1000))
        go.touch()
        run_here(queue)
        [job] = queue.jobs()
        assert (job.state, job.attempts) == ("done", 1)
        inventory = open_directory(task.out).inventory()
    finally:
        for pid in paused:
            os.kill(pid, signal.SIGCONT)
    worker.join()
    assert worker.exitcode == 0  # it found nothing more to do
    assert queue.jobs() == [replace(job, silent_seconds=None, lease_seconds=None)]
    assert finishes(quick_path) == ["slept"]
    assert open_directory(task.out).inventory() == inventory


def test_a_stale_worker_cannot_end_a_job_or_renew_its_lease(queue: Queue, quick_path: Path) -> None:
    queue.add([toy_task(quick_path, "a")])
    old = queue.take("old/1", lease_seconds=-1.0)
    new = queue.take("new/1")
    assert old is not None
    assert new is not None
    assert new.epoch > old.epoch
    assert not queue.heartbeat(old)
    assert not queue.end(old, Outcome("done", 0))
    assert queue.jobs()[0].state == "running"
    assert queue.heartbeat(new)
    assert queue.end(new, Outcome("done", 0))
    assert queue.end(new, Outcome("done", 0))  # repeated, because the answer was lost


@on_sqlite
def test_a_directory_that_a_process_works_in_is_left_alone(url: str, queue: Queue, quick_path: Path) -> None:
    """The worker is paused but its child is not: the successor waits until the child is finished."""
    go = quick_path / "go"
    task = toy_task(quick_path, "busy", {"wait_at_0": str(go)})
    worker = put_to_work(url, queue, task)
    pause(url, [worker.pid or 0])
    try:
        wait_until(lambda: queue.jobs()[0].is_lost, "the lease is over")
        second = start_worker(url, lease_seconds=1.0, is_once=True)
        second.join()
        assert second.exitcode == 0
        [job] = queue.jobs()
        assert (job.state, job.attempts) == ("waiting", 1)
        assert job.error is not None
        assert job.error.startswith("waits for process")
        go.touch()
        wait_until(lambda: open_directory(task.out).is_finished, "the first child is finished")
    finally:
        os.kill(worker.pid or 0, signal.SIGCONT)
    worker.join()
    run_here(queue)
    assert [each.state for each in queue.jobs()] == ["done"]
    assert finishes(quick_path) == ["busy"]


_TOO_LATE = """
import subprocess, sys
subprocess.run(sys.argv[1:], check=False)  # another process works in the directory, and ends
print("error: it is in use by process 1", file=sys.stderr)
sys.exit(2)
"""


@pytest.mark.parametrize("config", [{}, {"fails_until": "mended"}], ids=["finished", "failed"])
@on_sqlite
def test_a_job_whose_directory_another_process_has_just_left_is_not_failed(
    queue: Queue, quick_path: Path, config: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    task = toy_task(quick_path, "shared", {key: str(quick_path / value) for key, value in config.items()})
    queue.add([task])
    commands: list[list[str]] = [[sys.executable, "-c", _TOO_LATE, *toy_command(task)], toy_command(task)]

    def next_command(task: Task) -> list[str]:
        return commands.pop(0)

    worker = Worker(queue, worker_name(), lambda line: None, make_command=next_command)
    assert worker.run_one()
    [job] = queue.jobs()
    assert (job.state, job.attempts) == ("waiting", 0)
    assert "has just left the directory" in (job.error or "")
    (quick_path / "mended").touch()
    assert worker.run_one()
    assert [each.state for each in queue.jobs()] == ["done"]


@on_sqlite
def test_the_file_of_a_queue_is_for_its_owner_only(queue: Queue, quick_path: Path) -> None:
    queue.add([toy_task(quick_path, "any")])
    assert {path.name: path.stat().st_mode & 0o777 for path in quick_path.glob("queue.db*")} == dict.fromkeys(
        (path.name for path in quick_path.glob("queue.db*")), 0o600
    )


@on_sqlite
def test_a_running_job_that_is_cancelled_stops_and_can_be_retried(url: str, queue: Queue, quick_path: Path) -> None:
    task = toy_task(quick_path, "slow", {"wait_at_0": str(quick_path / "never")})
    worker = put_to_work(url, queue, task)
    assert [job.state for job in queue.cancel([1])] == ["cancelled"]
    worker.join()
    assert worker.exitcode == 0
    assert [job.state for job in queue.jobs()] == ["cancelled"]
    assert not open_directory(task.out).is_finished
    queue.retry([1])
    run_here(queue)
    assert [line["began_at"] for line in metrics(task.out)] == [0, 1]


@on_sqlite
def test_a_cancelled_job_that_ignores_the_stop_is_killed_after_its_grace(queue: Queue, quick_path: Path) -> None:
    task = toy_task(quick_path, "deaf", {"wait_at_0": str(quick_path / "never"), "is_deaf": True})
    queue.add([task])
    worker = Worker(
        queue, worker_name(), lambda line: None, lease_seconds=1.0, grace_seconds=0.1, make_command=toy_command
    )
    thread = threading.Thread(target=worker.run_one)
    thread.start()
    wait_until(lambda: has_saved(task.out, 1), "the job runs")
    queue.cancel([1])
    thread.join()
    assert not lease_state(open_directory(task.out).store).is_held
    assert [job.state for job in queue.jobs()] == ["cancelled"]


def test_no_two_workers_have_the_same_name() -> None:
    """Host and process may be the same in two containers, as they are here."""
    names = {worker_name() for _ in range(100)}
    assert len(names) == 100
    assert all(name.startswith(f"worker@{socket.gethostname()}:{os.getpid()}:") for name in names)


def test_a_database_file_that_disappears_stops_the_job_and_loses_nothing(sqlite_url: str, quick_path: Path) -> None:
    queue = open_queue(sqlite_url, is_new=True, patience_seconds=0.3)
    task = toy_task(quick_path, "slow", {"wait_at_0": str(quick_path / "never")})
    queue.add([task])
    worker = start_worker(sqlite_url, lease_seconds=1.0, patience_seconds=0.3)
    wait_until(lambda: has_saved(task.out, 1), "the job runs")
    (quick_path / "queue.db").rename(quick_path / "away.db")
    worker.join()
    assert worker.exitcode == 1
    assert not (quick_path / "queue.db").exists()  # no empty queue in its place
    assert not lease_state(open_directory(task.out).store).is_held
    with pytest.raises(QueueUnavailable, match=r"queue\.db: the queue's database cannot be used after 0 s: unable"):
        queue.jobs()
    (quick_path / "away.db").rename(quick_path / "queue.db")
    run_here(queue)
    assert [job.state for job in queue.jobs()] == ["done"]
    assert [line["began_at"] for line in metrics(task.out)] == [0, 1]


def test_a_server_that_goes_down_stops_the_job_and_loses_nothing(quick_path: Path) -> None:
    server = PostgresServer()
    try:
        server.start()
        queue = open_queue(server.url(), is_new=True, patience_seconds=0.3)
        task = toy_task(quick_path, "slow", {"wait_at_0": str(quick_path / "never")})
        queue.add([task])
        worker = start_worker(server.url(), lease_seconds=1.0, patience_seconds=0.3)
        wait_until(lambda: has_saved(task.out, 1), "the job runs")
        server.stop()
        worker.join()
        assert worker.exitcode == 1
        with pytest.raises(QueueUnavailable, match="Restore it and start again"):
            queue.jobs()
        server.start()
        run_here(queue)
        assert [job.state for job in queue.jobs()] == ["done"]
        assert [line["began_at"] for line in metrics(task.out)] == [0, 1]
    finally:
        server.remove()


def test_a_short_absence_of_the_database_is_waited_out(sqlite_url: str, quick_path: Path) -> None:
    queue = open_queue(sqlite_url, is_new=True)
    go = quick_path / "go"
    task = toy_task(quick_path, "slow", {"wait_at_0": str(go)})
    queue.add([task])
    worker = start_worker(sqlite_url, lease_seconds=1.0, patience_seconds=60.0)
    wait_until(lambda: has_saved(task.out, 1), "the job runs")
    (quick_path / "queue.db").rename(quick_path / "away.db")
    away = open_queue(f"sqlite:///{quick_path / 'away.db'}")
    wait_until(lambda: away.job(1).is_lost, "heartbeats do not reach it")
    go.touch()
    wait_until(lambda: open_directory(task.out).is_finished, "the job is finished")
    (quick_path / "away.db").rename(quick_path / "queue.db")
    worker.join()
    assert worker.exitcode == 0
    assert [(job.state, job.attempts) for job in queue.jobs()] == [("done", 0)]
