"""MNIST, and every data set of the same four files, from a folder. Downloads nothing.

An IDX file, gzipped or not:

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


class MNIST:
    """Images and labels by id, from a folder with MNIST's files.

    The folder holds `train-images-idx3-ubyte` and `train-labels-idx1-ubyte`, gzipped (`.gz`) or not, and optionally
    `t10k-images-idx3-ubyte` and `t10k-labels-idx1-ubyte`. Fashion-MNIST and others use the same names. Files are read
    on first use.

    Args:
        path: The folder; `~` is expanded.

    Attributes:
        path: The folder.
        ids: Ids of the training images: 0, 1, …
        test_ids: Ids of the test images, which follow them; empty without test files.

    Example:
        ```python
        from samovar.data import MNIST
        from samovar.functional.batch_iter import Infinite, load_by_random_id

        digits = MNIST("~/mnist")
        print(digits.load_image(digits.ids[0]).shape, digits.load_label(digits.ids[0]))
        batches = Infinite(
            load_by_random_id(digits.load_image, digits.load_label, ids=digits.ids),
            batch_size=64,
            n_iters_per_epoch=100,
        )
        ```
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).expanduser()

    @property
    def ids(self) -> range:
        """Ids of the training images."""
        return range(len(self._train[1]))

    @property
    def test_ids(self) -> range:
        """Ids of the test images."""
        first = len(self._train[1])
        return range(first, first + len(self._test[1]))

    def load_image(self, id: int) -> NDArray[np.float32]:
        """Load one image.

        Args:
            id: One of `ids` or `test_ids`.

        Returns:
            An array [1, 28, 28] of values from 0 to 1.

        Raises:
            BadInput: There is no such image, or no such file.
            NotAResult: A file is not in the IDX format.
        """
        images, position = self._find(id, 0)
        image: NDArray[np.float32] = images[position][None].astype(np.float32) / np.float32(255)
        return image

    def load_label(self, id: int) -> int:
        """Load the digit in one image.

        Args:
            id: One of `ids` or `test_ids`.

        Returns:
            A number from 0 to 9.

        Raises:
            BadInput: There is no such image, or no such file.
            NotAResult: A file is not in the IDX format.
        """
        labels, position = self._find(id, 1)
        return int(labels[position])

    def _find(self, id: int, which: int) -> tuple[NDArray[Any], int]:
        num_train = len(self._train[1])
        if 0 <= id < num_train:
            return self._train[which], id
        num_images = num_train + len(self._test[1])
        if num_train <= id < num_images:
            return self._test[which], id - num_train
        raise BadInput(f"{self.path}: no image {id}. Available: 0 to {num_images - 1}")

    @cached_property
    def _train(self) -> tuple[NDArray[Any], NDArray[Any]]:
        return self._read("train")

    @cached_property
    def _test(self) -> tuple[NDArray[Any], NDArray[Any]]:
        if self._find_file("t10k-images", "idx3") is None:
            images, labels = self._train
            return images[:0], labels[:0]
        return self._read("t10k")

    def _read(self, part: str) -> tuple[NDArray[Any], NDArray[Any]]:
        images = self._read_file(f"{part}-images", "idx3")
        labels = self._read_file(f"{part}-labels", "idx1")
        if len(images) != len(labels):
            raise BadInput(f"{self.path}: {len(images)} {part} images but {len(labels)} labels")
        return images, labels

    def _read_file(self, stem: str, kind: str) -> NDArray[Any]:
        path = self._find_file(stem, kind)
        if path is None:
            raise BadInput(f"{self.path}: no file {stem}-{kind}-ubyte or {stem}-{kind}-ubyte.gz")
        return read_idx(path)

    def _find_file(self, stem: str, kind: str) -> Path | None:
        names = [f"{stem}{dot}{kind}-ubyte{ending}" for dot in "-." for ending in ("", ".gz")]
        return next((self.path / name for name in names if (self.path / name).is_file()), None)


def read_idx(path: Path) -> NDArray[Any]:
    """Read the array in one file."""
    data = path.read_bytes()
    if data[:2] == b"\x1f\x8b":
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            raise _bad_file(path, f"cannot be unpacked: {error}") from error
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] not in _TYPES:
        raise _bad_file(path, f"starts with {data[:4].hex() or 'nothing'}")
    start = 4 + 4 * data[3]
    if len(data) < start:
        raise _bad_file(path, "ends inside its header")
    shape = struct.unpack(f">{data[3]}I", data[4:start])
    dtype = np.dtype(_TYPES[data[2]])
    if len(data) - start != math.prod(shape) * dtype.itemsize:
        raise _bad_file(path, f"has {len(data) - start} bytes for an array of shape {list(shape)}")
    return np.frombuffer(data, dtype, offset=start).reshape(shape)


def _bad_file(path: Path, problem: str) -> NotAResult:
    return NotAResult(f"{path}: not a complete IDX file, it {problem}")
