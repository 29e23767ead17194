"""Files: all below a folder, with stamps that show a change; and one mapped into memory."""

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samovar import _native

NUM_STAMPS = 4
SIZE, CTIME = 0, 2


@dataclass(frozen=True)
class FileList:
    """The files below a folder."""

    blob: bytes
    """Paths below the folder, end to end, in the order of their bytes."""
    ends: NDArray[np.int64]
    stamps: NDArray[np.int64]
    """[files, 4]: size, mtime and ctime in nanoseconds, inode."""

    @property
    def names(self) -> list[str]:
        start, names = 0, []
        for end in self.ends.tolist():
            names.append(os.fsdecode(self.blob[start:end]))
            start = end
        return names


def list_files(root: str | os.PathLike[str]) -> tuple[FileList, list[str]]:
    """The files, including links to files, and the names of what is neither file nor folder. `OSError` if a folder
    cannot be read."""
    blob, ends, stamps, odd = _native.list_files(os.fsencode(root))
    stamped = np.asarray(stamps, np.int64).reshape(-1, NUM_STAMPS)
    return FileList(blob, np.asarray(ends, np.int64), stamped), [os.fsdecode(name) for name in odd]


def stamps_of(status: Any) -> tuple[int, int, int, int]:
    """The same stamps from the result of `os.stat`."""
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


def map_file(descriptor: int, name: str) -> memoryview:
    """The bytes of a file that is not empty, private and writable. `OSError` if it cannot be mapped.

    If another process cuts the file, reading past its new end prints which file was cut and ends this process."""
    return _native.map_file(descriptor, os.fstat(descriptor).st_size, os.fsencode(name)).data
