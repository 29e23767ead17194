"""A disposable SQLite database of this user in the system's temporary folder. Knows nothing of what it holds.

Losing it costs time, never an answer: if it is missing, locked, corrupt or somebody else's, reading finds no rows and
writing does nothing.
"""

import fcntl
import os
import stat
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    from sqlite3 import Connection

T = TypeVar("T")

FILE = "cache.db"
_BUSY_SECONDS = 5.0  # a writer holds the lock for a fraction of a second
_PAGE_BYTES = 16384  # so that most rows fit into a page


class Change(NamedTuple):
    """A statement, and the parameters of each of its executions."""

    statement: str
    parameters: Sequence[Sequence[Any]]


def read_rows(table: str, query: str, parameters: Sequence[Any]) -> list[Any]:
    """Run a query; `table` is the `CREATE TABLE IF NOT EXISTS` of what it reads."""
    return _use(table, lambda connection: connection.execute(query, parameters).fetchall()) or []


def write_rows(table: str, changes: Sequence[Change]) -> None:
    """Apply all changes in one transaction, or none of them."""

    def write(connection: "Connection") -> None:
        connection.execute("BEGIN IMMEDIATE")
        for change in changes:
            connection.executemany(change.statement, change.parameters)
        connection.execute("COMMIT")

    _use(table, write)


def _use(table: str, act: "Callable[[Connection], T]") -> T | None:
    """Open the database, act, close it: an open connection must not cross a fork. None if the database fails."""
    import sqlite3  # here, because most commands see too few runs to need it

    folder = _open_own_folder()
    if folder is None:
        return None
    try:
        path = Path(tempfile.gettempdir()) / _folder_name() / FILE
        with closing(sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)) as connection:
            connection.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
            connection.execute("PRAGMA journal_mode = WAL")  # readers do not wait for a writer
            connection.execute("PRAGMA synchronous = NORMAL")  # with WAL, a power cut loses rows but mixes up none
            connection.execute(table)
            return act(connection)
    except sqlite3.OperationalError:
        return None  # locked, read-only, disk full
    except sqlite3.DatabaseError:
        _remove_database(folder)
        return None
    finally:
        os.close(folder)


def _folder_name() -> str:
    return f"samovar-{os.getuid()}"


def _open_own_folder() -> int | None:
    """Open our folder under a shared lock, with a database file in it; None if it cannot be trusted.

    Anybody can make a folder, or a link, of that name in the temporary folder before we do.
    """
    path = Path(tempfile.gettempdir()) / _folder_name()
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if _is_ours(os.fstat(folder)):
            fcntl.flock(folder, fcntl.LOCK_SH | fcntl.LOCK_NB)
            _make_file(folder)
            found = os.stat(FILE, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISREG(found.st_mode) and _is_ours(found):
                return folder
    except OSError:
        pass
    os.close(folder)
    return None


def _is_ours(status: os.stat_result) -> bool:
    return status.st_uid == os.getuid() and not status.st_mode & 0o022


def _make_file(folder: int) -> None:
    """For the owner only. Never opened here: closing it would drop the locks of another thread's connection."""
    try:
        os.mknod(FILE, 0o600 | stat.S_IFREG, dir_fd=folder)
    except FileExistsError:
        return


def _remove_database(folder: int) -> None:
    """Remove a corrupt database, unless another process has it open: SQLite's files must not vanish under it."""
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for name in (FILE, f"{FILE}-wal", f"{FILE}-shm"):
            if name in os.listdir(folder):
                os.unlink(name, dir_fd=folder)
    except OSError:
        return  # the next one to find it tries again
