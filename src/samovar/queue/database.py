"""The database of a queue: one table in an SQLite file or on a PostgreSQL server, its clock, and transactions that wait
for it. Knows no jobs.

Every transaction opens its own connection: none can go stale, a removed file is noticed, and threads share nothing.
What only reads goes through `reading.py`, and writes nothing.
"""

import os
import re
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Self, TypeVar

from sqlalchemy import (
    Column,
    Connection,
    Double,
    Engine,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    create_engine,
    event,
    func,
    inspect,
    select,
)
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DataError, DBAPIError, NoSuchModuleError, ProgrammingError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.pool import NullPool
from sqlalchemy.sql.expression import ColumnElement

from samovar.errors import BadInput, NotAResult, QueueUnavailable, hide_passwords
from samovar.queue.reading import BUSY_SECONDS, SqliteReader, connect_sqlite

metadata = MetaData()

# The number is the format: another format is another table. A lost queue is rebuilt from directories.
jobs = Table(
    "samovar_jobs_1",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("out", Text, nullable=False, unique=True),
    Column("kind", Text, nullable=False),
    Column("config_path", Text, nullable=False),
    Column("overrides", Text, nullable=False),
    Column("config", Text, nullable=False),
    Column("script", Text),
    Column("folder", Text, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("max_attempts", Integer, nullable=False),
    Column("state", Text, nullable=False),
    Column("attempts", Integer, nullable=False, default=0),
    Column("epoch", Integer, nullable=False, default=0),
    Column("ready_at", Double, nullable=False, default=0.0),
    Column("holder", Text),
    Column("beat_at", Double),
    Column("lease_until", Double),
    Column("exit_code", Integer),
    Column("error", Text),
    Column("log", Text),
)
Index("samovar_jobs_1_next", jobs.c.state, jobs.c.priority, jobs.c.id)


class database_now(ColumnElement[float]):
    """Seconds since 1970 by the database's clock, on which workers on all machines agree."""

    type = Double()
    inherit_cache = True


@compiles(database_now, "sqlite")
def _sqlite_now(element: database_now, compiler: Any, **options: Any) -> str:
    return "((julianday('now') - 2440587.5) * 86400.0)"


@compiles(database_now, "postgresql")
def _postgresql_now(element: database_now, compiler: Any, **options: Any) -> str:
    return "extract(epoch from clock_timestamp())::double precision"


PATIENCE_SECONDS = 20.0
_MOST_AWAY = 5
_FIRST_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 2.0
_PERMANENT = (ProgrammingError, DataError)
_SQLITE_IS_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)
_SQLITE_IS_AWAY = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY)
_SQLITE_NO_RIGHT = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM)
_CREATION_LOCK = 5338  # any number
_EXAMPLES = "sqlite:///queue.db or postgresql://user@host/name"

T = TypeVar("T")


class Database:
    """The database of a queue, which may be busy or away for a while.

    Args:
        engine: SQLAlchemy's.
        name: As errors show it; without a password.
        patience_seconds: How long a transaction is retried.
        reader: For what only reads an SQLite file; by default, the engine does it.

    Example:
        >>> database = Database.open("sqlite:///jobs.db", is_new=True)
        >>> from sqlalchemy import text
        >>> database.read(lambda connection: connection.execute(text("SELECT 1")).scalar())
        1
    """

    def __init__(
        self, engine: Engine, name: str, patience_seconds: float = PATIENCE_SECONDS, reader: SqliteReader | None = None
    ) -> None:
        self.name = name
        self._engine = engine
        self._reader = reader
        self._reading_engine = _make_sqlite_engine(reader.connect, "BEGIN") if reader else engine
        self._patience_seconds = patience_seconds
        self._has_answered = False

    @classmethod
    def open(cls, url: str, *, is_new: bool = False, patience_seconds: float = PATIENCE_SECONDS) -> Self:
        """Open the database at an address such as `sqlite:///queue.db` or `postgresql://user@host/name`.

        Args:
            url: The address.
            is_new: Create the queue if there is none; otherwise that is an error.
            patience_seconds: How long a transaction is retried.

        Raises:
            BadInput: The address is not one of a database that can hold a queue.
            NotAResult: There is no queue at the address.
            QueueUnavailable: The database does not answer.
        """
        parsed = _parse(url)
        if parsed.get_backend_name() == "sqlite":
            path = _find_sqlite(parsed, is_new)
            database = cls(_open_sqlite(path), str(path), patience_seconds, SqliteReader(path))
        else:
            database = cls(_open_postgresql(parsed), _show(url), patience_seconds)
        if is_new:
            database.transact(_create_tables)
        elif not database.read(_has_jobs):
            raise _no_queue(database.name)
        return database

    def transact(self, act: Callable[[Connection], T]) -> T:
        """Run `act` in a transaction. If the database does not answer, retry until the patience is over.

        Args:
            act: Gets the connection; what it returns is returned. It may be called again.
        """
        return self._attempt(self._engine, act)

    def read(self, act: Callable[[Connection], T]) -> T:
        """As `transact`, for what changes nothing: it writes no file, waits for nobody, and needs no right to write.

        Args:
            act: Gets the connection; what it returns is returned. It may be called again.
        """
        return self._attempt(self._reading_engine, act, self._reader)

    def _attempt(self, engine: Engine, act: Callable[[Connection], T], reader: SqliteReader | None = None) -> T:
        deadline, pause, num_away = time.monotonic() + self._patience_seconds, _FIRST_PAUSE_SECONDS, 0
        while True:
            seen = reader and reader.look()
            try:
                with engine.begin() as connection:
                    answer = act(connection)
                found = None
            except DBAPIError as error:
                found = error
            is_torn = reader is not None and (seen is not None or found is not None) and reader.look() != seen
            if reader is not None and found is not None and _is_away(found.orig) and num_away < _MOST_AWAY:
                num_away, is_torn = num_away + 1, True  # the last writer removed its files just then
            if found is None and not is_torn:
                self._has_answered = True
                return answer
            is_permanent = not is_torn and (isinstance(found, _PERMANENT) or self._is_damaged(found and found.orig))
            if is_permanent or time.monotonic() + pause > deadline:
                raise self._unavailable(found, is_permanent) from found
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def _unavailable(self, error: DBAPIError | None, is_permanent: bool) -> QueueUnavailable:
        if error is None:
            return QueueUnavailable(f"{self.name}: the queue changed each time it was read. Try again")
        reason = next(iter(str(error.orig).strip().splitlines()), type(error).__name__)
        tried = "" if is_permanent else f" after {self._patience_seconds:.0f} s"
        return QueueUnavailable(
            f"{self.name}: the queue's database cannot be used{tried}: {reason}. {_cure(error.orig)}"
        )

    def _is_damaged(self, error: BaseException | None) -> bool:
        """Whether SQLite cannot use the file, or Python a value in it, so that waiting does not help. A file that could
        be used before may come back."""
        if not isinstance(error, sqlite3.Error):
            return False
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF  # none: text that is not UTF-8
        return code not in _SQLITE_IS_BUSY and not (self._has_answered and code in _SQLITE_IS_AWAY)


def _is_away(error: BaseException | None) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _SQLITE_IS_AWAY


def _cure(error: BaseException | None) -> str:
    extended = getattr(error, "sqlite_errorcode", 0)
    code = extended & 0xFF
    if extended == sqlite3.SQLITE_READONLY_ROLLBACK:
        return "A process died while it wrote the file: a command that changes the queue repairs it, such as queue add"
    if code in _SQLITE_NO_RIGHT:
        return (
            "Check your rights on the file, the files beside it whose names begin with its name, and the folder; or "
            "copy them all to a folder of your own"
        )
    if code == sqlite3.SQLITE_INTERRUPT:
        return "It takes far longer to read than a queue of its size: Samovar did not make it"
    return "Restore it and start again, or rebuild it from the result directories with `samovar queue rebuild`"


def _has_jobs(connection: Connection) -> bool:
    """Whether there is a table of jobs. A view of that name could compute anything."""
    found = inspect(connection)
    return found.has_table(jobs.name) and jobs.name not in found.get_view_names()


def _create_tables(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        # "if not exists" is not enough there: two processes that create the table at once would fail
        connection.execute(select(func.pg_advisory_xact_lock(_CREATION_LOCK)))
    metadata.create_all(connection)


def _parse(url: str) -> URL:
    shown = _show(url)
    try:
        parsed = make_url(url)
        parsed.get_dialect()
    except ModuleNotFoundError as error:
        raise BadInput(f"queue {shown}: {error}. Install the driver: pip install 'samovar[postgres]'") from None
    except (ArgumentError, NoSuchModuleError, ValueError):  # ValueError: a port that is no number
        raise BadInput(f"queue {shown}: not the address of a database, such as {_EXAMPLES}") from None
    if parsed.get_backend_name() not in ("sqlite", "postgresql"):
        raise BadInput(f"queue {shown}: {parsed.get_backend_name()} is not supported. Use {_EXAMPLES}")
    if parsed.get_backend_name() == "postgresql" and "@" in f"{parsed.host}{parsed.database}":
        # a part of the password was taken for the host, and the driver would print it
        raise BadInput(f"queue {shown}: in a user's name or password, write %40 for @, %3A for : and %2F for /")
    return parsed


def _show(url: str) -> str:
    """An address as errors show it: without the password, also if it lacks its scheme or a slash."""
    return hide_passwords(re.sub(r"^((?:[^:/@]*:?//)?[^:@]*):.*@", r"\1:***@", url, flags=re.DOTALL))


def _no_queue(name: str) -> NotAResult:
    return NotAResult(f"{name}: no queue there. Check its address, or create one with `samovar queue add`")


def _find_sqlite(url: URL, is_new: bool) -> Path:
    if url.host:
        raise BadInput(f"queue sqlite://{url.host}…: write an SQLite file with three slashes, as in sqlite:///queue.db")
    if not url.database or url.database == ":memory:":
        raise BadInput("a queue cannot be in memory. Use a file that workers can open, such as sqlite:///queue.db")
    path = Path(url.database).absolute()
    if is_new:
        if not path.parent.is_dir():
            raise BadInput(f"{path}: the folder {path.parent} does not exist")
        _make_file(path)
    elif not path.is_file():
        raise _no_queue(str(path))
    return path


def _open_sqlite(path: Path) -> Engine:
    def connect() -> sqlite3.Connection:
        connection = connect_sqlite(path, "mode=rw")
        connection.execute("PRAGMA synchronous = FULL")
        return connection

    # locked for writing at once: a reader that later writes would fail while another connection writes
    return _make_sqlite_engine(connect, "BEGIN IMMEDIATE")


def _make_sqlite_engine(connect: Callable[[], sqlite3.Connection], begin: str) -> Engine:
    engine = create_engine("sqlite://", creator=connect, poolclass=NullPool)

    @event.listens_for(engine, "begin")
    def start(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    return engine


def _make_file(path: Path) -> None:
    deadline = time.monotonic() + BUSY_SECONDS
    with suppress(OSError):  # SQLite says what is wrong
        # Configs and logs are for the owner only; SQLite gives its other files the same mode.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    while True:
        try:
            with closing(sqlite3.connect(path, timeout=BUSY_SECONDS)) as connection:
                connection.execute("PRAGMA journal_mode = WAL")  # the file remembers it
            return
        except sqlite3.Error as error:
            # Two processes may create the file at once. SQLite waits for locks, but not always for this one.
            is_busy = getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY
            if not is_busy or time.monotonic() > deadline:
                raise QueueUnavailable(f"{path}: not an SQLite file that can hold a queue ({error})") from error
        time.sleep(_FIRST_PAUSE_SECONDS)


def _open_postgresql(url: URL) -> Engine:
    options: dict[str, Any] = {"connect_timeout": 10, "application_name": "samovar"}
    return create_engine(url.set(drivername="postgresql+psycopg"), poolclass=NullPool, connect_args=options)
