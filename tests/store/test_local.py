import errno
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from samovar.errors import BadPath, CorruptData, LeaseHeld, LeaseLost, StoreError
from samovar.store import LocalStore, Store, lease_state, take_lease, write_file
from samovar.testing import StoreContract
from samovar.testing.disks import FAULTS, CountingDisk, FailingDisk, RecordingDisk

HOLDER = """
import sys
from samovar.store import LocalStore, take_lease
lease = take_lease(LocalStore(sys.argv[1]))
{then}
print(lease.epoch, flush=True)
sys.stdin.readline()
{at_last}
"""


class TestLocalStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return LocalStore(tmp_path / "root")


def start_holder(root: Path, then: str = "", at_last: str = "") -> subprocess.Popen[str]:
    """A process that holds the lease until a line comes in."""
    code = HOLDER.format(then=then, at_last=at_last)
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "1"
    return process


def end(process: subprocess.Popen[str], line: str = "\n") -> int:
    process.communicate(line)
    return process.returncode


def test_a_lease_of_another_process_is_seen_and_named(tmp_path: Path) -> None:
    process = start_holder(tmp_path)
    with pytest.raises(LeaseHeld, match=f"process {process.pid} on"):
        take_lease(LocalStore(tmp_path))
    end(process)
    take_lease(LocalStore(tmp_path)).release()


def test_a_lease_dies_with_its_killed_process(tmp_path: Path) -> None:
    process = start_holder(tmp_path)
    process.kill()
    end(process)
    assert lease_state(LocalStore(tmp_path)).liveness == "dead"
    with take_lease(LocalStore(tmp_path)) as lease:
        assert lease.epoch == 2


def test_a_lease_dies_with_its_process_even_if_a_forked_child_lives_on(tmp_path: Path) -> None:
    fork = "import os, signal\nchild = os.fork()\nif not child: signal.pause()\nprint(child, file=sys.stderr)"
    code = HOLDER.format(then=fork, at_last="")
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    child = int(process.stderr.readline())
    assert process.stdout.readline().strip() == "1"
    try:
        with pytest.raises(LeaseHeld):
            take_lease(LocalStore(tmp_path))
        process.kill()
        process.wait()
        os.kill(child, 0)  # the child is still there
        with take_lease(LocalStore(tmp_path)) as lease:
            assert lease.epoch == 2
    finally:
        os.kill(child, signal.SIGKILL)
        process.communicate()


def test_a_forked_child_cannot_use_its_parents_lease(tmp_path: Path) -> None:
    code = """
import os, sys
from samovar.errors import LeaseLost
from samovar.store import LocalStore, take_lease
lease = take_lease(LocalStore(sys.argv[1]))
if os.fork() == 0:
    try:
        lease.commit(a=1)
    except LeaseLost:
        lease.release()
        os._exit(7)
    os._exit(8)
assert os.waitstatus_to_exitcode(os.wait()[1]) == 7
lease.commit(b=2)
"""
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    assert LocalStore(tmp_path).attributes().values["b"] == 2


def test_a_lease_survives_reading_the_whole_directory_in_its_process(tmp_path: Path) -> None:
    copy = "import shutil; shutil.copytree(sys.argv[1], sys.argv[1] + '.copy')"  # closing the lock file drops the lock
    process = start_holder(tmp_path / "a", then=copy)
    with pytest.raises(LeaseHeld):
        take_lease(LocalStore(tmp_path / "a"))
    end(process)


def test_a_lease_does_not_travel_with_a_copied_directory(tmp_path: Path) -> None:
    process = start_holder(tmp_path / "a")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    with take_lease(LocalStore(tmp_path / "b")) as lease:
        assert lease.epoch == 2
    with pytest.raises(LeaseHeld):
        take_lease(LocalStore(tmp_path / "a"))
    end(process)


def test_a_stopped_holder_that_wakes_up_after_its_replacement_cannot_commit(tmp_path: Path) -> None:
    at_last = """
from samovar.errors import LeaseLost
try:
    lease.commit(stale=True)
except LeaseLost as error:
    print(error, file=sys.stderr)
    lease.release()
    raise SystemExit(9)
"""
    process = start_holder(tmp_path, at_last=at_last)
    process.send_signal(signal.SIGSTOP)
    with pytest.raises(LeaseHeld):  # its heartbeat is young
        take_lease(LocalStore(tmp_path))
    later = LocalStore(tmp_path, clock=lambda: time.time() + 61)
    assert lease_state(later).liveness == "silent"
    lease = take_lease(later)
    lease.commit(winner=True)
    process.send_signal(signal.SIGCONT)
    assert end(process) == 9
    values = LocalStore(tmp_path).attributes().values
    assert "stale" not in values
    assert values["winner"]
    lease.commit(still="ours")
    lease.release()


def test_a_commit_that_waited_through_many_others_is_refused(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    stale = store.attributes()
    for number in range(300):
        store.set_attributes("", number=number)
    assert store.compare_and_set("", stale, {"stale": True}) is None
    assert store.attributes().values == {"number": 299}


def test_a_sweep_removes_files_of_killed_processes_and_not_of_live_ones(tmp_path: Path) -> None:
    code = """
import os, signal, sys
from samovar.store import LocalStore
LocalStore(sys.argv[1]).create("big").write(b"half")
os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    store = LocalStore(tmp_path)
    mine = store.create("mine")
    scratch = tmp_path / ".samovar" / "tmp"
    assert len(list(scratch.iterdir())) == 2
    store.sweep()
    assert len(list(scratch.iterdir())) == 1
    mine.close()
    assert [entry.path for entry in store.list()] == ["mine"]


def test_no_symbolic_link_leads_out(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("x")
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "link").symlink_to(tmp_path / "outside")
    store = LocalStore(tmp_path / "root")
    for use in (store.read, store.create, store.remove, store.list):
        with pytest.raises(BadPath, match="symbolic link"):
            use("link/secret")
    assert store.list() == []
    store.remove_tree("")
    assert (tmp_path / "outside" / "secret").exists()


@pytest.mark.parametrize("fault", FAULTS)
def test_every_failing_write_gives_one_clear_error_and_leaves_the_old_file(tmp_path: Path, fault: str) -> None:
    counting = CountingDisk()
    write_file(LocalStore(tmp_path / "count"), "old", b"old")
    write_file(LocalStore(tmp_path / "count", counting), "old", b"new")
    assert counting.points == 2 * 5  # create, write, fsync, replace, fsync of the folder
    for number in range(1, 6):
        root = tmp_path / str(number)
        write_file(LocalStore(root), "old", b"old")
        with pytest.raises(
            StoreError, match=r"could not (create|write) .*: .*; everything committed before is intact\. "
        ):
            write_file(LocalStore(root, FailingDisk(number, FAULTS[fault])), "old", b"new")
        assert LocalStore(root).read("old") in (b"old", b"new")
        assert list((root / ".samovar" / "tmp").iterdir()) == []


def test_a_full_disk_is_called_a_full_disk(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=re.escape(f"{tmp_path}/a: the disk is full") + ".*Free some space"):
        write_file(LocalStore(tmp_path, FailingDisk(2, errno.ENOSPC)), "a", b"1")


def test_a_vanished_folder_is_reported_and_not_created_again(tmp_path: Path) -> None:
    root = tmp_path / "root"
    store = LocalStore(root)
    lease = take_lease(store)
    shutil.move(root, tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="the folder is missing"):
        write_file(store, "a", b"")
    with pytest.raises(StoreError, match="the folder is missing"):
        lease.commit(a=1)
    assert not root.exists()


def test_damaged_attributes_are_reported(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.set_attributes("", a=1)
    store.set_attributes("", a=2)
    newest = max((tmp_path / ".samovar" / "attributes").iterdir())
    newest.write_bytes(newest.read_bytes().replace(b"2", b"3"))
    with pytest.raises(CorruptData, match=r"wrong checksum: .*Remove it"):
        store.attributes()
    newest.unlink()
    assert store.attributes().values == {"a": 1}


def test_the_heartbeat_thread_reports_a_lost_lease_too(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    lease = take_lease(store)
    later = LocalStore(tmp_path, clock=lambda: time.time() + 61)
    with take_lease(later):
        lease.keep_beating(also=partial(lease.commit, seen=True), seconds=0.001)
        assert lease._heart is not None
        lease._heart.join()  # it ends by itself when it finds the lease gone
        with pytest.raises(LeaseLost):
            lease.check()
    lease.release()


def test_files_of_other_code_are_made_durable_and_links_among_them_refused(tmp_path: Path) -> None:
    (tmp_path / "files/deep").mkdir(parents=True)
    for name in ("a", "deep/b", "deep/c"):
        (tmp_path / "files" / name).write_text(name)
    disk = RecordingDisk()
    LocalStore(tmp_path, disk).sync("files")
    assert [operation for operation, _ in disk.events] == ["fsync", "fsync", "fsync_folder", "fsync", "fsync_folder"]
    LocalStore(tmp_path).sync("nothing")
    (tmp_path / "files/deep/link").symlink_to("a")
    with pytest.raises(BadPath, match="deep/link is a symbolic link"):
        LocalStore(tmp_path).sync("files")
