"""Reading a local disk whose files may come from a stranger: only regular files, and never through a link. Also the
files of attributes, `@<version>`: a checksum, then the values as JSON.
"""

import errno
import json
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path

from samovar.config.records import read_object
from samovar.errors import BadPath, CorruptData
from samovar.native import hash_bytes
from samovar.store.base import Attributes, Json

MAX_ATTRIBUTE_BYTES = 16 << 20
_VERSION_NAME = re.compile("@[0-9]{12}")


def open_regular(path: Path) -> int:
    """Open a file for reading. A pipe or a device could block, or never end."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise BadPath(f"{path} is not a regular file") from error
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise BadPath(f"{path} is not a regular file")
    return descriptor


def size_of_tree(path: Path) -> int | None:
    """The size of a file, or of all files in a folder; None if it is gone."""
    try:
        if not path.is_dir() or path.is_symlink():
            return path.lstat().st_size
        return sum(size_of_tree(item) or 0 for item in path.iterdir())
    except FileNotFoundError:
        return None


def read_range(descriptor: int, start: int, stop: int | None) -> bytes:
    size = os.fstat(descriptor).st_size
    end = size if stop is None else min(stop, size)
    pieces = []
    while start < end and (piece := os.pread(descriptor, end - start, start)):
        pieces.append(piece)
        start += len(piece)
    return b"".join(pieces)


def version_name(version: int) -> str:
    return f"@{version:012d}"


def list_versions(folder: Path) -> list[int]:
    """The versions of attributes, sorted. Names of another form do not count."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    return sorted(int(name[1:]) for name in names if _VERSION_NAME.fullmatch(name))


def encode_attributes(values: Mapping[str, Json]) -> bytes:
    body = json.dumps(values, allow_nan=False, sort_keys=True).encode()
    return b"%016x\n%s\n" % (hash_bytes(body), body)


def read_attributes(path: Path, version: int) -> Attributes:
    try:
        descriptor = open_regular(path)
    except BadPath as error:
        raise CorruptData(f"{error}. Remove it to return to the previous state") from error
    try:
        size = os.fstat(descriptor).st_size
        if size > MAX_ATTRIBUTE_BYTES:
            raise CorruptData(
                f"{path}: {size:,} bytes, more than the limit of {MAX_ATTRIBUTE_BYTES:,}. Remove it to return to the "
                "previous state"
            )
        data = read_range(descriptor, 0, size)
    finally:
        os.close(descriptor)
    values = decode_attributes(data)
    if values is None:
        raise CorruptData(
            f"{path}: wrong checksum: the disk damaged the file. Remove it to return to the previous state"
        )
    return Attributes(version, read_object(values, str(path)))


def decode_attributes(data: bytes) -> bytes | None:
    """The values as JSON; None if they are damaged."""
    checksum, _, body = data.partition(b"\n")
    body = body.removesuffix(b"\n")
    return body if checksum == b"%016x" % hash_bytes(body) else None
