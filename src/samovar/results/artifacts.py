"""What a run writes besides its state: logs and part files, all listed, so that the directory can be rolled back. Knows
names and sizes, and that a line of a log is a JSON object, but not what is inside.

    logs/metrics/000001.jsonl …   sealed segments, one per snapshot; the end joins them into logs/metrics.jsonl
    evaluation/…                  part files, named by place
    best/…                        the state of the best epoch so far
    files/…                       plain files that a user's stage wrote; registered at the end
"""

from collections import deque
from collections.abc import Iterable, Iterator, Set
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from samovar.config.records import read_object
from samovar.errors import BadPath, CorruptData, NotFound
from samovar.results.checked import CheckedWriter, FileRecord, read_checked, write_checked
from samovar.results.inventory import FileList
from samovar.store import Entry, Fence, Store, Tail

FILES = "files"
BEST = "best"
ROOTS = ("logs", "evaluation", "model", BEST, FILES)
"""The only folders that `roll_back` touches."""
METRICS_LOG, TIMING_LOG, EVENTS_LOG = "metrics.jsonl", "timing.jsonl", "tensorboard/events.tfevents"  # in logs/

_CLOSING_THREADS = 4  # a disk fsyncs several files in the time of one
_MAX_CLOSING = 16


class Artifacts:
    """The files of a run so far. A snapshot commits `files`, and a rollback restores it."""

    def __init__(self, store: Store, fence: Fence) -> None:
        self._store = store
        self._fence = fence  # a holder that was replaced must not overwrite the files of the new one
        self.files = FileList()
        self._segments: dict[str, list[str]] = {}
        self._tails: dict[str, Tail] = {}
        self._threads: ThreadPoolExecutor | None = None
        self._closing: deque[tuple[str, CheckedWriter, Future[None]]] = deque()
        self._dropped: list[str] = []  # since the newest snapshot
        self._unlisted: list[str] = []  # before it: only the snapshot before lists them

    def roll_back(self, files: FileList, earlier: Set[str] = frozenset()) -> list[str]:
        """Remove all files that `files` does not list, after checking every byte of those that it does. Those of an
        `earlier` snapshot stay until the next one: it is still needed if the newest is damaged.

        Returns:
            What was lost: segments of the timing log, which no result depends on, are dropped if they are damaged.

        Raises:
            CorruptData: Another file is damaged. Nothing was removed.
        """
        damage = files.find_damage(self._store)
        lost = [path for path in damage if _log_of(path) == TIMING_LOG]
        for path, problem in damage.items():
            if path not in lost:
                raise CorruptData(problem)
        files = files.without(lost)
        unlisted = {entry.path for entry in find_unlisted(self._store, files.files.keys())}
        for path in unlisted - earlier:
            self._store.remove(path)
        self._dropped, self._unlisted = [], sorted(unlisted & earlier)
        if not any(path.startswith(f"{FILES}/") for path in files.files):
            self._store.remove_tree(FILES)  # with its empty folders, or the stage's `mkdir` would fail
        self._close_tails()
        self.files = files
        self._segments = {}
        for path in sorted(files.files):
            if (log := _log_of(path)) is not None:
                self._segments.setdefault(log, []).append(path)
        return [damage[path] for path in lost]

    @contextmanager
    def create(self, path: str) -> Iterator[CheckedWriter]:
        """Write a part file. It belongs to the run once it is complete."""
        with self._open(path) as writer:
            yield writer
        self.files.add(path, writer.record)

    @contextmanager
    def create_in_background(self, path: str) -> Iterator[CheckedWriter]:
        """Like `create`, but without waiting for the disk. The next commit waits, and raises what went wrong."""
        with ExitStack() as stack:
            writer = stack.enter_context(self._open(path))
            yield writer
            whole = stack.pop_all()
        while len(self._closing) >= _MAX_CLOSING:
            self._finish_oldest()
        self._threads = self._threads or ThreadPoolExecutor(_CLOSING_THREADS, thread_name_prefix="close")
        self._closing.append((path, writer, self._threads.submit(whole.close)))

    def _open(self, path: str) -> CheckedWriter:
        if PurePosixPath(path).parts[:1] not in [(root,) for root in ROOTS]:
            raise BadPath(f"{path}: files of a run must be in {', '.join(ROOTS)}")
        return CheckedWriter(self._store, path, self._fence)

    def _finish_all(self) -> None:
        while self._closing:
            self._finish_oldest()

    def _finish_oldest(self) -> None:
        path, writer, closing = self._closing.popleft()
        closing.result()
        self.files.add(path, writer.record)

    def close(self) -> None:
        """Wait until nothing is written any more. Files that no commit has listed do not count."""
        if self._threads is not None:
            self._threads.shutdown()
        self._close_tails(keep=True)

    def copy(self, old: str, new: str) -> None:
        """Copy a part file of the run; nothing happens if it has none of that name."""
        self._finish_all()
        record = self.files.files.get(old)
        if record is not None:
            with self.create(new) as writer:
                for chunk in read_checked(self._store, old, record):
                    writer.write(chunk)

    def drop(self, path: str) -> None:
        """Take a part file out of the run. It stays on disk as long as a snapshot may need it."""
        self._finish_all()
        if path in self.files.files:
            self.files = self.files.without({path})
            self._dropped.append(path)

    def remove_dropped(self) -> None:
        """Called after a commit: remove the files that neither of the two newest snapshots lists."""
        for path in self._unlisted:
            if path not in self.files.files:
                self._store.remove(path)
        self._unlisted, self._dropped = self._dropped, []

    def register_files(self) -> None:
        """Add the plain files that a stage wrote below `files`."""
        self._store.sync(FILES)
        for entry in self._store.list(FILES):
            self.files.add(entry.path, FileRecord.of_chunks(self._store.chunks(entry.path)))

    def append(self, log: str, line: bytes) -> None:
        """Append to a log such as `metrics.jsonl`."""
        if log not in self._tails:
            self._tails[log] = self._store.tail(log)
        self._tails[log].append(line)

    def seal(self) -> None:
        """Turn the open logs into segments for the next commit, and wait for files written in the background."""
        self._finish_all()
        for log in sorted(self._tails):
            content = self._tails[log].content()
            if content:
                segments = self._segments.setdefault(log, [])
                path = _segment(log, _number_of(segments[-1]) + 1 if segments else 1)
                self.files.add(path, write_checked(self._store, path, content, self._fence))
                segments.append(path)
        self._close_tails()

    def join(self) -> None:
        """Join the segments of each log under its final name. The segments stay on disk until the run is finished."""
        self.seal()
        for log, segments in sorted(self._segments.items()):
            with self.create(f"logs/{log}") as writer:
                for path in segments:
                    for chunk in read_checked(self._store, path, self.files.files[path]):
                        writer.write(chunk)
        self.files = self.files.without({path for segments in self._segments.values() for path in segments})
        self._segments = {}

    def _close_tails(self, keep: bool = False) -> None:
        for tail in self._tails.values():
            tail.close(keep)
        self._tails = {}


def find_unlisted(store: Store, listed: Set[str]) -> list[Entry]:
    """The files that a rollback removes, if these are all that the run has."""
    return [entry for root in ROOTS for entry in store.list(root) if entry.path not in listed]


def _segment(log: str, number: int) -> str:
    name = PurePosixPath(log)
    return f"logs/{name.with_suffix('')}/{number:06d}{name.suffix}"


def _number_of(segment: str) -> int:
    return int(PurePosixPath(segment).stem)


def _log_of(path: str) -> str | None:
    """The log that a path is a segment of, if any."""
    name = PurePosixPath(path)
    if len(name.parts) < 3 or name.parts[0] != "logs" or not name.stem.isdigit():
        return None
    return f"{name.parent.relative_to('logs')}{name.suffix}"


_END_LINES = 16
_END_BYTES = 16384
_MAX_LINE_BYTES = 4 << 20
_PIECE_BYTES = 16 << 20


def read_log(store: Store, log: str) -> Iterator[dict[str, Any]]:
    """The lines of a log such as `metrics.jsonl`; none if there is no such log.

    The log of a finished run is complete; that of an unfinished one ends at its newest snapshot.

    Args:
        store: Of a result directory.
        log: The name of the log.

    Raises:
        CorruptData: A line is not a JSON object.

    Example:
        >>> losses = [line["loss"] for line in read_log(open_directory("models/click").store, "metrics.jsonl")]
    """
    for path, data in _read_files(store, log):
        yield from _parse(f"{store.name}/{path}", _split_lines(f"{store.name}/{path}", data), 1)


@dataclass(frozen=True)
class LiveLog:
    """A log with the lines that its run has written since the newest snapshot.

    Attributes:
        sealed: The lines that `read_log` gives.
        open: Those that are not in a snapshot yet. If the run dies now, they are lost and made again.
    """

    sealed: list[dict[str, Any]]
    open: list[dict[str, Any]]


_NUM_LOOKS = 5


def read_live_log(store: Store, log: str) -> LiveLog:
    """Read a log up to this moment, while its run may write it.

    Args:
        store: Of a result directory.
        log: The name of the log.

    Raises:
        CorruptData: A line is not a JSON object.

    Example:
        >>> log = read_live_log(open_directory("models/click").store, "metrics.jsonl")
        >>> print(len(log.sealed), "lines, of which no snapshot has", len(log.open))
    """
    where = f"{store.name}: the open end of {log}"
    tail, sealed = b"", []
    for _ in range(_NUM_LOOKS):  # if the end is sealed while we read, its lines would be there twice, or not at all
        tail = store.read_tail(log)
        sealed = _read_files(store, log)
        if store.read_tail(log).startswith(tail):
            break
    lines = [line for path, data in sealed for line in _parse(f"{store.name}/{path}", _split_lines(path, data), 1)]
    whole = tail[: tail.rfind(b"\n") + 1]  # the last line may be half written
    if not whole or (sealed and bytes(sealed[-1][1][: len(whole)]) == whole):  # sealed, and about to be removed
        return LiveLog(lines, [])
    return LiveLog(lines, list(_parse(where, whole.splitlines(), 1)))


def read_log_end(store: Store, log: str) -> list[dict[str, Any]]:
    """The last few lines: enough to show the progress of a run. Reads only the end of the newest file."""
    for path, data in _read_files(store, log, newest_only=True):
        lines = bytes(data).splitlines()
        return list(_parse(f"{store.name}/{path}", lines[-_END_LINES:], max(1, len(lines) - _END_LINES + 1)))
    return []


def read_tail_end(store: Store, log: str, count: int = _END_LINES) -> list[dict[str, Any]]:
    """The last few lines of a log up to this moment, those included that no snapshot has yet."""
    tail = store.read_tail(log)
    lines = tail[: tail.rfind(b"\n") + 1].splitlines()[-count:]
    open_lines = list(_parse(f"{store.name}: the open end of {log}", lines, 1))
    if len(open_lines) >= count:
        return open_lines
    sealed = [line for line in read_log_end(store, log) if line not in open_lines]
    return [*sealed, *open_lines][-count:]


def _read_files(store: Store, log: str, newest_only: bool = False) -> list[tuple[str, bytes | memoryview]]:
    whole = f"logs/{log}"

    def read(path: str) -> tuple[str, bytes | memoryview]:
        return path, _read_end(store, path) if newest_only else store.map(path)

    for _ in range(2):  # if the run finishes meanwhile, the segments are gone and the whole log is there
        try:
            return [read(whole)]
        except NotFound:
            segments = [entry.path for entry in store.list(f"logs/{PurePosixPath(log).with_suffix('')}")]
        try:
            return [read(path) for path in (segments[-1:] if newest_only else segments)]
        except NotFound:
            continue
    return []


def _read_end(store: Store, path: str) -> bytes:
    """At least `_END_LINES` whole lines, or the whole file if that is short."""
    size = store.size(path)
    if size is None or size <= _END_BYTES:
        return store.read(path)
    data, start, length = b"", size, _END_BYTES
    while start > 0 and data.count(b"\n") <= _END_LINES and length <= _MAX_LINE_BYTES:
        start = max(0, size - length)
        data = store.read(path, start, size)
        length *= 4
    return data if start == 0 else data.partition(b"\n")[2]


def _split_lines(where: str, data: bytes | memoryview) -> Iterator[bytes]:
    rest = b""
    for start in range(0, len(data), _PIECE_BYTES):
        *lines, rest = (rest + bytes(data[start : start + _PIECE_BYTES])).split(b"\n")
        yield from lines
        if len(rest) > _MAX_LINE_BYTES:
            raise CorruptData(f"{where}: a line has more than {_MAX_LINE_BYTES:,} bytes. Restore the file from a copy")
    if rest:
        yield rest


def _parse(where: str, lines: Iterable[bytes], first_number: int) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(lines, first_number):
        yield read_object(line, f"{where}, line {number}", _MAX_LINE_BYTES)
