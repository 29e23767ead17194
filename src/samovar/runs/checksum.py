"""SHA-256 of every file in a folder, on all cores, and not again for files that did not change.

A file counts as unchanged when its size, both its times and its inode are those of the last time. One that was written
less than two seconds before it was read is not remembered: it could change again without its time moving.

SHA-256 of listed files, read on all cores. Remembers nothing.

Lists of checksums as sha256sum writes and checks them, and what differs between two. Reads none of the files.
"""

import hashlib
import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from samovar.errors import AlreadyExists, BadInput, StoreError
from samovar.native import FileList, list_files, stamps_of
from samovar.native.files import CTIME, NUM_STAMPS, SIZE
from samovar.runs.index import keep_arrays, load_arrays, map_many
from samovar.store.disk import publish

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


_LINE = re.compile(rb"(\\?)([0-9a-f]{64}) [ *](.+)")
_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r"})
_SPECIAL = re.compile(r"[\\\n\r]")
_ESCAPED = re.compile(r"\\(.)")
_MEANINGS = {"\\": "\\", "n": "\n", "r": "\r"}


@dataclass(frozen=True)
class Changes:
    changed: list[str]
    new: list[str]
    removed: list[str]

    def __bool__(self) -> bool:
        return bool(self.changed or self.new or self.removed)


def to_text(digests: Mapping[str, str]) -> bytes:
    """A line a file: `<digest>  <name>`. A name with a line break or backslash is escaped, as sha256sum does it."""
    if not _SPECIAL.search("".join(digests)):
        return os.fsencode("".join([f"{digest}  {name}\n" for name, digest in digests.items()]))
    lines = []
    for name, digest in digests.items():
        mark = "\\" if _SPECIAL.search(name) else ""
        lines.append(f"{mark}{digest}  {name.translate(_ESCAPES)}\n")
    return os.fsencode("".join(lines))


def digest_of(digests: Mapping[str, str]) -> str:
    """One digest of all names and contents: that of the list itself."""
    return hashlib.sha256(to_text(digests)).hexdigest()


def write_list(path: Path, digests: Mapping[str, str]) -> None:
    """A list is never overwritten: it is what later ones are compared with."""
    try:
        with publish(path, replace=False) as file:
            file.write(to_text(digests))
    except AlreadyExists:
        raise BadInput(f"{path}: exists already; expected a new name: give another, or remove it first") from None
    except StoreError as error:
        raise BadInput(str(error)) from None


def read_list(path: Path) -> dict[str, str]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}; expected a list that --save or sha256sum wrote: check it") from None
    digests = {}
    for number, line in enumerate(data.splitlines(), 1):
        form = _LINE.fullmatch(line)
        if form is None:
            raise BadInput(
                f"{path}, line {number}: found {line[:60].decode(errors='replace')!r}; expected a SHA-256 and a name, "
                "as --save or sha256sum writes them: make the list again"
            )
        name = os.fsdecode(form[3])
        digests[_ESCAPED.sub(_unescape, name) if form[1] else name] = form[2].decode()
    return digests


def _unescape(found: re.Match[str]) -> str:
    return _MEANINGS.get(found[1], found[0])


def find_changes(old: Mapping[str, str], new: Mapping[str, str]) -> Changes:
    return Changes(
        sorted(name for name in old.keys() & new.keys() if old[name] != new[name]),
        sorted(new.keys() - old.keys()),
        sorted(old.keys() - new.keys()),
    )


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
