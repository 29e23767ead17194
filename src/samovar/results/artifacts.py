"""What a run makes besides its state: logs and part files, all known to the directory, so that it can be rolled
back. Knows names and lengths, not what is inside.

    logs/metrics/000001.jsonl …   sealed segments, one a snapshot, until the finish joins them into logs/metrics.jsonl
    evaluation/…                  part files, named by place
    files/…                       what a user's stage wrote itself, as plain files; taken in at the finish

Reading a run's log: whole when the run is finished, else as far as its snapshots sealed it. Knows that a line is
a JSON object, and nothing of what stands in it.
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
METRICS_LOG, TIMING_LOG, EVENTS_LOG = "metrics.jsonl", "timing.jsonl", "tensorboard/events.tfevents"  # in logs/
"""The only places that are rolled back; nothing else in a directory is ever removed."""

Inventory = Mapping[str, FileRecord]

_CLOSERS = 4  # disks make several files durable in the time of one
_MOST_CLOSING = 16


class Artifacts:
    """The files of a run so far. `inventory` is what a snapshot commits and a rollback restores."""

    def __init__(self, store: Store, fence: Fence) -> None:
        self._store = store
        self._fence = fence  # a replaced holder that wakes must not put its files over its successor's
        self._files: dict[str, FileRecord] = {}
        self._tails: dict[str, Tail] = {}
        self._closers: ThreadPoolExecutor | None = None
        self._closing: deque[tuple[str, CheckedWriter, Future[None]]] = deque()

    @property
    def inventory(self) -> Inventory:
        return dict(self._files)

    def roll_back(self, inventory: Inventory) -> None:
        """Make the directory hold exactly the files of `inventory`; `CorruptData` if one of them is not as it was."""
        found = {entry.path: entry.size for root in ROOTS for entry in self._store.list(root)}
        for path, record in inventory.items():
            if found.get(path) != record.size:
                raise CorruptData(
                    f"{path}: found {found.get(path, 'no')} bytes; the snapshot expects {record.size}: "
                    "it was changed from outside; restore it from a copy"
                )
        for path in found.keys() - inventory.keys():
            self._store.remove(path)
        if not any(path.startswith(f"{FILES}/") for path in inventory):
            self._store.remove_tree(FILES)  # with its empty folders, which would stand in the way of `mkdir`
        self._close_tails()
        self._files = dict(inventory)

    @contextmanager
    def create(self, path: str) -> Iterator[CheckedWriter]:
        """A part file; it belongs to the run when it is whole."""
        with self._open(path) as writer:
            yield writer
        self._files[path] = writer.record

    @contextmanager
    def create_beside(self, path: str) -> Iterator[CheckedWriter]:
        """The same, but the caller does not wait for the disk: the next commit does, and tells what went wrong."""
        with ExitStack() as stack:
            writer = stack.enter_context(self._open(path))
            yield writer
            whole = stack.pop_all()
        while len(self._closing) >= _MOST_CLOSING:
            self._settle_oldest()
        self._closers = self._closers or ThreadPoolExecutor(_CLOSERS, thread_name_prefix="close")
        self._closing.append((path, writer, self._closers.submit(whole.close)))

    def _open(self, path: str) -> CheckedWriter:
        if PurePosixPath(path).parts[:1] not in [(root,) for root in ROOTS]:
            raise BadPath(
                f"{path}: artifacts live in {', '.join(ROOTS)}; expected a path in one of them: move it there"
            )
        return CheckedWriter(self._store, path, self._fence)

    def _settle_oldest(self) -> None:
        path, writer, closing = self._closing.popleft()
        closing.result()
        self._files[path] = writer.record

    def close(self) -> None:
        """Wait until nothing is written any more. What no commit has asked for does not count, whole or not."""
        if self._closers is not None:
            self._closers.shutdown()
        self._close_tails(keep=True)

    def adopt(self) -> None:
        """Take in the plain files that a stage wrote below `files`."""
        self._store.sync(FILES)
        for entry in self._store.list(FILES):
            self._files[entry.path] = FileRecord.of(self._store.map(entry.path))

    def append(self, log: str, line: bytes) -> None:
        """Add to the open end of a log, for example `metrics.jsonl`."""
        if log not in self._tails:
            self._tails[log] = self._store.tail(log)
        self._tails[log].append(line)

    def seal(self) -> None:
        """Turn the open ends into segments that count from the next commit on, and wait for files beside."""
        while self._closing:
            self._settle_oldest()
        for log in sorted(self._tails):
            content = self._tails[log].content()
            if content:
                path = _segment(log, len(self._segments(log)) + 1)
                self._files[path] = write_checked(self._store, path, content, self._fence)
        self._close_tails()

    def join(self) -> None:
        """Put each log's segments together under its final name; the segments stay until `drop_segments`."""
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
    """The log that a path is a segment of."""
    name = PurePosixPath(path)
    if len(name.parts) < 3 or name.parts[0] != "logs" or not name.stem.isdigit():
        return None
    return f"{name.parent.relative_to('logs')}{name.suffix}"


_END_LINES = 16


def read_log(store: Store, log: str) -> Iterator[dict[str, Any]]:
    """Every line of, for example, `metrics.jsonl`; none when there is no such log."""
    for path, data in _read_files(store, log):
        yield from _parse(f"{store.name}/{path}", data.splitlines(), 1)


def read_log_end(store: Store, log: str) -> list[dict[str, Any]]:
    """The last few lines: enough to know how a run stands."""
    path, data = next(iter(_read_files(store, log, newest_only=True)), ("", b""))
    data = data.rstrip(b"\n")
    lines = data.rsplit(b"\n", _END_LINES)[-_END_LINES:] if data else []
    return list(_parse(f"{store.name}/{path}", lines, data.count(b"\n") + 2 - len(lines)))


def _read_files(store: Store, log: str, newest_only: bool = False) -> list[tuple[str, bytes]]:
    whole = f"logs/{log}"
    for _ in range(2):  # the run may finish while we look: then its segments are gone, and the whole log is there
        try:
            return [(whole, store.read(whole))]
        except NotFound:
            segments = [entry.path for entry in store.list(f"logs/{PurePosixPath(log).with_suffix('')}")]
        try:
            return [(path, store.read(path)) for path in (segments[-1:] if newest_only else segments)]
        except NotFound:
            continue
    return []


def _parse(where: str, lines: list[bytes], first_number: int) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(lines, first_number):
        try:
            record = json.loads(line)
        except ValueError:
            record = None
        if not isinstance(record, dict):
            found = line[:60].decode(errors="replace")
            raise CorruptData(
                f"{where}, line {number}: found {found!r}; expected a JSON object: restore the file from a copy"
            )
        yield record
