from pathlib import Path

import numpy as np
import pytest

from samovar.data import MNIST
from samovar.errors import BadInput, NotAResult


def test_images_and_labels_are_found_by_id(mnist_path: Path) -> None:
    dataset = MNIST(mnist_path)
    image = dataset.load_image(dataset.ids[3])
    assert image.shape == (1, 28, 28)
    assert image.dtype == np.float32
    assert image.min() == 0
    assert 0.9 < image.max() <= 1
    assert [dataset.load_label(i) for i in dataset.ids[:5]] == [0, 1, 2, 3, 4]
    assert dataset.ids == range(1500)
    assert dataset.load_label(dataset.test_ids[-1]) == 8


def test_errors_name_the_missing_image_or_the_bad_file(mnist_path: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no image 5000"):
        MNIST(mnist_path).load_image(5000)
    with pytest.raises(BadInput, match="train-images-idx3-ubyte"):
        _ = MNIST(tmp_path).ids
    for data in (b"", b"\0\0\x07\x01", b"\0\0\x08\x01\0\0\0\x09abc", b"\x1f\x8bnot gzip"):
        (tmp_path / "train-images-idx3-ubyte").write_bytes(data)
        with pytest.raises(NotAResult, match="IDX"):
            _ = MNIST(tmp_path).ids
