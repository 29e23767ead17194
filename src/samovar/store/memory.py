"""A store in the memory of this process, for tests and temporary work."""

import itertools
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from samovar.errors import AlreadyExists, BadPath, NotFound
from samovar.store.base import (
    LEASE_SECONDS,
    Attributes,
    Entry,
    Fence,
    Heartbeat,
    Json,
    Liveness,
    Store,
    Tail,
    Writer,
    split_file,
    split_path,
)


class MemoryStore(Store):
    """A store that keeps files as bytes in a dict. `clock` gives the seconds for heartbeats.

    Args:
        clock: Seconds since any moment, by which heartbeats count.

    Example:
        >>> store = MemoryStore()
        >>> store.create_if_absent("notes/a.txt", b"tea")
        >>> print(*(entry.path for entry in store.list()))
        notes/a.txt
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.name = "memory store"
        self._clock = clock
        self._files: dict[str, bytes] = {}
        self._attributes: dict[str, Attributes] = {}
        self._tails: dict[str, _MemoryTail] = {}
        self._heartbeats: dict[int, float] = {}
        self._numbers = itertools.count()
        self._lock = threading.RLock()

    def read(self, path: str, start: int = 0, stop: int | None = None) -> bytes:
        return self._find(path)[start:stop]

    def map(self, path: str) -> memoryview:
        return memoryview(bytearray(self._find(path)))

    def _find(self, path: str) -> bytes:
        split_file(path)
        with self._lock:
            if path not in self._files:
                raise NotFound(f"{path}: no such file in this store")
            return self._files[path]

    def create(self, path: str, fence: Fence | None = None) -> Writer:
        split_file(path)
        return _MemoryWriter(self, path, fence)

    def put(self, path: str, data: bytes) -> None:
        """Keep the bytes of a file.

        Args:
            path: Its path, with slashes.
            data: Its content.
        """
        with self._lock:
            self._check_no_clash(path)
            self._files[path] = data

    def create_if_absent(self, path: str, data: bytes) -> None:
        split_file(path)
        with self._lock:
            if path in self._files:
                raise AlreadyExists(f"{path} already exists")
            self.put(path, bytes(data))

    def _check_no_clash(self, path: str) -> None:
        parts = split_path(path)
        parents = {"/".join(parts[:depth]) for depth in range(1, len(parts))}
        if parents & self._files.keys() or any(name.startswith(path + "/") for name in self._files):
            raise BadPath(f"{path}: a file and a directory cannot share a name")

    def list(self, prefix: str = "") -> Sequence[Entry]:
        split_path(prefix)
        with self._lock:
            found = [path for path in self._files if prefix in ("", path) or path.startswith(prefix + "/")]
            return [Entry(path, len(self._files[path])) for path in sorted(found)]

    def remove(self, path: str) -> None:
        split_file(path)
        with self._lock:
            self._files.pop(path, None)

    def remove_tree(self, path: str) -> None:
        split_path(path)
        with self._lock:
            for entry in self.list(path):
                del self._files[entry.path]
            for directory in [name for name in self._attributes if path in ("", name) or name.startswith(path + "/")]:
                del self._attributes[directory]

    def attributes(self, directory: str = "") -> Attributes:
        split_path(directory)
        with self._lock:
            return self._attributes.get(directory, Attributes())

    def compare_and_set(self, directory: str, expected: Attributes, values: Mapping[str, Json]) -> Attributes | None:
        split_path(directory)
        with self._lock:
            if self.attributes(directory).version != expected.version:
                return None
            self._attributes[directory] = Attributes(expected.version + 1, dict(values))
            return self._attributes[directory]

    def tail(self, name: str) -> Tail:
        split_file(name)
        self._tails[name] = _MemoryTail()
        return self._tails[name]

    def read_tail(self, name: str) -> bytes:
        split_file(name)
        return self._tails[name].content() if name in self._tails else b""

    def heartbeat(self, directory: str) -> Heartbeat:
        with self._lock:
            return _MemoryHeartbeat(self._heartbeats, next(self._numbers), self._clock)

    def liveness(self, record: Mapping[str, Json]) -> Liveness:
        with self._lock:
            beat = self._heartbeats.get(record["number"])
        if beat is None:
            return "dead"
        return "alive" if self._clock() - beat <= LEASE_SECONDS else "silent"

    def leftovers(self) -> Sequence[Entry]:
        return ()  # the memory of a dead process is gone too

    def sweep(self) -> None:
        """Nothing to do."""

    def erase(self) -> None:
        with self._lock:
            self._files.clear()
            self._attributes.clear()
            self._tails.clear()


class _MemoryWriter(Writer):
    def __init__(self, store: MemoryStore, path: str, fence: Fence | None) -> None:
        self._store = store
        self._path = path
        self._fence = fence
        self._data: bytearray | None = bytearray()

    def write(self, data: bytes | memoryview) -> None:
        assert self._data is not None, "write after close"
        self._data += data

    def close(self) -> None:
        data, self._data = self._data, None
        if data is not None:
            with self._store._lock:  # nobody takes the lease between the fence and the file
                if self._fence is not None:
                    self._fence()
                self._store.put(self._path, bytes(data))

    def abort(self) -> None:
        self._data = None


class _MemoryTail(Tail):
    def __init__(self) -> None:
        self._data = bytearray()

    def append(self, data: bytes) -> None:
        self._data += data

    def content(self) -> bytes:
        return bytes(self._data)

    def close(self, keep: bool = False) -> None:
        if not keep:
            self._data.clear()


class _MemoryHeartbeat(Heartbeat):
    def __init__(self, heartbeats: dict[int, float], number: int, clock: Callable[[], float]) -> None:
        self.record = {"number": number}
        self._heartbeats = heartbeats
        self._number = number
        self._clock = clock
        self.beat()

    def beat(self) -> None:
        self._heartbeats[self._number] = self._clock()

    def stop(self) -> None:
        self._heartbeats.pop(self._number, None)
