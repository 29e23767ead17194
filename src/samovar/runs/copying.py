"""Copies a result or a table to another place, between any two stores. What is half copied is no result: the config is
written last.

    attribute `copy`   where it comes from, and its id: committed first, so that the same copy can be resumed
    files              all but the config; written, read back, compared
    attributes         those of the source, but not its lease
    model_config.json  makes it a result
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass

from samovar.config.places import PathLike, Place, as_place
from samovar.errors import BadInput, Conflict, CorruptData, LeaseHeld, NotAResult, StoreError
from samovar.native import Hasher
from samovar.results.checked import CheckedWriter, FileRecord, map_checked
from samovar.results.directory import CONFIG, EXTERNAL, INVENTORY, ResultDirectory, open_directory
from samovar.results.partial import COPY, CopyRecord, find_copy, is_removed, refuse_foreign
from samovar.store import Entry, Lease, Store, open_store, read_small, take_lease
from samovar.store.base import RESERVED
from samovar.store.lease import LEASE
from samovar.tables.manifest import table_inventory

_NUM_FILES_AT_ONCE = 4  # each has some chunks in memory

ShowProgress = Callable[[int, int], object]
"""Called with the number of bytes that are done, and that of all."""


@dataclass(frozen=True)
class Copy:
    """What `copy` did.

    Attributes:
        source: Where the result is.
        target: Where the copy is.
        kind: In words: "a model", "a table".
        num_files: All files of the copy.
        num_copied: Those that were not there before.
        size_bytes: The sizes of all files together.

    Example:
        >>> done = copy("models/click_1", "backup/click_1")
        >>> done.kind, done.num_files > 0
        ('a model', True)
    """

    source: Place
    target: Place
    kind: str
    num_files: int
    num_copied: int
    size_bytes: int


def copy(source: PathLike, target: PathLike, *, progress: ShowProgress | None = None) -> Copy:
    """Copy a result or a table to another place, and verify every byte.

    The copy has the same id, and can be opened, audited, resumed and appended to. If it is interrupted, the same call
    goes on with it.

    Args:
        source: The directory of a result or a table, finished or not: a path or a URL.
        target: Where the copy is to be: an empty or new directory, or an unfinished copy of the same source.
        progress: Called with the number of bytes that are done, and that of all.

    Returns:
        What was copied.

    Raises:
        NotAResult: There is no result at the source, or the target has other files.
        Conflict: The target is another result, or an unfinished copy of one.
        LeaseHeld: A process works in the source or in the target.
        CorruptData: A file of the source is damaged.

    Example:
        >>> copy("models/click_1", "backup/click_1").kind
        'a model'
    """
    origin, goal = open_directory(source), ResultDirectory(open_store(as_place(target, "the target")))
    _refuse_overlap(origin.place, goal.place)
    refuse_foreign(goal)
    with ExitStack() as stack:
        _hold_source(origin, stack)
        done = _find_whole(origin, goal)
        if done is not None:
            return done
        lease = stack.enter_context(_beating(take_lease(goal.store, above_epoch=origin.lease.epoch)))
        _refuse_others(origin, goal)
        lease.commit(**{COPY: asdict(CopyRecord(origin.name, origin.id, is_whole=False))})
        work = _Work(origin, goal.store, lease, progress or (lambda done, total: None))
        num_copied = work.copy_files()
        values = {key: value for key, value in origin.store.attributes().values.items() if key not in (LEASE, COPY)}
        lease.commit(**{**values, COPY: asdict(CopyRecord(origin.name, origin.id, is_whole=True))})
        goal.store.create_if_absent(CONFIG, work.read_config())
    return _describe(origin, goal, num_copied + 1)


def _refuse_overlap(source: Place, target: Place) -> None:
    one, other = source.expanduser().resolve(), target.expanduser().resolve()
    if one == other:
        raise BadInput(f"{target}: the source and the target of a copy are the same directory")
    if one in other.parents or other in one.parents:
        raise BadInput(f"{target}: the target of a copy must not contain its source {source}, nor be in it")


def _hold_source(origin: ResultDirectory, stack: ExitStack) -> None:
    """Keep others from changing an unfinished source. A finished one never changes, but may be in use."""
    if not origin.is_finished:
        stack.enter_context(_beating(take_lease(origin.store)))
    elif origin.lease.is_held:
        raise LeaseHeld(f"{origin.name} is in use by {origin.lease.holder}. Wait until that process ends, or stop it")


@contextmanager
def _beating(lease: Lease) -> Iterator[Lease]:
    with lease:
        lease.keep_beating(lambda: None)
        yield lease


def _find_whole(origin: ResultDirectory, goal: ResultDirectory) -> Copy | None:
    """The copy, if it is there already; `Conflict` if another result is."""
    if not goal.is_created:
        return None
    known = find_copy(goal)
    if known is None or not known.is_whole or goal.id != origin.id:
        raise Conflict(
            f"{goal.name} exists: it is {goal.describe_kind()}. Copy to another directory, or remove it first"
        )
    if _state_of(goal) != _state_of(origin):
        raise Conflict(
            f"{goal.name} is a copy of {known.source}, and one of the two has gone on since. Copy to another "
            "directory, or remove it first"
        )
    return _describe(origin, goal, 0)


def _state_of(directory: ResultDirectory) -> Mapping[str, object]:
    """What tells two states of one result apart."""
    return {key: value for key, value in directory.store.attributes().values.items() if key not in (LEASE, COPY)}


def _refuse_others(origin: ResultDirectory, goal: ResultDirectory) -> None:
    known = find_copy(goal)
    if known is not None and known.id != origin.id:
        raise Conflict(f"{goal.name} is an unfinished copy of {known.source}, which is another result. Remove it first")
    if is_removed(goal.store):
        raise Conflict(f"{goal.name} is half removed. Remove the rest with samovar rm {goal.name}")
    others = [entry.path for entry in goal.store.list() if not entry.path.startswith(f"{EXTERNAL}/")]
    if known is None and others:
        raise NotAResult(
            f"{goal.name} has {len(others)} files of something unfinished, such as {others[0]}. Use a new or empty "
            "directory"
        )


def _describe(origin: ResultDirectory, goal: ResultDirectory, num_copied: int) -> Copy:
    entries = goal.store.list()
    size_bytes = sum(entry.size for entry in entries)
    return Copy(origin.place, goal.place, origin.describe_kind(), len(entries), num_copied, size_bytes)


class _Work:
    """The files of one copy. Each is written, read back and compared."""

    def __init__(self, origin: ResultDirectory, target: Store, lease: Lease, progress: ShowProgress) -> None:
        self._origin = origin
        self._source = origin.store
        self._target = target
        self._lease = lease
        self._progress = progress
        self._records = _known_records(origin)
        self._there: dict[str, int] = {}
        self._num_bytes = self._done = 0
        self._lock = threading.Lock()

    def copy_files(self) -> int:
        """Copy all files but the config; the number of those that were not there."""
        entries = [entry for entry in self._source.list() if entry.path != CONFIG]
        self._refuse_nested(entries)
        self._refuse_missing({entry.path: entry.size for entry in entries})
        self._there = {entry.path: entry.size for entry in self._target.list()}
        self._num_bytes = sum(entry.size for entry in entries)
        for path in self._there.keys() - {entry.path for entry in entries}:
            if not path.startswith(f"{EXTERNAL}/"):
                self._target.remove(path)  # the source had it when the copy began
        self._advance(0)
        pool = ThreadPoolExecutor(_NUM_FILES_AT_ONCE, thread_name_prefix="copy")
        try:
            return sum(pool.map(self._copy_file, entries))
        finally:
            pool.shutdown(cancel_futures=True)

    def _refuse_nested(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            inner, found, _ = entry.path.partition(f"/{RESERVED}/")
            if found:
                raise Conflict(f"{self._source.name} contains {inner}, which is another result. Move it out first")

    def _refuse_missing(self, found: Mapping[str, int]) -> None:
        for path, record in self._records.items():
            if path != CONFIG and found.get(path) != record.size:
                size = f"has {found[path]} bytes instead of" if path in found else "is missing; it had"
                raise CorruptData(f"{self._source.name}/{path} {size} {record.size}. Restore it from a copy")

    def _copy_file(self, entry: Entry) -> bool:
        path, known = entry.path, self._records.get(entry.path)
        if self._there.get(path) == entry.size:
            expected = known or _read_record(self._source, path)
            if _read_record(self._target, path) == expected:
                self._advance(entry.size)
                return False
        with CheckedWriter(self._target, path, self._lease.check) as writer:
            for chunk in self._source.chunks(path):
                writer.write(chunk)
                self._advance(len(chunk))
            if known is not None and writer.record != known:
                raise CorruptData(
                    f"{self._source.name}/{path}: damaged or changed; it has {writer.record.size} bytes with checksum "
                    f"{writer.record.checksum} instead of {known.size} with {known.checksum}. Restore it from a copy"
                )
        if _read_record(self._target, path) != writer.record:
            raise StoreError(f"{self._target.name}/{path} reads back differently than it was written. Check that disk")
        return True

    def read_config(self) -> bytes:
        """The config, verified."""
        known = self._records.get(CONFIG)
        return read_small(self._source, CONFIG) if known is None else bytes(map_checked(self._source, CONFIG, known))

    def _advance(self, num_bytes: int) -> None:
        with self._lock:
            self._done += num_bytes
            self._progress(self._done, self._num_bytes)


def _known_records(origin: ResultDirectory) -> Mapping[str, FileRecord]:
    """What the files must be, as far as the result has committed it."""
    if origin.is_finished:
        return {**origin.inventory(), INVENTORY: origin.finish.inventory}
    return table_inventory(origin.store) if origin.is_live else {}


def _read_record(store: Store, path: str) -> FileRecord:
    hasher, size = Hasher(), 0
    for chunk in store.chunks(path):
        hasher.update(chunk)
        size += len(chunk)
    return FileRecord(size, f"{hasher.digest():016x}")
