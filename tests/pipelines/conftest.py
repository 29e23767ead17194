"""A folder in memory where there is one: training writes many small files, and tests need no durable disk."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

_MEMORY = Path("/dev/shm")


@pytest.fixture
def quick_path(tmp_path: Path) -> Iterator[Path]:
    if not _MEMORY.is_dir():
        yield tmp_path
        return
    folder = Path(tempfile.mkdtemp(prefix="samovar-test-", dir=_MEMORY))
    yield folder
    shutil.rmtree(folder)
