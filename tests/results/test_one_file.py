"""A state tree in one file: it appears whole, and a file that cannot be used says why."""

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from samovar.errors import NotAResult, StoreError
from samovar.results.state import load_tree, save_tree
from samovar.testing.disks import CountingDisk, FailingDisk

TREE = {"weights": np.arange(1000, dtype=np.float32), "epoch": 3, "best": None}


def test_a_tree_comes_back(tmp_path: Path) -> None:
    save_tree(tmp_path / "net.pt", TREE)
    found = load_tree(tmp_path / "net.pt")
    np.testing.assert_array_equal(found.pop("weights"), TREE["weights"])
    assert found == {"epoch": 3, "best": None}
    assert os.listdir(tmp_path) == ["net.pt"]


def test_a_disk_that_fails_leaves_the_old_file_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "net.pt"
    save_tree(path, TREE)
    counting = CountingDisk()
    save_tree(tmp_path / "other.pt", TREE, counting)
    for number in range(1, counting.points // 2 + 1):
        with pytest.raises(StoreError, match=r"could not save .*net\.pt: the disk is full.*Free some space"):
            save_tree(path, {**TREE, "epoch": 4}, FailingDisk(number, errno.ENOSPC))
        assert load_tree(path)["epoch"] in (3, 4)
    save_tree(path, {**TREE, "epoch": 5})
    assert load_tree(path)["epoch"] == 5


def test_another_format_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("samovar.results.state.FILE_FORMAT", 2)
    save_tree(tmp_path / "net.pt", TREE)
    monkeypatch.undo()
    with pytest.raises(
        NotAResult, match=r"net\.pt has format 2, but this version of Samovar reads 1\. Use a newer one"
    ):
        load_tree(tmp_path / "net.pt")


def test_what_is_no_file_of_ours_is_refused(tmp_path: Path) -> None:
    (tmp_path / "net.pt").write_bytes(b"PK\x03\x04 a pickle in a zip")
    with pytest.raises(NotAResult, match="was not saved by Samovar, or is damaged"):
        load_tree(tmp_path / "net.pt")
    with pytest.raises(NotAResult, match=r"none\.pt: no such file"):
        load_tree(tmp_path / "none.pt")
