"""The interface of every store: immutable files, attributes of directories, leases; and which paths a store accepts.
Knows nothing of results or tables, and touches no disk.

Only two operations make files count: `create_if_absent`, and a change of attributes (`compare_and_set`). Both let
exactly one caller win. A lease (lease.py) is built on the second, so every commit under a lease is fenced.
"""

import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, ClassVar, Literal, Self

from samovar.errors import BadPath, CorruptData

Json = Any  # what the json module reads and writes
Liveness = Literal["alive", "silent", "dead"]
"""alive: running; silent: running, but its heartbeat is older than the lease time; dead: gone."""

Fence = Callable[[], object]
"""Called just before a file is published. It raises if the writer may not publish any more, as `Lease.check` does."""

LEASE_SECONDS = 60.0


@dataclass(frozen=True)
class Entry:
    """A file in a store."""

    path: str
    size: int


@dataclass(frozen=True)
class Attributes:
    """The attributes of a directory at one moment. `version` counts the changes."""

    version: int = 0
    values: Mapping[str, Json] = field(default_factory=dict)
    tag: Any = field(default=None, compare=False, repr=False)
    """How the store that read them tells these attributes from all others; nothing for callers."""


class Writer(ABC):
    """A file that is being written. It appears under its name, whole and durable, on `close`, and never on `abort`."""

    @abstractmethod
    def write(self, data: bytes | memoryview) -> None: ...

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def abort(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()


class Tail(ABC):
    """The growing end of a log: a plain file, which may be lost with its process."""

    @abstractmethod
    def append(self, data: bytes) -> None: ...

    @abstractmethod
    def content(self) -> bytes: ...

    @abstractmethod
    def close(self, keep: bool = False) -> None:
        """Stop adding, and remove the file; `keep` leaves it for people to look at."""


class Heartbeat(ABC):
    """A lease holder's sign of life. `record` is what others pass to `Store.liveness` to see whether it is alive."""

    record: Mapping[str, Json]

    @abstractmethod
    def beat(self) -> None: ...

    @abstractmethod
    def stop(self) -> None: ...


class Store(ABC):
    """A tree of immutable files, small attributes and leases.

    Paths are relative names joined by '/'; '' is the root. A write that returned survives a power loss.

    Example:
        >>> store = LocalStore("models/click")
        >>> write_file(store, "notes/first.txt", b"hello")
        >>> store.read("notes/first.txt")
        b'hello'
    """

    name: str
    """Where the store is, for messages."""
    can_map: ClassVar[bool] = False
    """Whether `map` reads nothing until a byte is touched."""

    @abstractmethod
    def read(self, path: str, start: int = 0, stop: int | None = None) -> bytes:
        """Read the bytes [start, stop) of a file; `NotFound` if it does not exist.

        Args:
            path: Its path, with slashes.
            start: The first byte.
            stop: The byte to stop before. Default: the end.
        """

    @abstractmethod
    def map(self, path: str) -> memoryview:
        """A whole file as private, writable memory: changes stay in this process. Avoids a copy if it can.

        Args:
            path: Its path, with slashes.
        """

    def chunks(self, path: str) -> Iterator[bytes | memoryview]:
        """The bytes of a file, in pieces of a few MiB: for files that may be larger than memory.

        Args:
            path: Its path in the store.
        """
        start = 0
        while piece := self.read(path, start, start + CHUNK_BYTES):
            yield piece
            start += len(piece)

    def read_many(self, path: str, ranges: Sequence[tuple[int, int]]) -> Sequence[bytes | memoryview]:
        """The bytes of several ranges [start, stop) of a file, each as `read` returns it."""
        return [self.read(path, start, stop) for start, stop in ranges]

    @abstractmethod
    def create(self, path: str, fence: Fence | None = None) -> Writer:
        """A writer for a file, which replaces an existing one on close, unless the fence raises just before.

        Args:
            path: Its path, with slashes.
            fence: Called just before the file appears; raises if it must not.
        """

    @abstractmethod
    def create_if_absent(self, path: str, data: bytes) -> None:
        """Write a small file that must not exist. Of several callers all but one get `AlreadyExists`.

        Args:
            path: Its path, with slashes.
            data: Its content.
        """

    @abstractmethod
    def list(self, prefix: str = "") -> Sequence[Entry]:
        """All files below a directory, sorted by path; none if it does not exist.

        Args:
            prefix: The directory. Default: the root.
        """

    @abstractmethod
    def remove(self, path: str) -> None:
        """Remove a file, if it exists. After a power loss it may be back.

        Args:
            path: Its path, with slashes.
        """

    @abstractmethod
    def remove_tree(self, path: str) -> None:
        """Remove a directory with everything below it, including attributes, durably.

        Args:
            path: Its path; the empty path is the root.
        """

    @abstractmethod
    def attributes(self, directory: str = "") -> Attributes:
        """The newest attributes; version 0 and no values if none were ever set.

        Args:
            directory: Its path; the empty path is the root.
        """

    @abstractmethod
    def compare_and_set(self, directory: str, expected: Attributes, values: Mapping[str, Json]) -> Attributes | None:
        """Replace all values, unless they changed since `expected` was read; then None.

        Args:
            directory: Its path; the empty path is the root.
            expected: What `attributes` returned.
            values: The new values, as plain JSON.
        """

    @abstractmethod
    def tail(self, name: str) -> Tail:
        """Start the growing end of a log. An earlier one of that name is dropped.

        Args:
            name: Its path below the folder of tails, such as `metrics.jsonl`.
        """

    @abstractmethod
    def read_tail(self, name: str) -> bytes:
        """What was appended to a log since it was sealed, for people who watch a run; empty if nothing was.

        A store that cannot append to files is some seconds late, and has only the last lines.

        Args:
            name: Its name.
        """

    @abstractmethod
    def heartbeat(self, directory: str) -> Heartbeat:
        """Start a heartbeat for a lease that is about to be taken.

        Args:
            directory: Its path; the empty path is the root.
        """

    @abstractmethod
    def liveness(self, record: Mapping[str, Json]) -> Liveness:
        """Whether the process of a heartbeat's record is alive, as seen from here.

        Args:
            record: A heartbeat's `record`, perhaps from another machine.
        """

    def shut_out_others(self, check: Fence) -> Callable[[], None]:
        """Stop earlier holders of the root's lease, which may only sleep, from changing any file, if this store can.

        A new holder calls it first, and the returned function when it releases the lease. `check` raises if the lease
        is lost.

        Args:
            check: Raises if the lease is lost.
        """
        return lambda: None

    @abstractmethod
    def leftovers(self) -> Sequence[Entry]:
        """The store's own files that killed and replaced processes left, and nobody needs, with their sizes."""

    @abstractmethod
    def sweep(self) -> None:
        """Remove the leftovers. Only the holder of the lease may call it."""

    @abstractmethod
    def erase(self) -> None:
        """Remove everything at the root, the store's own files too. Only the last holder of the lease may call it: it
        cannot even be released."""

    def size(self, path: str) -> int | None:
        """The size of a file; None if it does not exist."""
        return next((entry.size for entry in self.list(path) if entry.path == path), None)

    def exists(self) -> bool:
        """Whether there is anything at the root."""
        return bool(self.list())

    def names(self, directory: str = "") -> Mapping[str, bool]:
        """What is in a directory: each name, sorted, and whether it is a directory itself.

        Args:
            directory: Its path. Default: the root.
        """
        start = len(directory) + 1 if directory else 0
        parts = sorted(entry.path[start:].partition("/") for entry in self.list(directory) if entry.path != directory)
        return {name: bool(slash) for name, slash, _ in parts}

    def sync(self, directory: str) -> None:
        """Make plain files durable that other code wrote below a directory, if this store can have such files.

        Args:
            directory: Its path; the empty path is the root.
        """
        return

    def etag(self, path: str) -> Hashable | None:
        """A tag that differs after each change of a file; None if the store cannot tell.

        Args:
            path: Its path, with slashes.
        """
        return None

    def set_attributes(self, directory: str, **values: Json) -> Attributes:
        """Change some attributes, even while others change them too. Not fenced: see `Lease.commit`."""
        while True:
            current = self.attributes(directory)
            changed = self.compare_and_set(directory, current, {**current.values, **values})
            if changed is not None:
                return changed


CHUNK_BYTES = 8 << 20
MAX_SMALL_BYTES = 16 << 20


def read_small(store: Store, path: str, max_bytes: int = MAX_SMALL_BYTES) -> bytes:
    """Read a whole file that must be small, whoever wrote it; `CorruptData` if it is not."""
    data = store.read(path, 0, max_bytes + 1)
    if len(data) > max_bytes:
        raise CorruptData(f"{store.name}/{path} has more than {max_bytes:,} bytes. Restore it from a copy")
    return data


def write_file(store: Store, path: str, data: bytes) -> None:
    """Create or replace one small file."""
    with store.create(path) as writer:
        writer.write(data)


# Paths: relative, clean, and the same name on every disk

RESERVED = ".samovar"  # the store's own folder: attributes, locks, unfinished files
MAX_NAME_BYTES = 255
_HIDDEN_CATEGORIES = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def split_path(path: str) -> tuple[str, ...]:
    """The parts of a path, after checking each; the empty path is the root and has none."""
    if path == "":
        return ()
    parts = tuple(path.split("/"))
    for part in parts:
        reason = _find_fault(part)
        if reason is not None:
            raise BadPath(f"invalid path {path!r}: {part!r} {reason}. A path in a store is plain names joined by '/'")
    if _folded(parts[0]) == RESERVED:
        raise BadPath(f"invalid path {path!r}: the name {RESERVED!r} is reserved for the store")
    return parts


def split_file(path: str) -> tuple[str, ...]:
    """Like `split_path`, for the path of a file."""
    if not path:
        raise BadPath("the empty path is the root of the store, not a file")
    return split_path(path)


def _folded(part: str) -> str:
    """The name as a disk sees it that ignores case or normalises Unicode."""
    return unicodedata.normalize("NFKC", part).casefold()


def _find_fault(part: str) -> str | None:
    if part == "":
        return "is empty (an absolute path, or '//')"
    if any(unicodedata.category(char) in _HIDDEN_CATEGORIES for char in part):
        return "has a control or invisible character"
    folded = _folded(part)
    if folded in {".", ".."}:
        return "points to another directory"
    if "/" in folded or "\\" in folded:
        return "has a separator"
    if part != unicodedata.normalize("NFC", part):
        return "is not in Unicode form NFC"
    if part != part.strip():
        return "starts or ends with a space"
    if len(part.encode()) > MAX_NAME_BYTES:
        return f"is longer than {MAX_NAME_BYTES} bytes"
    return None
