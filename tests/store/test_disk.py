"""Publishing files: whole or not at all, with and without replacing, and no litter."""

import errno
import os
import signal
from contextlib import nullcontext
from pathlib import Path

import pytest

from samovar.errors import AlreadyExists, StoreError
from samovar.store.disk import PendingFile, publish
from samovar.store.process import ScratchNames
from samovar.testing.disks import CountingDisk, FailingDisk, KillingDisk, RecordingDisk


def write(path: Path, data: bytes, disk: CountingDisk | FailingDisk | None = None, replace: bool = True) -> None:
    with publish(path, disk, replace=replace) as file:
        file.write(data)


def test_a_file_appears_at_the_end_of_the_block_and_is_durable(tmp_path: Path) -> None:
    disk = RecordingDisk()
    with publish(tmp_path / "a", disk) as file:
        file.write(b"12")
        file.write(memoryview(b"34"))
        assert not (tmp_path / "a").exists()
    assert (tmp_path / "a").read_bytes() == b"1234"
    assert [operation for operation, _ in disk.events] == [
        "create", "write", "write", "fsync", "replace", "fsync_folder",
    ]  # fmt: skip


def test_a_cache_is_not_made_durable(tmp_path: Path) -> None:
    disk = RecordingDisk()
    with publish(tmp_path / "a", disk, durable=False) as file:
        file.write(b"1")
    assert [operation for operation, _ in disk.events] == ["create", "write", "replace"]


def test_a_library_may_write_by_name(tmp_path: Path) -> None:
    with publish(tmp_path / "a") as file:
        file.path.write_bytes(b"by name")
    assert (tmp_path / "a").read_bytes() == b"by name"


@pytest.mark.parametrize("error", [RuntimeError("half way"), KeyboardInterrupt()])
def test_a_block_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path, error: BaseException) -> None:
    def fail() -> None:
        with publish(tmp_path / "a") as file:
            file.write(b"new")
            raise error

    write(tmp_path / "a", b"old")
    with pytest.raises(type(error)):
        fail()
    assert (tmp_path / "a").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a"]


def test_a_file_that_must_not_be_replaced_is_kept(tmp_path: Path) -> None:
    write(tmp_path / "a", b"old", replace=False)
    with pytest.raises(AlreadyExists, match="a already exists"):
        write(tmp_path / "a", b"new", replace=False)
    assert (tmp_path / "a").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize("replace", [True, False])
def test_a_failing_disk_gives_one_clear_error_or_only_litter(tmp_path: Path, replace: bool) -> None:
    counting = CountingDisk()
    write(tmp_path / "count", b"1", counting, replace)
    for number in range(1, counting.points // 2 + 1):
        path = tmp_path / f"{number}"
        disk = FailingDisk(number, errno.ENOSPC)
        is_cleanup = not replace and number == counting.points // 2  # the scratch name stays, and that is no error
        expected = nullcontext() if is_cleanup else pytest.raises(StoreError, match=f"write {path}: the disk is full")
        with expected:
            write(path, b"12", disk, replace)
        assert not path.exists() or path.read_bytes() == b"12"
        assert path.exists() or not is_cleanup


def test_a_missing_folder_is_reported(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"could not write .*none/a: the folder is missing"):
        write(tmp_path / "none" / "a", b"")


def test_what_a_killed_process_left_is_removed_and_what_a_live_one_writes_is_not(tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        write(tmp_path / "a", b"1", KillingDisk(3))
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    with publish(tmp_path / "b") as live:
        write(tmp_path / "a", b"2")
        assert sorted(tmp_path.iterdir()) == sorted([tmp_path / "a", live.path])
    assert not left.exists()


def test_a_refused_file_is_discarded(tmp_path: Path) -> None:
    def refuse() -> None:
        raise RuntimeError("not any more")

    file = PendingFile(tmp_path / ScratchNames().next(), RecordingDisk())
    file.write(b"1")
    with pytest.raises(RuntimeError, match="not any more"):
        file.publish(tmp_path / "a", replace=True, before=refuse)
    assert list(tmp_path.iterdir()) == []
