"""Hypothesis settings, and a folder for tests that write many files."""

import gzip
import shutil
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from samovar.testing.object_servers import ObjectServer, azurite, make_container, running, seaweedfs

# A busy machine makes any example slow, so there is no deadline.
settings.register_profile("no_deadline", deadline=None)
settings.load_profile("no_deadline")

_MEMORY = Path("/dev/shm")


@pytest.fixture
def quick_path(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory if there is one: training writes many small files, and most tests need no durable disk."""
    if not _MEMORY.is_dir():
        yield tmp_path
        return
    folder = Path(tempfile.mkdtemp(prefix="samovar-test-", dir=_MEMORY))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def seaweed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectServer]:
    with running(seaweedfs(tmp_path_factory.mktemp("seaweedfs"))) as server:
        yield server


@pytest.fixture
def s3(seaweed: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> ObjectServer:
    """A real S3 server with a bucket, which this process and its children find."""
    for name, value in seaweed.environ().items():
        monkeypatch.setenv(name, value)
    return seaweed


AZURITE = Path(__file__).parents[1] / "build/azurite/node_modules/.bin/azurite-blob"


@pytest.fixture(scope="session")
def azurite_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectServer]:
    if not AZURITE.exists() and shutil.which("npm") is None:
        pytest.skip("npm is missing, so Azurite cannot be installed: AZURE IS NOT TESTED")
    assert AZURITE.exists(), "Azurite is not installed. Type: make build/azurite/installed"
    with running(azurite(tmp_path_factory.mktemp("azurite"), AZURITE)) as server:
        make_container(server)
        yield server


@pytest.fixture
def azure(azurite_server: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> ObjectServer:
    """A real server of Azure's protocol with a container, which this process and its children find."""
    for name, value in azurite_server.environ().items():
        monkeypatch.setenv(name, value)
    return azurite_server


@pytest.fixture(scope="session")
def mnist_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The four files of MNIST, made from scikit-learn's digits: 8 by 8, scaled to 28 by 28."""
    digits = load_digits()
    images = np.kron(digits.images, np.ones((1, 3, 3))) * 255 / 16
    padded = np.pad(images, ((0, 0), (2, 2), (2, 2))).astype(np.uint8)
    labels = digits.target.astype(np.uint8)
    folder = tmp_path_factory.mktemp("mnist")
    for part, rows in (("train", slice(0, 1500)), ("t10k", slice(1500, None))):
        write_idx(folder / f"{part}-images-idx3-ubyte.gz", padded[rows])
        write_idx(folder / f"{part}-labels-idx1-ubyte", labels[rows])
    return folder


def write_idx(path: Path, array: NDArray[np.uint8]) -> None:
    data = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
