"""Files of any place, opened for reading: local ones as they are, those of an object store by ranges. For files that
others wrote, such as raw rows; the files of a result are read through its store.
"""

import io
from typing import BinaryIO, cast

from samovar.config.places import Place, Url
from samovar.errors import NotFound
from samovar.store.base import Store
from samovar.store.open import open_store

_RANGE_BYTES = 8 << 20  # a request takes as long as some hundred kilobytes


def open_file(place: Place) -> BinaryIO:
    """Open a file for reading.

    Raises:
        FileNotFoundError: There is no local file.
        NotFound: There is no object.
    """
    if not isinstance(place, Url):
        return place.open("rb")
    return cast(BinaryIO, io.BufferedReader(_RangeFile(open_store(place.parent), place.name), _RANGE_BYTES))


def size_of(place: Place) -> int:
    """The size of a file in bytes."""
    return place.stat().st_size if not isinstance(place, Url) else _size(open_store(place.parent), place.name)


def _size(store: Store, path: str) -> int:
    size = store.size(path)
    if size is None:
        raise NotFound(f"{store.name}/{path}: no such file")
    return size


class _RangeFile(io.RawIOBase):
    """A file of a store, of which each read is one request."""

    def __init__(self, store: Store, path: str) -> None:
        self._store = store
        self._path = path
        self._size = _size(store, path)
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        if start + offset < 0:
            raise ValueError(f"negative position {start + offset}")
        self._position = start + offset
        return self._position

    def readinto(self, buffer: "memoryview | bytearray") -> int:  # type: ignore[override]  # the buffers that occur
        stop = min(self._size, self._position + len(buffer))
        if stop <= self._position:
            return 0
        data = self._store.read(self._path, self._position, stop)
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)
