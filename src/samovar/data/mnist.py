"""MNIST, and every set of the same four files, from a folder. Fetches nothing."""

from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samovar.data.idx import read_idx
from samovar.errors import BadInput


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
