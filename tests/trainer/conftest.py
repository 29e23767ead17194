"""What several tests of the trainer begin with."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch


@pytest.fixture
def folder(quick_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder to work in, with one thread."""
    monkeypatch.chdir(quick_path)
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the nets are small
    yield quick_path
    torch.set_num_threads(num_threads)
