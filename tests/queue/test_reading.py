"""Looking at a queue changes nothing, needs no right to write, and ends, whatever a stranger put into its file."""

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path

import pytest
from sqlalchemy import Connection
from tests.orphans import ending_with_me
from tests.queue.fleet import toy_task

from samovar.errors import NotAResult, QueueUnavailable, SamovarError
from samovar.queue import Queue, open_queue

NOBODY = 65534
WRITER = """
import sqlite3, sys
writer = sqlite3.connect(sys.argv[1], isolation_level=None)
writer.execute("UPDATE samovar_jobs_1 SET state = 'done'")
print("written", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that other users can reach."""
    made = Path(tempfile.mkdtemp(prefix="samovar-queue-"))
    made.chmod(0o755)
    yield made
    made.chmod(0o755)
    shutil.rmtree(made)


@pytest.fixture
def path(folder: Path) -> Path:
    open_queue(f"sqlite:///{folder}/queue.db", is_new=True).add([toy_task(folder, "a"), toy_task(folder, "b")])
    return folder / "queue.db"


def open_file(path: Path) -> Queue:
    return open_queue(f"sqlite:///{path}", patience_seconds=0.0)


@contextmanager
def reading_only(folder: Path) -> Iterator[None]:
    """Files and folder cannot be written, by root neither."""
    for each in folder.glob("queue.db*"):
        each.chmod(0o444)
    folder.chmod(0o555)
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)
        folder.chmod(0o755)


def look(queue: Queue) -> list[str]:
    assert queue.job(1).state == queue.states([1])[1] == "waiting"
    assert queue.counts() == {"waiting": 2}
    return [Path(job.task.out).name for job in queue.jobs()]


def test_a_queue_is_read_while_another_process_writes(path: Path) -> None:
    queue = open_file(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("UPDATE samovar_jobs_1 SET state = 'done'")
        assert look(queue) == ["a", "b"]
        writer.execute("ROLLBACK")


def test_a_queue_that_cannot_be_written_is_read(path: Path) -> None:
    with reading_only(path.parent):
        assert look(open_file(path)) == ["a", "b"]
        with pytest.raises(QueueUnavailable, match=r"readonly database\. Check your rights on the file") as caught:
            open_file(path).cancel([1])
    assert "rebuild" not in str(caught.value)
    assert sorted(each.name for each in path.parent.iterdir()) == ["configs", "queue.db"]


def test_a_queue_that_others_write_is_read_without_the_right_to_write(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("INSERT INTO samovar_jobs_1 SELECT 3, out || 'c', kind, config_path, overrides, config, script, "
                       "folder, priority, max_attempts, 'done', attempts, epoch, ready_at, holder, beat_at, "
                       "lease_until, exit_code, error, log FROM samovar_jobs_1 WHERE id = 1")  # fmt: skip
        with reading_only(path.parent):
            assert open_file(path).counts() == {"done": 1, "waiting": 2}  # it is in the write-ahead log only


@pytest.mark.parametrize("left", [("queue.db-wal", "queue.db-shm"), ("queue.db-wal",), ("queue.db-shm",)])
@pytest.mark.parametrize("may_write", [True, False])
def test_what_a_dead_writer_left_is_read_and_kept(
    path: Path, left: tuple[str, ...], may_write: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_files_of_a_dead_writer(path, left)
    with tempfile.TemporaryDirectory() as copies:
        Path(copies).chmod(0o777)
        monkeypatch.setattr(tempfile, "tempdir", copies)
        check_that_it_is_read_and_kept(path, left, may_write)
        assert list(Path(copies).iterdir()) == []


def check_that_it_is_read_and_kept(path: Path, left: tuple[str, ...], may_write: bool) -> None:
    before = read_all(path.parent)
    with nullcontext() if may_write else reading_only(path.parent):
        state = "done" if "queue.db-wal" in left else "waiting"  # what it wrote is in the write-ahead log only
        assert open_file(path).counts() == {state: 2}
    assert read_all(path.parent) == before


def test_a_log_that_is_too_large_to_copy_is_one_sentence(path: Path) -> None:
    leave_files_of_a_dead_writer(path, ("queue.db-wal",))
    os.truncate(f"{path}-wal", 1 << 40)  # a hole, which takes no room
    with pytest.raises(QueueUnavailable, match=r"too large to copy .* A worker that opens the queue repairs it"):
        open_file(path)


def test_a_log_that_is_no_file_is_refused(path: Path) -> None:
    path.with_name("queue.db-wal").symlink_to("/etc/passwd")
    with pytest.raises(SamovarError, match="not a regular file"):
        open_file(path)


def test_looking_at_a_queue_leaves_its_bytes(path: Path) -> None:
    before = read_all(path.parent)
    assert look(open_file(path)) == ["a", "b"]
    assert read_all(path.parent) == before
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_looking_at_a_queue_changes_nothing_of_a_writer_at_work(path: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=ending_with_me()
    ) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"written\n"
        before = read_all(path.parent)
        assert sorted(before) == ["queue.db", "queue.db-shm", "queue.db-wal"]
        assert open_file(path).counts() == {"done": 2}
        assert read_all(path.parent) == before
        writer.stdin.close()


def test_a_queue_is_read_again_if_a_writer_comes_meanwhile(path: Path) -> None:
    queue = open_queue(f"sqlite:///{path}")
    answers: list[int] = []

    def read(connection: Connection) -> int:
        if not answers:
            change(path, "DELETE FROM samovar_jobs_1 WHERE id = 2")  # opens the file and closes it: no log is left
        answers.append(int(connection.exec_driver_sql("SELECT count(*) FROM samovar_jobs_1").scalar_one()))
        return answers[-1]

    assert queue._read(read) == 1
    assert len(answers) == 2


def test_a_queue_that_changes_all_the_time_is_one_sentence(path: Path) -> None:
    queue = open_file(path)
    with pytest.raises(QueueUnavailable, match="the queue changed each time it was read"):
        queue._read(lambda connection: change(path, "UPDATE samovar_jobs_1 SET priority = priority + 1"))


def test_a_writer_that_died_without_a_log_is_named(path: Path) -> None:
    change(path, "PRAGMA journal_mode = DELETE")
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("PRAGMA synchronous = OFF")  # else the journal counts only once it is synced
        writer.execute("BEGIN")
        writer.execute("UPDATE samovar_jobs_1 SET state = 'done'")
        journal = Path(f"{path}-journal").read_bytes()
        writer.execute("ROLLBACK")
    Path(f"{path}-journal").write_bytes(journal)
    before = read_all(path.parent)
    with pytest.raises(QueueUnavailable, match="A process died while it wrote the file"):
        open_file(path)
    assert read_all(path.parent) == before


def leave_files_of_a_dead_writer(path: Path, names: tuple[str, ...]) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("UPDATE samovar_jobs_1 SET state = 'done'")
        kept = {name: path.with_name(name).read_bytes() for name in ("queue.db", *names)}
    for name, data in kept.items():
        path.with_name(name).write_bytes(data)


def read_all(folder: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in folder.iterdir() if each.is_file()}


def test_a_view_in_place_of_the_jobs_is_no_queue(path: Path) -> None:
    columns = ", ".join(f"i AS {name}" for name in columns_of(path))
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
    change(path, "DROP TABLE samovar_jobs_1", f"CREATE VIEW samovar_jobs_1 AS {endless} SELECT {columns} FROM n")
    with pytest.raises(NotAResult, match="no queue there"):
        open_file(path)


def test_a_column_that_computes_a_large_text_is_refused(path: Path) -> None:
    change(
        path,
        "CREATE TABLE jobs AS SELECT * FROM samovar_jobs_1",
        "DROP TABLE samovar_jobs_1",
        "CREATE TABLE samovar_jobs_1 ("
        + ", ".join(name for name in columns_of(path, "jobs") if name != "log")
        + ", log TEXT GENERATED ALWAYS AS (hex(zeroblob(400000000))))",
        f"INSERT INTO samovar_jobs_1 SELECT {', '.join(each for each in columns_of(path, 'jobs') if each != 'log')} "
        "FROM jobs",
    )
    with pytest.raises(SamovarError, match="string or blob too big"):
        open_file(path).jobs()


def test_a_query_without_an_end_is_given_up(path: Path) -> None:
    text = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    queue = open_file(path)
    with pytest.raises(QueueUnavailable, match="far longer to read than a queue of its size"):
        queue._read(lambda connection: connection.exec_driver_sql(text).all())


def columns_of(path: Path, table: str = "samovar_jobs_1") -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return [row[1] for row in connection.execute(f"PRAGMA table_info({table})")] or columns_of(path)


def change(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for each in statements:
            connection.execute(each)
