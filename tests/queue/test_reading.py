"""Looking at a queue changes nothing, needs no right to write, and ends, whatever a stranger put into its file."""

import os
import shutil
import sqlite3
import stat
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from tests.queue.fleet import toy_task

from samovar.errors import NotAResult, QueueUnavailable, SamovarError
from samovar.queue import Queue, open_queue

NOBODY = 65534


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


def test_a_log_that_cannot_be_read_without_writing_is_one_sentence(path: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("UPDATE samovar_jobs_1 SET state = 'done'")
        for name in ("queue.db", "queue.db-wal"):
            shutil.copy(path.parent / name, tmp_path / name)
    for name in ("queue.db", "queue.db-wal"):
        shutil.copy(tmp_path / name, path.parent / name)
    with reading_only(path.parent), pytest.raises(QueueUnavailable, match="copy them all to a folder of your own"):
        open_file(path)


def test_looking_at_a_queue_leaves_its_bytes(path: Path) -> None:
    before = path.read_bytes()
    assert look(open_file(path)) == ["a", "b"]
    assert path.read_bytes() == before
    assert sorted(each.name for each in path.parent.iterdir()) == ["configs", "queue.db"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_view_in_place_of_the_jobs_is_no_queue(path: Path) -> None:
    columns = ", ".join(f"i AS {name}" for name in columns_of(path))
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
    change(path, "DROP TABLE samovar_jobs_1", f"CREATE VIEW samovar_jobs_1 AS {endless} SELECT {columns} FROM n")
    with pytest.raises(NotAResult, match="there is no queue"):
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
