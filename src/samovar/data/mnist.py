"""MNIST, and every set of the same four files, from a folder. Fetches nothing.

IDX files, the format of MNIST: arrays of bytes or numbers, gzipped or not.

u8 0, u8 0, u8 element type, u8 number of dimensions | u32 big-endian size of each | elements, big-endian
"""

import gzip
import math
import struct
import zlib
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samovar.errors import BadInput, NotAResult

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


def _broken(path: Path, found: str) -> NotAResult:
    return NotAResult(f"{path}: {found}; expected a whole IDX file, gzipped or not: fetch it again")


class MNIST:
    """Images by id: those of the training part are 0, 1, …, those of the test part, if it is there, follow them."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).expanduser()

    @property
    def ids(self) -> range:
        """Of the training part."""
        return range(len(self._train[1]))

    @property
    def test_ids(self) -> range:
        first = len(self._train[1])
        return range(first, first + len(self._test[1]))

    def load_image(self, id: int) -> NDArray[np.float32]:
        """[1, 28, 28], from 0 to 1."""
        images, number = self._find(id, 0)
        image: NDArray[np.float32] = images[number][None].astype(np.float32) / np.float32(255)
        return image

    def load_label(self, id: int) -> int:
        """The digit."""
        labels, number = self._find(id, 1)
        return int(labels[number])

    def _find(self, number: int, which: int) -> tuple[NDArray[Any], int]:
        count = len(self._train[1])
        if 0 <= number < count:
            return self._train[which], number
        if count <= number < count + len(self._test[1]):
            return self._test[which], number - count
        raise BadInput(
            f"{self.path}: no image {number}; expected 0 to {count + len(self._test[1]) - 1}: take ids from `ids`"
        )

    @cached_property
    def _train(self) -> tuple[NDArray[Any], NDArray[Any]]:
        return self._read("train")

    @cached_property
    def _test(self) -> tuple[NDArray[Any], NDArray[Any]]:
        if self._path_of("t10k-images", "idx3") is None:
            images, labels = self._train
            return images[:0], labels[:0]
        return self._read("t10k")

    def _read(self, part: str) -> tuple[NDArray[Any], NDArray[Any]]:
        images = self._read_one(f"{part}-images", "idx3")
        labels = self._read_one(f"{part}-labels", "idx1")
        if len(images) != len(labels):
            raise BadInput(f"{self.path}: {len(images)} images and {len(labels)} labels; expected as many: fetch again")
        return images, labels

    def _read_one(self, stem: str, kind: str) -> NDArray[Any]:
        path = self._path_of(stem, kind)
        if path is None:
            raise BadInput(f"{self.path}: no {stem}-{kind}-ubyte or .gz in it; expected MNIST's files: check the path")
        return read_idx(path)

    def _path_of(self, stem: str, kind: str) -> Path | None:
        names = [f"{stem}{dot}{kind}-ubyte{ending}" for dot in "-." for ending in ("", ".gz")]
        return next((self.path / name for name in names if (self.path / name).is_file()), None)
