"""Opening the SQLite file of a queue for reading: nothing is written beside it, and no query takes longer than a queue
of that size needs, because the file may be a stranger's. Knows no jobs.

SQLite reads a write-ahead log (`-wal`) through a file of shared memory (`-shm`), and creates both where it may write.

    both are there           a writer has the file open, or died: SQLite reads them, under its own locks
    a log alone              the writer died, and the folder was copied without the shared memory: a copy is read
    neither                  nobody writes: SQLite takes the file as immutable. A writer that comes meanwhile is seen
                             afterwards, and the transaction is repeated
"""

import os
import shutil
import sqlite3
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self
from urllib.parse import quote

from samovar.errors import QueueUnavailable
from samovar.store.reading import open_regular

BUSY_SECONDS = 30.0
_MAX_VALUE_BYTES = 64 << 20
_MAX_COPY_BYTES = 1 << 30
_SETTLING_SECONDS = 0.05
_STEPS_PER_LOOK = 100_000
_MIN_STEPS = 20_000_000
_STEPS_PER_BYTE = 100
"""Of SQLite's machine, which reads a job in a few hundred steps."""


def connect_sqlite(path: Path, options: str, **others: Any) -> sqlite3.Connection:
    """Open a file in a mode such as `mode=rw`, which never creates an empty one in place of one that is gone."""
    address = f"file:{quote(str(path))}?{options}"
    connection: sqlite3.Connection = sqlite3.connect(
        address, uri=True, timeout=BUSY_SECONDS, isolation_level=None, **others
    )
    connection.execute("PRAGMA trusted_schema = OFF")
    return connection


@dataclass(frozen=True)
class Files:
    """An SQLite file and what is beside it, at one moment: sizes in bytes, None without the file."""

    identity: tuple[int, int, int] | None
    """Of the file itself: inode, size, time of the last change."""
    log_bytes: int | None
    shared_memory_bytes: int | None
    journal_bytes: int | None

    @classmethod
    def look(cls, path: Path) -> Self:
        beside = (_stat(Path(f"{path}{suffix}")) for suffix in ("-wal", "-shm", "-journal"))
        found = _stat(path)
        identity = (found.st_ino, found.st_size, found.st_mtime_ns) if found else None
        return cls(identity, *(each and each.st_size for each in beside))

    @property
    def is_locked_by_sqlite(self) -> bool:
        """Whether SQLite notices other processes without creating a file."""
        return bool(self.journal_bytes) or (self.log_bytes is not None and self.shared_memory_bytes is not None)

    @property
    def size_bytes(self) -> int:
        return (self.identity[1] if self.identity else 0) + (self.log_bytes or 0)


class SqliteReader:
    """Connections that only read a file.

    Args:
        path: The file. Links are followed, as SQLite does.
    """

    def __init__(self, path: Path) -> None:
        self._path = path.resolve()

    def look(self) -> Files | None:
        """What a transaction without locks must find again at its end; None if SQLite locks."""
        found = Files.look(self._path)
        return None if found.is_locked_by_sqlite else found

    def connect(self) -> sqlite3.Connection:
        """Open a connection for one transaction."""
        found = Files.look(self._path)
        if found.log_bytes and not found.is_locked_by_sqlite:
            time.sleep(_SETTLING_SECONDS)
            found = Files.look(self._path)  # a writer that is about to leave removes its shared memory first
        if found.is_locked_by_sqlite:
            connection = connect_sqlite(self._path, "mode=ro&readonly_shm=1")
        elif found.log_bytes:
            connection = self._connect_to_copy(found)
        else:
            connection = connect_sqlite(self._path, "mode=ro&immutable=1")
        connection.execute("PRAGMA query_only = ON")
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_VALUE_BYTES)
        num_looks = (_MIN_STEPS + _STEPS_PER_BYTE * found.size_bytes) // _STEPS_PER_LOOK
        connection.set_progress_handler(_Looks(num_looks), _STEPS_PER_LOOK)
        return connection

    def _connect_to_copy(self, found: Files) -> sqlite3.Connection:
        if found.size_bytes > _MAX_COPY_BYTES:
            raise QueueUnavailable(
                f"{self._path}: its write-ahead log was left without the file {self._path.name}-shm, and both are too "
                f"large to copy ({found.size_bytes:,} bytes; the limit is {_MAX_COPY_BYTES:,}). A worker that opens "
                "the queue repairs it"
            )
        folder = TemporaryDirectory(prefix="samovar-queue-")
        try:
            copy = Path(folder.name) / "queue.db"
            for suffix in ("", "-wal"):
                _copy(Path(f"{self._path}{suffix}"), Path(f"{copy}{suffix}"))
            connection: _CopyConnection = connect_sqlite(copy, "mode=rw", factory=_CopyConnection)  # type: ignore[assignment]  # typeshed: factory
        except BaseException:
            folder.cleanup()
            raise
        connection.folder = folder
        return connection


class _CopyConnection(sqlite3.Connection):
    """A connection that removes the copy that it reads."""

    folder: "TemporaryDirectory[str] | None" = None

    def close(self) -> None:
        super().close()
        if self.folder is not None:
            self.folder.cleanup()


class _Looks:
    """SQLite calls it every `_STEPS_PER_LOOK` steps; true ends the query."""

    def __init__(self, count: int) -> None:
        self._left = count

    def __call__(self) -> bool:
        self._left -= 1
        return self._left < 0


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _copy(source: Path, target: Path) -> None:
    with open(open_regular(source), "rb") as reader, target.open("xb") as writer:
        shutil.copyfileobj(reader, writer)
