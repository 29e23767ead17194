"""Parts that are made in child processes. Knows no engine: the rows of a part come as files, and a pickle says what to
do with them.

parent   sort ─▶ split ─▶ spool part 0, 1, 2, …         child   reads its part's files, makes the part
           a socket per child: ─▶ part and files       ◀─ rows written, the result, or the error

A child ends with its parent, however the parent ends: it watches its standard input, which the parent holds open.
"""

import os
import pickle
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, Generic, NoReturn, Self, TypeVar

import pyarrow as pa

from samovar.brewing.parts import OnRows, Part
from samovar.errors import SamovarError, StoreError

T = TypeVar("T")
_REPORT_SECONDS = 0.2
_START = "import sys; from samovar.brewing.engines.processes import work; work(int(sys.argv[1]))"


def as_message(function: Any) -> bytes | None:
    """A function for other processes; None if they cannot have it, as it is made of code that only this program has."""
    try:
        message = pickle.dumps(function)
    except (pickle.PicklingError, AttributeError, TypeError):
        return None
    return None if b"__main__" in message or not sys.executable else message


def spool(rows: Iterator[pa.RecordBatch], path: str) -> str | None:
    """Write rows to a temporary file; None if there are none."""
    first = next(rows, None)
    if first is None:
        return None
    with pa.ipc.new_stream(path, first.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_batch(first)
        for batch in rows:
            writer.write_batch(batch)
    return path


def read_spooled(path: str | None) -> Generator[pa.RecordBatch]:
    """The rows of a temporary file, which is removed when they are read."""
    if path is not None:
        with pa.OSFile(path) as file, pa.ipc.open_stream(file) as reader:
            yield from reader
        os.unlink(path)


Task = tuple[Part, Sequence[str | None]]


@dataclass(frozen=True)
class _Outcome(Generic[T]):
    """What became of one part."""

    number: int
    result: T | None
    error: BaseException | None = None


class PartProcesses(Generic[T]):
    """Child processes that call one function for many parts.

    They run a program of their own, not the caller's: a script without `if __name__ == "__main__"` is not run again.
    """

    def __init__(self, num_processes: int, message: bytes, report: OnRows) -> None:
        self._children = [_Child(message) for _ in range(num_processes)]
        self._report = report

    def __enter__(self) -> Self:
        try:
            for child in self._children:
                child.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for child in self._children:
            child.kill()

    def map(self, tasks: Iterator[Task]) -> Generator[T]:
        """The results in the order of tasks. The next task is drawn while the others are worked on. Of several errors,
        that of the first part is raised."""
        outcomes: dict[int, _Outcome[T]] = {}
        next_number = 0
        for task in tasks:
            while not (idle := [child for child in self._children if not child.is_busy]):
                self._collect(outcomes)
            idle[0].begin(task)
            while next_number in outcomes:
                yield _unwrap(outcomes.pop(next_number))
                next_number += 1
        while any(child.is_busy for child in self._children) or outcomes:
            while next_number in outcomes:
                yield _unwrap(outcomes.pop(next_number))
                next_number += 1
            if any(child.is_busy for child in self._children):
                self._collect(outcomes)

    def _collect(self, outcomes: dict[int, _Outcome[T]]) -> None:
        """Wait for news of any child."""
        busy = {child.connection: child for child in self._children if child.is_busy}
        for ready in wait(list(busy)):
            news = busy[ready].receive()  # type: ignore[index]  # wait returns what it was given
            if isinstance(news, _Outcome):
                outcomes[news.number] = news
            else:
                self._report(news)


def _unwrap(outcome: _Outcome[T]) -> T:
    if outcome.error is not None:
        raise outcome.error
    return outcome.result  # type: ignore[return-value]  # there is one if there is no error


class _Child:
    """One process, as its parent sees it."""

    is_busy = False
    connection: Connection

    def __init__(self, message: bytes) -> None:
        self._message: bytes | None = message
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        ours, theirs = socket.socketpair()
        self.connection = Connection(ours.detach())
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _START, str(theirs.fileno())],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                start_new_session=True,  # ctrl-C reaches the parent only, which ends its children
            )

    def begin(self, task: Task) -> None:
        self.is_busy = True
        try:
            if self._message is not None:  # not at the start, which takes a child a second
                self.connection.send_bytes(self._message)
                self._message = None
            self.connection.send(task)
        except OSError:
            self._fail()

    def receive(self) -> Any:
        try:
            news = self.connection.recv()
        except (EOFError, OSError):
            self._fail()
        self.is_busy = not isinstance(news, _Outcome)
        return news

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            assert self._process.stdin is not None
            self._process.stdin.close()
            self.connection.close()

    def _fail(self) -> NoReturn:
        assert self._process is not None
        code = self._process.wait()
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        raise StoreError(
            f"a process that made a part of the table ended with {how}; it may have run out of memory. A smaller "
            "memory_limit uses fewer processes"
        )


# In the child


def work(descriptor: int) -> None:
    """Make parts until the parent closes the connection."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with Connection(descriptor) as connection, suppress(EOFError):
        message = connection.recv_bytes()
        while True:
            part, paths = connection.recv()
            connection.send(_make(message, part, paths, connection))


def _make(message: bytes, part: Part, paths: Sequence[str | None], connection: Connection) -> _Outcome[Any]:
    report = _Reporter(connection)
    try:
        made = pickle.loads(message)(part, [read_spooled(path) for path in paths], report)
        report.flush()
        return _Outcome(part.number, made)
    except SamovarError as error:
        return _Outcome(part.number, None, error)
    except Exception as error:  # a mistake of ours: the parent shows where it happened
        return _Outcome(part.number, None, RuntimeError(f"{error}\n{traceback.format_exc()}"))


class _Reporter:
    """Sends the number of written rows now and then."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._num_rows = 0
        self._sent_at = time.monotonic()

    def __call__(self, num_rows: int) -> None:
        self._num_rows += num_rows
        if time.monotonic() - self._sent_at > _REPORT_SECONDS:
            self.flush()

    def flush(self) -> None:
        self._connection.send(self._num_rows)
        self._num_rows, self._sent_at = 0, time.monotonic()


def _end_with_parent() -> None:
    while os.read(0, 1):
        pass
    os._exit(1)
