"""The seam of every store: immutable files, attributes of directories, leases. Knows nothing of results or tables.

Only two things make files count: `create_if_absent`, and a change of attributes (`compare_and_set`). Both let
exactly one caller win. A lease (lease.py) is built from the second, so every commit under it is fenced.

Which names may stand in a store: relative, clean, and the same name on every disk. Touches no disk.
"""

import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, ClassVar, Literal, Self

from samovar.errors import BadPath

RESERVED = ".samovar"  # the store's own folder: attributes, locks, temporaries
MAX_NAME_BYTES = 255
_HIDDEN_CATEGORIES = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def split_path(path: str) -> tuple[str, ...]:
    """The parts of a path, each of them safe; the empty path is the root and has none."""
    if path == "":
        return ()
    parts = tuple(path.split("/"))
    for part in parts:
        reason = _refuse(part)
        if reason is not None:
            raise BadPath(
                f"path {path!r}: the part {part!r} {reason}; a path in a store is plain names joined by '/': rename it"
            )
    if _folded(parts[0]) == RESERVED:
        raise BadPath(f"path {path!r}: {RESERVED!r} belongs to the store itself; expected another name: rename it")
    return parts


def split_file(path: str) -> tuple[str, ...]:
    """As `split_path`, for a path that names a file."""
    if not path:
        raise BadPath("path '': names the root, which is a directory; expected a file's name: give one")
    return split_path(path)


def _folded(part: str) -> str:
    """The name as a disk that ignores case or normalises Unicode would see it."""
    return unicodedata.normalize("NFKC", part).casefold()


def _refuse(part: str) -> str | None:
    if part == "":
        return "is empty (an absolute path, or '//')"
    if any(unicodedata.category(char) in _HIDDEN_CATEGORIES for char in part):
        return "holds a control or invisible character"
    folded = _folded(part)
    if folded in {".", ".."}:
        return "points elsewhere"
    if "/" in folded or "\\" in folded:
        return "holds a separator"
    if part != unicodedata.normalize("NFC", part):
        return "is not in Unicode's composed form (NFC)"
    if part != part.strip():
        return "begins or ends with a space"
    if len(part.encode()) > MAX_NAME_BYTES:
        return f"is longer than {MAX_NAME_BYTES} bytes"
    return None


Json = Any  # what the json module reads and writes
Liveness = Literal["alive", "silent", "dead"]
"""alive: leave it alone; silent: there, but its heartbeat is older than the lease time; dead: gone."""

Guard = Callable[[], object]
"""Raises when a file may not take its name any more."""

LEASE_SECONDS = 60.0


@dataclass(frozen=True)
class Entry:
    """A file of a store."""

    path: str
    size: int


@dataclass(frozen=True)
class Attributes:
    """The attributes of a directory at one moment; `version` counts its changes."""

    version: int = 0
    values: Mapping[str, Json] = field(default_factory=dict)


class Writer(ABC):
    """A file in the making. It appears under its name, whole and durable, on `close`, and never on `abort`."""

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
    """The open end of a log: a plain file that grows, and may be lost with its process."""

    @abstractmethod
    def append(self, data: bytes) -> None: ...

    @abstractmethod
    def content(self) -> bytes: ...

    @abstractmethod
    def close(self, keep: bool = False) -> None:
        """Nothing more is added; what was is removed, or kept for people to look at."""


class Heartbeat(ABC):
    """A lease holder's sign of life. `record` is what others need to judge it (see `Store.liveness`)."""

    record: Mapping[str, Json]

    @abstractmethod
    def beat(self) -> None: ...

    @abstractmethod
    def drop(self) -> None: ...


class Store(ABC):
    """A tree of immutable files, small attributes and leases.

    Paths are relative names joined by '/'; '' is the root. A write that returned survives power loss.
    """

    name: str
    """For messages: where it lies."""
    can_map: ClassVar[bool] = False
    """Whether `map` costs nothing until a byte is touched."""

    @abstractmethod
    def read(self, path: str, start: int = 0, stop: int | None = None) -> bytes:
        """The bytes [start, stop) of a file; `NotFound` when there is none."""

    @abstractmethod
    def map(self, path: str) -> memoryview:
        """A whole file as writable private memory: changes stay in this process; copies nothing if it can."""

    @abstractmethod
    def create(self, path: str, guard: Guard | None = None) -> Writer:
        """A writer for `path`; on close it replaces what stood there, if the guard, asked last, does not mind."""

    @abstractmethod
    def create_if_absent(self, path: str, data: bytes) -> None:
        """Write a small file that must not exist yet; `AlreadyExists` for all callers but one."""

    @abstractmethod
    def list(self, prefix: str = "") -> Sequence[Entry]:
        """All files below a directory, sorted by path; nothing if it does not exist."""

    @abstractmethod
    def remove(self, path: str) -> None:
        """Remove a file; one that is not there is no error. After power loss it may be back."""

    @abstractmethod
    def remove_tree(self, path: str) -> None:
        """Remove a directory for good, with all that is below it and its attributes."""

    @abstractmethod
    def attributes(self, directory: str = "") -> Attributes:
        """The newest attributes; version 0 and no values when none were ever set."""

    @abstractmethod
    def compare_and_set(self, directory: str, expected: Attributes, values: Mapping[str, Json]) -> Attributes | None:
        """Set all values if nobody has since `expected` was read; None when somebody has."""

    @abstractmethod
    def tail(self, name: str) -> Tail:
        """Start the open end of a log anew; an older one of that name is forgotten."""

    @abstractmethod
    def heartbeat(self, directory: str) -> Heartbeat:
        """Show life for a lease that is about to be taken."""

    @abstractmethod
    def liveness(self, record: Mapping[str, Json]) -> Liveness:
        """Whether the holder that wrote a heartbeat's record still lives, as seen from here."""

    @abstractmethod
    def sweep(self) -> None:
        """Remove what killed processes left unfinished. Only a lease's holder calls it."""

    def size(self, path: str) -> int | None:
        """The size of a file, None when there is none."""
        return next((entry.size for entry in self.list(path) if entry.path == path), None)

    def settle(self, directory: str) -> None:
        """Make durable what others wrote below a directory as plain files; where there are none, nothing."""
        return

    def stamp(self, path: str) -> Hashable | None:
        """Another one after each change of a file; None where that cannot be known."""
        return None

    def set_attributes(self, directory: str, **values: Json) -> Attributes:
        """Change some attributes, whatever others do at the same time. Not fenced: see `Lease.commit`."""
        while True:
            current = self.attributes(directory)
            changed = self.compare_and_set(directory, current, {**current.values, **values})
            if changed is not None:
                return changed


def write_file(store: Store, path: str, data: bytes) -> None:
    """Create or replace one small file."""
    with store.create(path) as writer:
        writer.write(data)
