"""The disposable cache: whatever happens to its file, reading and writing never fail, and no foreign row is read."""

import os
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from samovar.runs import cache
from samovar.runs.cache import Change, read_rows, write_rows

TABLE = "CREATE TABLE IF NOT EXISTS t (key INTEGER PRIMARY KEY, value BLOB)"
SELECT = "SELECT value FROM t WHERE key = ?"
INSERT = "INSERT OR REPLACE INTO t VALUES (?, ?)"


@pytest.fixture
def place(quick_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the cache, not made yet, in a temporary folder of this test."""
    (quick_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(quick_path / "tmp"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return quick_path / "tmp" / f"samovar-{os.getuid()}"


def write(key: int, value: bytes = b"value") -> None:
    write_rows(TABLE, [Change(INSERT, [(key, value)])])


def read(key: int) -> bytes | None:
    rows = read_rows(TABLE, SELECT, (key,))
    return rows[0][0] if rows else None


def test_folder_and_files_are_the_owners_only(place: Path) -> None:
    old = os.umask(0)
    try:
        write(1)
        with closing(sqlite3.connect(place / "cache.db")) as connection:  # keeps SQLite's other files
            connection.execute("SELECT * FROM t").fetchall()
            write(2)
            modes = {path.name: path.stat().st_mode & 0o777 for path in place.iterdir()}
    finally:
        os.umask(old)
    assert place.stat().st_mode & 0o777 == 0o700
    assert modes == {"cache.db": 0o600, "cache.db-wal": 0o600, "cache.db-shm": 0o600}


@pytest.mark.parametrize("damage", ["empty", "text", "head", "tail", "middle"])
def test_a_corrupt_file_is_rebuilt(place: Path, damage: str) -> None:
    for key in range(50):
        write(key, os.urandom(5000))
    file = place / "cache.db"
    data = file.read_bytes()
    middle = len(data) // 2
    file.write_bytes(
        {
            "empty": b"",
            "text": b"no database at all" * 1000,
            "head": data[:100],
            "tail": data[:middle],
            "middle": data[:16384] + os.urandom(len(data) - 16384),
        }[damage]
    )
    for key in range(50):
        read(key)
    write(1, b"new")
    write(1, b"new")  # the first one may have found the damage
    assert read(1) == b"new"


def test_a_corrupt_file_that_another_process_has_open_is_left_to_the_next(place: Path) -> None:
    write(1)
    (place / "cache.db").write_bytes(b"no database at all" * 1000)
    code = (
        "import sys; from samovar.runs import cache; cache._open_own_folder(); print('open', flush=True)\n"
        "sys.stdin.read()"
    )
    other = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert other.stdout is not None
    assert other.stdout.readline() == b"open\n"
    write(1)
    assert read(1) is None
    other.communicate()
    assert read(1) is None
    write(1)
    assert read(1) == b"value"


def test_a_folder_that_others_can_write_is_not_used(place: Path) -> None:
    place.mkdir()
    place.chmod(0o777)
    write(1)
    assert read(1) is None
    assert list(place.iterdir()) == []


@pytest.mark.parametrize("owner", ["folder", "file"])
def test_what_belongs_to_somebody_else_is_not_used(place: Path, owner: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write(1)
    fstat, status = os.fstat, os.stat
    if owner == "folder":
        monkeypatch.setattr(os, "fstat", lambda *args: _as_a_stranger(fstat(*args)))
    else:
        monkeypatch.setattr(os, "stat", lambda *args, **options: _as_a_stranger(status(*args, **options)))
    assert read(1) is None
    monkeypatch.undo()


def _as_a_stranger(found: os.stat_result) -> os.stat_result:
    values = list(found)
    values[4] = os.getuid() + 1
    return os.stat_result(values)


def test_links_are_not_followed(place: Path) -> None:
    """Neither in place of the folder nor in place of the file."""
    elsewhere = place.parent / "elsewhere"
    elsewhere.mkdir()
    place.symlink_to(elsewhere)
    write(1)
    assert read(1) is None
    assert list(elsewhere.iterdir()) == []
    place.unlink()
    place.mkdir(mode=0o700)
    (elsewhere / "victim").write_bytes(b"mine")
    (place / "cache.db").symlink_to(elsewhere / "victim")
    write(1)
    assert read(1) is None
    assert (elsewhere / "victim").read_bytes() == b"mine"


def test_without_a_temporary_folder_nothing_is_remembered(place: Path) -> None:
    place.parent.rmdir()
    tempfile.tempdir = str(place.parent)  # it was found, and is gone since
    write(1)
    assert read(1) is None


def test_a_database_that_stays_locked_is_passed_over(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_BUSY_SECONDS", 0.05)
    write(1)
    with closing(sqlite3.connect(place / "cache.db", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        write(1, b"new")
        assert read(1) == b"value"
    write(1, b"new")
    assert read(1) == b"new"


def test_processes_that_write_at_the_same_time_lose_nothing(place: Path) -> None:
    code = (
        "import sys; from samovar.runs.cache import Change, write_rows\n"
        f"for key in range(20): write_rows({TABLE!r}, [Change({INSERT!r}, [(int(sys.argv[1]) * 20 + key, b'x')])])"
    )
    racing = [subprocess.Popen([sys.executable, "-c", code, str(number)]) for number in range(4)]
    assert [each.wait() for each in racing] == [0] * 4
    assert read_rows(TABLE, "SELECT count(*) FROM t", ()) == [(80,)]


def test_a_failing_change_changes_nothing(place: Path) -> None:
    write(1)
    write_rows(TABLE, [Change(INSERT, [(1, b"new")]), Change("INSERT INTO nowhere VALUES (?)", [(1,)])])
    assert read(1) == b"value"
