"""IDX files, the format of MNIST: arrays of bytes or numbers, gzipped or not.

u8 0, u8 0, u8 element type, u8 number of dimensions | u32 big-endian size of each | elements, big-endian
"""

import gzip
import math
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samovar.errors import NotOurs

_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def read_idx(path: Path) -> NDArray[Any]:
    """The array of one file."""
    data = path.read_bytes()
    if data[:2] == b"\x1f\x8b":
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            raise _broken(path, f"cannot be unpacked ({error})") from error
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] not in _TYPES:
        raise _broken(path, f"begins with {data[:4].hex() or 'nothing'}")
    start = 4 + 4 * data[3]
    if len(data) < start:
        raise _broken(path, "ends inside its header")
    shape = struct.unpack(f">{data[3]}I", data[4:start])
    dtype = np.dtype(_TYPES[data[2]])
    if len(data) - start != math.prod(shape) * dtype.itemsize:
        raise _broken(path, f"has {len(data) - start} bytes for an array of the shape {list(shape)}")
    return np.frombuffer(data, dtype, offset=start).reshape(shape)


def _broken(path: Path, found: str) -> NotOurs:
    return NotOurs(f"{path}: {found}; expected a whole IDX file, gzipped or not: fetch it again")
