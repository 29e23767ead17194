"""What a run writes besides its state: logs and part files, all listed, so that the directory can be rolled back. Knows
names and sizes, and that a line of a log is a JSON object, but not what is inside.

    logs/metrics/000001.jsonl …   sealed segments, one per snapshot; the end joins them into logs/metrics.jsonl
    evaluation/…                  part files, named by place
    files/…                       plain files that a user's stage wrote; registered at the end
"""

import json
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import PurePosixPath
from typing import Any

from samovar.errors import BadPath, CorruptData, NotFound
from samovar.results.checked import CheckedWriter, FileRecord, map_checked, write_checked
from samovar.store import Fence, Store, Tail

FILES = "files"
ROOTS = ("logs", "evaluation", "model", FILES)
"""The only folders that are rolled back; nothing else in a directory is ever removed."""
METRICS_LOG, TIMING_LOG, EVENTS_LOG = "metrics.jsonl", "timing.jsonl", "tensorboard/events.tfevents"  # in logs/

Inventory = Mapping[str, FileRecord]

_CLOSING_THREADS = 4  # a disk fsyncs several files in the time of one
_MAX_CLOSING = 16


class Artifacts:
    """The files of a run so far. A snapshot commits `inventory`, and a rollback restores it."""

    def __init__(self, store: Store, fence: Fence) -> None:
        self._store = store
        self._fence = fence  # a holder that was replaced must not overwrite the files of the new one
        self._files: dict[str, FileRecord] = {}
        self._tails: dict[str, Tail] = {}
        self._threads: ThreadPoolExecutor | None = None
        self._closing: deque[tuple[str, CheckedWriter, Future[None]]] = deque()

    @property
    def inventory(self) -> Inventory:
        return dict(self._files)

    def roll_back(self, inventory: Inventory) -> None:
        """Remove all files that `inventory` does not list; `CorruptData` if a listed one has another size."""
        found = {entry.path: entry.size for root in ROOTS for entry in self._store.list(root)}
        for path, record in inventory.items():
            if found.get(path) != record.size:
                raise CorruptData(
                    f"{path} has {found.get(path, 'no')} bytes but had {record.size} at the snapshot: other code "
                    "changed it. Restore it from a copy"
                )
        for path in found.keys() - inventory.keys():
            self._store.remove(path)
        if not any(path.startswith(f"{FILES}/") for path in inventory):
            self._store.remove_tree(FILES)  # with its empty folders, or the stage's `mkdir` would fail
        self._close_tails()
        self._files = dict(inventory)

    @contextmanager
    def create(self, path: str) -> Iterator[CheckedWriter]:
        """Write a part file. It belongs to the run once it is complete."""
        with self._open(path) as writer:
            yield writer
        self._files[path] = writer.record

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

    def _finish_oldest(self) -> None:
        path, writer, closing = self._closing.popleft()
        closing.result()
        self._files[path] = writer.record

    def close(self) -> None:
        """Wait until nothing is written any more. Files that no commit has listed do not count."""
        if self._threads is not None:
            self._threads.shutdown()
        self._close_tails(keep=True)

    def register_files(self) -> None:
        """Add the plain files that a stage wrote below `files`."""
        self._store.sync(FILES)
        for entry in self._store.list(FILES):
            self._files[entry.path] = FileRecord.of(self._store.map(entry.path))

    def append(self, log: str, line: bytes) -> None:
        """Append to a log such as `metrics.jsonl`."""
        if log not in self._tails:
            self._tails[log] = self._store.tail(log)
        self._tails[log].append(line)

    def seal(self) -> None:
        """Turn the open logs into segments for the next commit, and wait for files written in the background."""
        while self._closing:
            self._finish_oldest()
        for log in sorted(self._tails):
            content = self._tails[log].content()
            if content:
                path = _segment(log, len(self._segments(log)) + 1)
                self._files[path] = write_checked(self._store, path, content, self._fence)
        self._close_tails()

    def join(self) -> None:
        """Join the segments of each log under its final name. The segments stay on disk until the run is finished."""
        self.seal()
        for log in sorted({_log_of(path) for path in self._files} - {None}, key=str):
            assert log is not None
            segments = self._segments(log)
            with self.create(f"logs/{log}") as writer:
                for path in segments:
                    writer.write(map_checked(self._store, path, self._files[path]))
            for path in segments:
                del self._files[path]

    def _segments(self, log: str) -> list[str]:
        return sorted(path for path in self._files if _log_of(path) == log)

    def _close_tails(self, keep: bool = False) -> None:
        for tail in self._tails.values():
            tail.close(keep)
        self._tails = {}


def _segment(log: str, number: int) -> str:
    name = PurePosixPath(log)
    return f"logs/{name.with_suffix('')}/{number:06d}{name.suffix}"


def _log_of(path: str) -> str | None:
    """The log that a path is a segment of, if any."""
    name = PurePosixPath(path)
    if len(name.parts) < 3 or name.parts[0] != "logs" or not name.stem.isdigit():
        return None
    return f"{name.parent.relative_to('logs')}{name.suffix}"


_END_LINES = 16
_END_BYTES = 16384


def read_log(store: Store, log: str) -> Iterator[dict[str, Any]]:
    """The lines of a log such as `metrics.jsonl`; none if there is no such log.

    The log of a finished run is complete; that of an unfinished one ends at its newest snapshot.

    Raises:
        CorruptData: A line is not a JSON object.

    Example:
        >>> losses = [line["loss"] for line in read_log(open_directory("models/click").store, "metrics.jsonl")]
    """
    for path, data in _read_files(store, log):
        yield from _parse(f"{store.name}/{path}", data.splitlines(), 1)


def read_log_end(store: Store, log: str) -> list[dict[str, Any]]:
    """The last few lines: enough to show the progress of a run. Reads only the end of the newest file."""
    for path, data in _read_files(store, log, newest_only=True):
        lines = data.splitlines()
        return list(_parse(f"{store.name}/{path}", lines[-_END_LINES:], max(1, len(lines) - _END_LINES + 1)))
    return []


def _read_files(store: Store, log: str, newest_only: bool = False) -> list[tuple[str, bytes]]:
    whole = f"logs/{log}"

    def read(path: str) -> tuple[str, bytes]:
        return path, _read_end(store, path) if newest_only else store.read(path)

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
    data, start = b"", size
    while start > 0 and data.count(b"\n") <= _END_LINES:
        start = max(0, start - _END_BYTES)
        data = store.read(path, start, size)
    return data if start == 0 else data.partition(b"\n")[2]


def _parse(where: str, lines: list[bytes], first_number: int) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(lines, first_number):
        try:
            record = json.loads(line)
        except ValueError:
            record = None
        if not isinstance(record, dict):
            found = line[:60].decode(errors="replace")
            raise CorruptData(f"{where}, line {number}: not a JSON object: {found!r}. Restore the file from a copy")
        yield record
