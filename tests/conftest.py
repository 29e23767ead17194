"""How hypothesis runs here, and a folder for tests that write many files."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# A busy machine makes any example slow: time is no property of a config.
settings.register_profile("no_deadline", deadline=None)
settings.load_profile("no_deadline")

_MEMORY = Path("/dev/shm")


@pytest.fixture
def quick_path(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one: training writes many small files, and most tests need no durable disk."""
    if not _MEMORY.is_dir():
        yield tmp_path
        return
    folder = Path(tempfile.mkdtemp(prefix="samovar-test-", dir=_MEMORY))
    yield folder
    shutil.rmtree(folder)
