"""Files with a checksum: written with a record of size and XXH64, and verified when read back.

The checksum is computed in a second thread while the bytes are written, so with two cores it costs no time.
"""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Annotated, Self

from pydantic import AfterValidator

from samovar.config.records import Checksum, Size
from samovar.errors import CorruptData, NotFound
from samovar.native import Hasher
from samovar.store import Fence, Store
from samovar.store.base import split_file

StorePath = Annotated[str, AfterValidator(lambda path: "/".join(split_file(path)))]
"""The path of a file in a store: plain names joined by '/'."""

_THREAD_BYTES = 1 << 20  # for fewer bytes a thread costs more than it saves


@dataclass(frozen=True)
class FileRecord:
    """The size and checksum that a file must have."""

    size: Size
    checksum: Checksum

    @classmethod
    def of(cls, data: bytes | memoryview) -> Self:
        return cls.of_chunks([data])

    @classmethod
    def of_chunks(cls, chunks: Iterable[bytes | memoryview]) -> Self:
        hasher, size = Hasher(), 0
        for chunk in chunks:
            hasher.update(chunk)
            size += len(chunk)
        return cls(size, f"{hasher.digest():016x}")


class CheckedWriter:
    """A writer that keeps the record of what it wrote."""

    def __init__(self, store: Store, path: str, fence: Fence | None = None) -> None:
        self._writer = store.create(path, fence)
        self._hasher = Hasher()
        self._size = 0
        self._thread: ThreadPoolExecutor | None = None

    def write(self, data: bytes | memoryview) -> None:
        self._size += len(data)
        if len(data) < _THREAD_BYTES:
            self._hasher.update(data)
            self._writer.write(data)
            return
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="checksum")
        hashing = self._thread.submit(self._hasher.update, data)
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
        if self._thread is not None:
            self._thread.shutdown()
        self._writer.__exit__(kind, error, trace)


def write_checked(store: Store, path: str, data: bytes, fence: Fence | None = None) -> FileRecord:
    """Create or replace a file, and return its record."""
    with CheckedWriter(store, path, fence) as writer:
        writer.write(data)
    return writer.record


def map_checked(store: Store, path: str, expected: FileRecord) -> memoryview:
    """Map a file into memory after verifying every byte; `CorruptData` if it is missing or differs."""
    try:
        data = store.map(path)
    except NotFound as error:
        raise _missing(path, expected) from error
    found = FileRecord.of(data) if len(data) == expected.size else FileRecord(len(data), "not computed")
    if found != expected:
        raise _damaged(path, found, expected)
    return data


def read_checked(store: Store, path: str, expected: FileRecord) -> Iterator[bytes | memoryview]:
    """The bytes of a file in chunks. They are verified only after the last one: `CorruptData` if the file is missing or
    differs, so nothing may come of them before."""
    hasher, size = Hasher(), 0
    try:
        for chunk in store.chunks(path):
            hasher.update(chunk)
            size += len(chunk)
            if size > expected.size:
                break
            yield chunk
    except NotFound as error:
        raise _missing(path, expected) from error
    found = FileRecord(size, f"{hasher.digest():016x}")
    if found != expected:
        raise _damaged(path, found, expected)


def check_file(store: Store, path: str, expected: FileRecord) -> None:
    """Read a file and verify every byte; `CorruptData` if it is missing or differs."""
    for _ in read_checked(store, path, expected):
        pass


def _missing(path: str, expected: FileRecord) -> CorruptData:
    return CorruptData(f"{path}: missing; it had {expected.size:,} bytes. Restore it from a copy")


def _damaged(path: str, found: FileRecord, expected: FileRecord) -> CorruptData:
    if found.size != expected.size:
        problem = f"its size is {found.size:,} instead of {expected.size:,} bytes"
    else:
        problem = f"its checksum is {found.checksum} instead of {expected.checksum}"
    return CorruptData(f"{path}: damaged or changed; {problem}. Restore it from a copy")
