"""Writing a file and knowing, when it is written, what it must read back as: its size and its XXH64.

The checksum is computed in a thread beside the write, so that it costs no time on a second core.
"""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from samovar.errors import CorruptData, NotFound
from samovar.native import Hasher
from samovar.store import Fence, Store

_BESIDE_BYTES = 1 << 20  # below this a thread costs more than it saves


@dataclass(frozen=True)
class FileRecord:
    """What a file must be to count."""

    size: int
    checksum: str

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Self:
        return cls(int(record["size"]), str(record["checksum"]))

    @classmethod
    def of(cls, data: bytes | memoryview) -> Self:
        hasher = Hasher()
        hasher.update(data)
        return cls(len(data), f"{hasher.digest():016x}")


class CheckedWriter:
    """A store's writer that keeps the record of what went through it."""

    def __init__(self, store: Store, path: str, fence: Fence | None = None) -> None:
        self._writer = store.create(path, fence)
        self._hasher = Hasher()
        self._size = 0
        self._beside: ThreadPoolExecutor | None = None

    def write(self, data: bytes | memoryview) -> None:
        self._size += len(data)
        if len(data) < _BESIDE_BYTES:
            self._hasher.update(data)
            self._writer.write(data)
            return
        if self._beside is None:
            self._beside = ThreadPoolExecutor(1, thread_name_prefix="checksum")
        hashing = self._beside.submit(self._hasher.update, data)
        try:
            self._writer.write(data)
        finally:
            hashing.result()

    @property
    def record(self) -> FileRecord:
        return FileRecord(self._size, f"{self._hasher.digest():016x}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._beside is not None:
            self._beside.shutdown()
        self._writer.__exit__(kind, error, trace)


def write_checked(store: Store, path: str, data: bytes, fence: Fence | None = None) -> FileRecord:
    with CheckedWriter(store, path, fence) as writer:
        writer.write(data)
    return writer.record


def map_checked(store: Store, path: str, expected: FileRecord) -> memoryview:
    """A file in memory, after making sure of every byte; else `CorruptData`."""
    try:
        data = store.map(path)
    except NotFound as error:
        raise CorruptData(f"{path}: is missing; expected {expected.size} bytes: restore it from a copy") from error
    found = FileRecord.of(data)
    if found != expected:
        raise CorruptData(
            f"{path}: found {found.size} bytes with checksum {found.checksum}; expected {expected.size} with "
            f"{expected.checksum}: the file was changed or the disk damaged it; restore it from a copy"
        )
    return data
