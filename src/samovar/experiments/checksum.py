"""SHA-256 of every file in a folder, on all cores, and not again for files that did not change.

A file counts as unchanged when its size, both its times and its inode are those of the last time. One that was written
less than two seconds before it was read is not remembered: it could change again without its time moving.
"""

import hashlib
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from samovar.errors import BadInput, StoreError
from samovar.experiments.parallel import map_many
from samovar.experiments.throwaway import keep_arrays, load_arrays
from samovar.native import FileList, list_files, stamps_of
from samovar.native.files import CTIME, SIZE

SETTLED_SECONDS = 2.0
_CACHE = "checksum-1"
_BLOCK_BYTES = 1 << 20
_HEAVY_BYTES = 64 << 20  # from here on even two files are worth two processes
_DIGEST_BYTES = 32

Digests = NDArray[np.uint8]


@dataclass(frozen=True)
class Checksums:
    digests: dict[str, str]
    """By name: below the folder if one folder was named, else as written."""
    num_bytes: int
    num_read: int
    """How many files were read; the others were known."""


def compute_checksums(
    paths: Sequence[Path], use_cache: bool = True, settled_seconds: float = SETTLED_SECONDS
) -> Checksums:
    """Of files and of all that lies in folders."""
    digests: dict[str, str] = {}
    num_bytes = num_read = 0
    for path in paths:
        files, root = _list(path)
        found, num_of_these = _digest_all(files, root, use_cache, settled_seconds)
        num_bytes += int(files.stamps[:, SIZE].sum())
        num_read += num_of_these
        prefix = (
            "" if len(paths) == 1 and path.is_dir() else f"{path}/" if path.is_dir() else str(path.parent / "_")[:-1]
        )
        hexadecimal = found.tobytes().hex()
        width = 2 * _DIGEST_BYTES
        digests |= {
            f"{prefix}{name}": hexadecimal[width * number : width * (number + 1)]
            for number, name in enumerate(files.names)
        }
    return Checksums(digests, num_bytes, num_read)


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


def _digest_all(files: FileList, root: Path, use_cache: bool, settled_seconds: float) -> tuple[Digests, int]:
    now = time.time_ns()
    key = os.fspath(root.resolve())
    digests = np.zeros((len(files.ends), _DIGEST_BYTES), np.uint8)
    is_known = _recall(files, key, digests) if use_cache else np.zeros(len(digests), bool)
    missing = np.flatnonzero(~is_known)
    if len(missing):
        names = files.names
        items = [(str(root / names[number]), tuple(files.stamps[number].tolist())) for number in missing.tolist()]
        is_heavy = int(files.stamps[missing, SIZE].sum()) >= _HEAVY_BYTES
        found = map_many(_digest, items, 2 if is_heavy else 500)
        digests[missing] = np.frombuffer(b"".join(found), np.uint8).reshape(-1, _DIGEST_BYTES)
        if use_cache:
            is_settled = files.stamps[:, CTIME] < now - int(settled_seconds * 1e9)
            keep_arrays(
                _CACHE,
                key,
                {
                    "blob": np.frombuffer(files.blob, np.uint8),
                    "ends": files.ends,
                    "stamps": np.where(is_settled[:, None], files.stamps, -1),
                    "digests": digests,
                },
            )
    return digests, len(missing)


def _recall(files: FileList, key: str, digests: Digests) -> NDArray[np.bool_]:
    """Fill in the digests that are known; says which."""
    kept = load_arrays(_CACHE, key)
    is_known = np.zeros(len(digests), bool)
    if kept is None:
        return is_known
    if kept["blob"].tobytes() == files.blob and np.array_equal(kept["ends"], files.ends):
        is_known |= (kept["stamps"] == files.stamps).all(axis=1)
        digests[is_known] = kept["digests"][is_known]
        return is_known
    old = FileList(kept["blob"].tobytes(), kept["ends"], kept["stamps"])
    places = {name: number for number, name in enumerate(old.names)}
    for number, name in enumerate(files.names):
        place = places.get(name)
        if place is not None and np.array_equal(old.stamps[place], files.stamps[number]):
            digests[number] = kept["digests"][place]
            is_known[number] = True
    return is_known


def _digest(item: tuple[str, tuple[int, ...]]) -> bytes:
    """Of a file that is still the one that was listed, also after it was read."""
    path, stamps = item
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            hasher = hashlib.sha256()
            while block := os.read(descriptor, _BLOCK_BYTES):
                hasher.update(block)
            after = stamps_of(os.fstat(descriptor))
        finally:
            os.close(descriptor)
    except OSError as error:
        raise StoreError(
            f"{path}: {error.strerror} while it was read; expected a file: look at it, and begin again"
        ) from None
    if after != stamps:
        raise StoreError(
            f"{path}: changed while it was read; expected files at rest: wait for who writes, and begin again"
        )
    return hasher.digest()
