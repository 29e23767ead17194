"""SHA-256 of every file in a folder, on all cores, skipping files that have not changed; and lists of checksums as
sha256sum writes them.

A file is unchanged if its size, both its times and its inode are. A file written less than two seconds before it was
read is not remembered: it could change again without its time moving.
"""

import hashlib
import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from samovar.config.places import PathLike, Url, as_place, suggest_path
from samovar.config.records import read_regular
from samovar.errors import AlreadyExists, BadInput, StoreError
from samovar.native import FileList, list_files, stamps_of
from samovar.native.files import CTIME, NUM_STAMPS, SIZE
from samovar.runs.cache import Change, read_rows, write_rows
from samovar.runs.parallel import map_many
from samovar.store import Store, open_store
from samovar.store.disk import publish

SETTLED_SECONDS = 2.0
DIGEST_BYTES = 32
_BLOCK_BYTES = 1 << 20
_HEAVY_BYTES = 64 << 20  # from here on, even two files are worth two processes
_MIN_FILES_TO_FORK = 500
_MAX_GROUP_SIZE = 16
_THREADS = 16  # that wait for an object store

Digests = NDArray[np.uint8]


@dataclass(frozen=True)
class _Part:
    """The files of one folder, or one file."""

    prefix: str
    files: FileList
    digests: Digests
    list_digest: str | None
    """The digest of the list of these files, if known."""
    num_read: int

    def by_name(self) -> dict[str, str]:
        hexadecimal, width = self.digests.tobytes().hex(), 2 * DIGEST_BYTES
        return {
            f"{self.prefix}{name}": hexadecimal[width * number : width * (number + 1)]
            for number, name in enumerate(self.files.names)
        }


@dataclass(frozen=True)
class Checksums:
    """The SHA-256 of files: what `checksum` returns.

    Example:
        >>> checksum("data").num_files
        1
    """

    parts: Sequence[_Part]
    """The files of each path that was given."""

    @cached_property
    def digests(self) -> dict[str, str]:
        """By name: relative to the folder if only one folder was given, else as written."""
        return {name: digest for part in self.parts for name, digest in part.by_name().items()}

    @property
    def digest(self) -> str:
        """One digest of all names and contents."""
        known = [part.list_digest for part in self.parts if not part.prefix and part.list_digest is not None]
        return known[0] if known else digest_of(self.digests)  # a part without a prefix is the only part

    @property
    def num_files(self) -> int:
        """How many files there are."""
        return sum(len(part.files.ends) for part in self.parts)

    @property
    def num_bytes(self) -> int:
        """How large they are together."""
        return sum(int(part.files.stamps[:, SIZE].sum()) for part in self.parts)

    @property
    def num_read(self) -> int:
        """How many files were read; the others were known."""
        return sum(part.num_read for part in self.parts)


def checksum(
    paths: PathLike | Iterable[PathLike], *, use_cache: bool = True, settled_seconds: float = SETTLED_SECONDS
) -> Checksums:
    """Compute the checksums of files, and of all files in folders.

    Args:
        paths: Files and folders. Of a URL: all files of that directory, which are read each time.
        use_cache: Skip files whose checksum is known, and remember the others.
        settled_seconds: How old a change must be for a file to be remembered.

    Returns:
        One digest of everything, and one per file.

    Raises:
        BadInput: A path does not exist, or a folder holds something other than files and folders.
        StoreError: A file cannot be read, or changes while it is read.

    Example:
        >>> before = checksum("data")
        >>> before.num_files, sorted(before.digests)
        (1, ['clicks.csv'])
        >>> write_list("data.sha256", before.digests)
        >>> find_changes(read_list("data.sha256"), checksum("data").digests)
        Changes(changed=[], new=[], removed=[])
    """
    given = [as_place(paths)] if isinstance(paths, str | os.PathLike | Url) else [as_place(path) for path in paths]
    parts = []
    for path in given:
        if isinstance(path, Url):
            parts.append(_compute_remote("" if len(given) == 1 else f"{path}/", path))
            continue
        files, root = _list(path)
        prefix = (
            "" if len(given) == 1 and path.is_dir() else f"{path}/" if path.is_dir() else str(path.parent / "_")[:-1]
        )
        parts.append(_compute_part(prefix, files, root, use_cache, settled_seconds))
    return Checksums(parts)


def _compute_remote(prefix: str, place: Url) -> _Part:
    """The files of an object store. Their tags differ between servers, so none is taken for a checksum."""
    store = open_store(place)
    entries = store.list()
    if not entries:
        raise BadInput(f"{place}: no files")
    with ThreadPoolExecutor(_THREADS) as threads:
        digests = b"".join(threads.map(lambda entry: _digest_remote(store, entry.path), entries))
    names = [os.fsencode(entry.path) for entry in entries]
    stamps = np.zeros((len(entries), NUM_STAMPS), np.int64)
    stamps[:, SIZE] = [entry.size for entry in entries]
    files = FileList(b"".join(names), np.cumsum([len(name) for name in names]), stamps)
    return _Part(prefix, files, np.frombuffer(digests, np.uint8).reshape(-1, DIGEST_BYTES), None, len(entries))


def _digest_remote(store: Store, path: str) -> bytes:
    hasher = hashlib.sha256()
    for chunk in store.chunks(path):
        hasher.update(chunk)
    return hasher.digest()


def _list(path: Path) -> tuple[FileList, Path]:
    """The files, and the folder that their names are relative to."""
    try:
        if path.is_dir():
            files, odd = list_files(path)
            if odd:
                more = f" ({len(odd)} such entries)" if len(odd) > 1 else ""
                raise BadInput(f"{path / odd[0]}: neither a file nor a folder, or a broken link{more}. Remove it")
            return files, path
        status = path.stat()
    except OSError as error:
        hint = "" if path.exists() else suggest_path(path, is_folder=None)
        raise BadInput(f"{path}: {error.strerror or error}{hint}") from None
    name = os.fsencode(path.name)
    return FileList(name, np.array([len(name)]), np.array([stamps_of(status)])), path.parent


def _compute_part(prefix: str, files: FileList, root: Path, use_cache: bool, settled_seconds: float) -> _Part:
    now = time.time_ns()
    folder = os.fsencode(root.resolve())
    digests = np.zeros((len(files.ends), DIGEST_BYTES), np.uint8)
    is_known, list_digest = _recall(files, folder, digests) if use_cache else (np.zeros(len(digests), bool), None)
    missing = np.flatnonzero(~is_known)
    if not len(missing):
        return _Part(prefix, files, digests, list_digest, 0)
    digests[missing] = np.frombuffer(read_digests(root, files, missing), np.uint8).reshape(-1, DIGEST_BYTES)
    if use_cache:
        list_digest = digest_of(_Part("", files, digests, None, 0).by_name())
        is_settled = files.stamps[:, CTIME] < now - int(settled_seconds * 1e9)
        stamps = np.where(is_settled[:, None], files.stamps, -1)
        row = (folder, files.blob, files.ends.tobytes(), stamps.tobytes(), digests.tobytes(), list_digest)
        write_rows(_TABLE, [Change(_INSERT, [row])])
    return _Part(prefix, files, digests, list_digest, len(missing))


# The number is the format: another version's table is left alone. One row per folder, because a hundred thousand files
# are compared as arrays.
_TABLE = """
CREATE TABLE IF NOT EXISTS checksums_1 (
    folder BLOB PRIMARY KEY, names BLOB, ends BLOB, stamps BLOB, digests BLOB, list_digest TEXT
)
"""
_SELECT = "SELECT names, ends, stamps, digests, list_digest FROM checksums_1 WHERE folder = ?"
_INSERT = "INSERT OR REPLACE INTO checksums_1 VALUES (?, ?, ?, ?, ?, ?)"


def _recall(files: FileList, folder: bytes, digests: Digests) -> tuple[NDArray[np.bool_], str | None]:
    """Fill in the known digests; return which are known, and the digest of the list if its names are the same."""
    is_known = np.zeros(len(digests), bool)
    rows = read_rows(_TABLE, _SELECT, (folder,))
    if not rows:
        return is_known, None
    [(names, ends, stamps, old_digests, list_digest)] = rows
    old = FileList(names, np.frombuffer(ends, np.int64), np.frombuffer(stamps, np.int64).reshape(-1, NUM_STAMPS))
    kept = np.frombuffer(old_digests, np.uint8).reshape(-1, DIGEST_BYTES)
    if old.blob == files.blob and np.array_equal(old.ends, files.ends):
        is_known |= (old.stamps == files.stamps).all(axis=1)
        digests[is_known] = kept[is_known]
        return is_known, list_digest
    places = {name: number for number, name in enumerate(old.names)}
    for number, name in enumerate(files.names):
        place = places.get(name)
        if place is not None and np.array_equal(old.stamps[place], files.stamps[number]):
            digests[number] = kept[place]
            is_known[number] = True
    return is_known, None


class _Group(NamedTuple):
    """Some files in few objects, because they go to another process."""

    root: bytes
    names: bytes
    stamps: bytes


def read_digests(root: Path, files: FileList, wanted: NDArray[np.intp]) -> bytes:
    """The digests of the files with these numbers, end to end. All files must still be as they were listed."""
    starts = np.concatenate([[0], files.ends[:-1]])
    names = [files.blob[a:b] for a, b in zip(starts[wanted].tolist(), files.ends[wanted].tolist(), strict=True)]
    stamps = files.stamps[wanted]
    size = max(1, min(_MAX_GROUP_SIZE, len(names) // 64))  # reading one small file costs less than handing it over
    folder = os.fsencode(root)
    groups = [
        _Group(folder, b"\0".join(names[first : first + size]), stamps[first : first + size].tobytes())
        for first in range(0, len(names), size)
    ]
    is_heavy = int(stamps[:, SIZE].sum()) >= _HEAVY_BYTES
    return b"".join(map_many(_read_group, groups, 2 if is_heavy else _MIN_FILES_TO_FORK // size))


def _read_group(group: _Group) -> bytes:
    stamps = np.frombuffer(group.stamps, np.int64).reshape(-1, NUM_STAMPS).tolist()
    names = group.names.split(b"\0")
    return b"".join(_digest(group.root + b"/" + name, tuple(each)) for name, each in zip(names, stamps, strict=True))


def _digest(path: bytes, stamps: tuple[int, ...]) -> bytes:
    """The digest of a file that is as it was listed, before and after it is read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            # One byte more than there is: most files take one read, and no second read is needed to see their end.
            block_size = min(_BLOCK_BYTES, stamps[SIZE] + 1)
            block = os.read(descriptor, block_size)
            hasher = hashlib.sha256(block)
            while len(block) == block_size and (block := os.read(descriptor, block_size)):
                hasher.update(block)
            after = stamps_of(os.fstat(descriptor))
        finally:
            os.close(descriptor)
    except OSError as error:
        raise StoreError(f"{os.fsdecode(path)}: cannot be read: {error.strerror}") from None
    if after != stamps:
        raise StoreError(f"{os.fsdecode(path)}: changed while it was read. Try again when nothing writes to it")
    return hasher.digest()


_MAX_LIST_BYTES = 1 << 30
_LINE = re.compile(rb"(\\?)([0-9a-f]{64}) [ *](.+)")
_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r"})
_SPECIAL = re.compile(r"[\\\n\r]")
_ESCAPED = re.compile(r"\\(.)")
_UNESCAPED = {"\\": "\\", "n": "\n", "r": "\r"}


@dataclass(frozen=True)
class Changes:
    """The names of files that differ between two lists. It is true if there are any.

    Example:
        >>> changes = find_changes({"a": "1", "b": "2"}, {"a": "3", "c": "2"})
        >>> bool(changes), changes.new
        (True, ['c'])
    """

    changed: list[str]
    """Those with another digest."""
    new: list[str]
    """Those that only the later list has."""
    removed: list[str]
    """Those that only the earlier list has."""

    def __bool__(self) -> bool:
        return bool(self.changed or self.new or self.removed)


def find_changes(old: Mapping[str, str], new: Mapping[str, str]) -> Changes:
    """Compare two lists of checksums.

    Args:
        old: Digests by name, as `Checksums.digests` and `read_list` give them.
        new: The same, later.

    Returns:
        The names that changed, are new, and are gone.

    Example:
        >>> find_changes({"a": "1", "b": "2"}, {"a": "3", "c": "2"})
        Changes(changed=['a'], new=['c'], removed=['b'])
    """
    return Changes(
        sorted(name for name in old.keys() & new.keys() if old[name] != new[name]),
        sorted(new.keys() - old.keys()),
        sorted(old.keys() - new.keys()),
    )


def digest_of(digests: Mapping[str, str]) -> str:
    """One digest of all names and contents: that of the list."""
    return hashlib.sha256(to_text(digests)).hexdigest()


def to_text(digests: Mapping[str, str]) -> bytes:
    """One line per file: `<digest>  <name>`. Names with a line break or backslash are escaped, as sha256sum does."""
    if not _SPECIAL.search("".join(digests)):
        return os.fsencode("".join([f"{digest}  {name}\n" for name, digest in digests.items()]))
    lines = []
    for name, digest in digests.items():
        mark = "\\" if _SPECIAL.search(name) else ""
        lines.append(f"{mark}{digest}  {name.translate(_ESCAPES)}\n")
    return os.fsencode("".join(lines))


def write_list(path: str | Path, digests: Mapping[str, str]) -> None:
    """Write a list of checksums, as sha256sum does.

    Args:
        path: A new file. An old list is never overwritten: later ones are compared with it.
        digests: Digests by name.

    Raises:
        BadInput: The file exists or cannot be written.

    Example:
        >>> write_list("data.sha256", checksum("data").digests)
    """
    try:
        with publish(Path(path), replace=False) as file:
            file.write(to_text(digests))
    except AlreadyExists:
        raise BadInput(f"{path} already exists. Choose another name, or remove it first") from None
    except StoreError as error:
        raise BadInput(str(error)) from None


def read_list(path: str | Path) -> dict[str, str]:
    """Read a list that `write_list` or sha256sum wrote.

    Args:
        path: The list.

    Returns:
        Digests by name.

    Raises:
        BadInput: The file cannot be read, or is not such a list.

    Example:
        >>> write_list("data.sha256", checksum("data").digests)
        >>> read_list("data.sha256") == checksum("data").digests
        True
    """
    path = Path(path)
    try:
        data = read_regular(path, _MAX_LIST_BYTES)
    except OSError as error:
        hint = "" if path.exists() else suggest_path(path)
        raise BadInput(f"{path}: cannot read the list: {error.strerror}{hint}") from None
    digests = {}
    for number, line in enumerate(data.splitlines(), 1):
        form = _LINE.fullmatch(line)
        if form is None:
            text = line[:60].decode(errors="replace")
            raise BadInput(f"{path}, line {number}: not a SHA-256 and a file name, as sha256sum writes them: {text!r}")
        name = os.fsdecode(form[3])
        digests[_ESCAPED.sub(_unescape, name) if form[1] else name] = form[2].decode()
    return digests


def _unescape(found: re.Match[str]) -> str:
    return _UNESCAPED.get(found[1], found[0])
