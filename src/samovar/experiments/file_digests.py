"""SHA-256 of listed files, read on all cores. Remembers nothing."""

import hashlib
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from samovar.errors import StoreError
from samovar.experiments.parallel import map_many
from samovar.native import FileList, stamps_of
from samovar.native.files import NUM_STAMPS, SIZE

DIGEST_BYTES = 32
_BLOCK_BYTES = 1 << 20
_HEAVY_BYTES = 64 << 20  # from here on even two files are worth two processes
_LEAST_TO_SHARE = 500
_MOST_IN_GROUP = 16


class _Group(NamedTuple):
    """Some files, in few objects: they go to another process."""

    root: bytes
    names: bytes
    stamps: bytes


def read_digests(root: Path, files: FileList, wanted: NDArray[np.intp]) -> bytes:
    """Of the files with these numbers, end to end. All of them must be as they were listed."""
    starts = np.concatenate([[0], files.ends[:-1]])
    names = [files.blob[a:b] for a, b in zip(starts[wanted].tolist(), files.ends[wanted].tolist(), strict=True)]
    stamps = files.stamps[wanted]
    size = max(1, min(_MOST_IN_GROUP, len(names) // 64))  # a small file alone costs less than to hand it over
    folder = os.fsencode(root)
    groups = [
        _Group(folder, b"\0".join(names[first : first + size]), stamps[first : first + size].tobytes())
        for first in range(0, len(names), size)
    ]
    is_heavy = int(stamps[:, SIZE].sum()) >= _HEAVY_BYTES
    return b"".join(map_many(_read_group, groups, 2 if is_heavy else _LEAST_TO_SHARE // size))


def _read_group(group: _Group) -> bytes:
    stamps = np.frombuffer(group.stamps, np.int64).reshape(-1, NUM_STAMPS).tolist()
    names = group.names.split(b"\0")
    return b"".join(_digest(group.root + b"/" + name, tuple(each)) for name, each in zip(names, stamps, strict=True))


def _digest(path: bytes, stamps: tuple[int, ...]) -> bytes:
    """Of a file that is still the one that was listed, also after it was read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            # One byte more than there is: most files are read at once, and then no second reading says that they end.
            most = min(_BLOCK_BYTES, stamps[SIZE] + 1)
            block = os.read(descriptor, most)
            hasher = hashlib.sha256(block)
            while len(block) == most and (block := os.read(descriptor, most)):
                hasher.update(block)
            after = stamps_of(os.fstat(descriptor))
        finally:
            os.close(descriptor)
    except OSError as error:
        raise StoreError(
            f"{os.fsdecode(path)}: {error.strerror} while it was read; expected a file: look at it, and begin again"
        ) from None
    if after != stamps:
        raise StoreError(
            f"{os.fsdecode(path)}: changed while it was read; expected files at rest: wait for who writes, and begin "
            "again"
        )
    return hasher.digest()
