"""SHA-256 of every file in a folder, on all cores, and not again for files that did not change.

A file counts as unchanged when its size, both its times and its inode are those of the last time. One that was written
less than two seconds before it was read is not remembered: it could change again without its time moving.
"""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from samovar.errors import BadInput
from samovar.experiments.checksum_list import digest_of
from samovar.experiments.file_digests import DIGEST_BYTES, read_digests
from samovar.experiments.throwaway import keep_arrays, load_arrays
from samovar.native import FileList, list_files, stamps_of
from samovar.native.files import CTIME, SIZE

SETTLED_SECONDS = 2.0
_CACHE = "checksum-2"

Digests = NDArray[np.uint8]


@dataclass(frozen=True)
class _Part:
    """What lies in one folder, or one file."""

    prefix: str
    files: FileList
    digests: Digests
    whole: str | None
    """The digest of the list of these files, where it is known."""
    num_read: int

    def by_name(self) -> dict[str, str]:
        hexadecimal, width = self.digests.tobytes().hex(), 2 * DIGEST_BYTES
        return {
            f"{self.prefix}{name}": hexadecimal[width * number : width * (number + 1)]
            for number, name in enumerate(self.files.names)
        }


@dataclass(frozen=True)
class Checksums:
    parts: Sequence[_Part]

    @cached_property
    def digests(self) -> dict[str, str]:
        """By name: below the folder if one folder was named, else as written."""
        return {name: digest for part in self.parts for name, digest in part.by_name().items()}

    @property
    def digest(self) -> str:
        """One of all names and contents."""
        known = [part.whole for part in self.parts if not part.prefix and part.whole is not None]
        return known[0] if known else digest_of(self.digests)  # without a prefix it is the only part

    @property
    def num_files(self) -> int:
        return sum(len(part.files.ends) for part in self.parts)

    @property
    def num_bytes(self) -> int:
        return sum(int(part.files.stamps[:, SIZE].sum()) for part in self.parts)

    @property
    def num_read(self) -> int:
        """How many files were read; the others were known."""
        return sum(part.num_read for part in self.parts)


def compute_checksums(
    paths: Sequence[Path], use_cache: bool = True, settled_seconds: float = SETTLED_SECONDS
) -> Checksums:
    """Of files and of all that lies in folders."""
    parts = []
    for path in paths:
        files, root = _list(path)
        prefix = (
            "" if len(paths) == 1 and path.is_dir() else f"{path}/" if path.is_dir() else str(path.parent / "_")[:-1]
        )
        parts.append(_digest_all(prefix, files, root, use_cache, settled_seconds))
    return Checksums(parts)


def _list(path: Path) -> tuple[FileList, Path]:
    """The files, and the folder that their names start from."""
    try:
        if path.is_dir():
            files, odd = list_files(path)
            if odd:
                raise BadInput(
                    f"{path / odd[0]}: a link to a folder or to nothing, or no file at all ({len(odd)} such); expected "
                    "files: remove it, or name the folder that it leads to"
                )
            return files, path
        status = path.stat()
    except OSError as error:
        raise BadInput(f"{path}: {os.strerror(error.errno or 0)}; expected a file or a folder: check it") from None
    name = os.fsencode(path.name)
    return FileList(name, np.array([len(name)]), np.array([stamps_of(status)])), path.parent


def _digest_all(prefix: str, files: FileList, root: Path, use_cache: bool, settled_seconds: float) -> _Part:
    now = time.time_ns()
    key = os.fspath(root.resolve())
    digests = np.zeros((len(files.ends), DIGEST_BYTES), np.uint8)
    is_known, whole = _recall(files, key, digests) if use_cache else (np.zeros(len(digests), bool), None)
    missing = np.flatnonzero(~is_known)
    if not len(missing):
        return _Part(prefix, files, digests, whole, 0)
    digests[missing] = np.frombuffer(read_digests(root, files, missing), np.uint8).reshape(-1, DIGEST_BYTES)
    if use_cache:
        whole = digest_of(_Part("", files, digests, None, 0).by_name())
        is_settled = files.stamps[:, CTIME] < now - int(settled_seconds * 1e9)
        keep_arrays(
            _CACHE,
            key,
            {
                "blob": np.frombuffer(files.blob, np.uint8),
                "ends": files.ends,
                "stamps": np.where(is_settled[:, None], files.stamps, -1),
                "digests": digests,
                "whole": np.frombuffer(bytes.fromhex(whole), np.uint8),
            },
        )
    return _Part(prefix, files, digests, whole, len(missing))


def _recall(files: FileList, key: str, digests: Digests) -> tuple[NDArray[np.bool_], str | None]:
    """Fill in the digests that are known; says which, and the digest of the list if it is the same."""
    kept = load_arrays(_CACHE, key)
    is_known = np.zeros(len(digests), bool)
    if kept is None:
        return is_known, None
    if kept["blob"].tobytes() == files.blob and np.array_equal(kept["ends"], files.ends):
        is_known |= (kept["stamps"] == files.stamps).all(axis=1)
        digests[is_known] = kept["digests"][is_known]
        return is_known, kept["whole"].tobytes().hex()
    old = FileList(kept["blob"].tobytes(), kept["ends"], kept["stamps"])
    places = {name: number for number, name in enumerate(old.names)}
    for number, name in enumerate(files.names):
        place = places.get(name)
        if place is not None and np.array_equal(old.stamps[place], files.stamps[number]):
            digests[number] = kept["digests"][place]
            is_known[number] = True
    return is_known, None
