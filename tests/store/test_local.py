import errno
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from samovar.errors import BadPath, CorruptData, LeaseHeld, LeaseLost, StoreError
from samovar.store import Lease, LocalStore, Store, lease_state, take_lease, write_file
from samovar.store.disk import Disk
from samovar.store.heartbeat import Clock
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
    later = LocalStore(tmp_path, clock=Clock(steady=lambda: time.monotonic() + 61))
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


@pytest.mark.parametrize(
    ("number", "reason"), [(errno.EACCES, "permission denied"), (errno.EROFS, "the disk is read-only")]
)
def test_a_folder_that_cannot_be_made_is_called_read_only(tmp_path: Path, number: int, reason: str) -> None:
    root = tmp_path / "new"
    with pytest.raises(StoreError, match=re.escape(f": {reason}. ")):
        write_file(LocalStore(root, FailingDisk(1, number)), "a", b"1")
    assert not root.exists()


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
    later = LocalStore(tmp_path, clock=Clock(steady=lambda: time.monotonic() + 61))
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


@pytest.mark.parametrize("name", ["", "open", "tmp", "locks", "attributes"])
def test_the_stores_own_folder_follows_no_link_and_removes_nothing_outside(tmp_path: Path, name: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "0-1-2-3").write_text("precious")  # named like the file of a dead process
    with take_lease(LocalStore(tmp_path / "root")):
        pass
    own = tmp_path / "root" / ".samovar" / name
    if own.exists():
        shutil.rmtree(own)
    own.symlink_to(outside)
    store = LocalStore(tmp_path / "root")

    def use_all() -> None:
        with take_lease(store):
            store.sweep()
            store.tail("metrics.jsonl")

    with pytest.raises(BadPath, match=r"is a symbolic link, which could lead out of the store"):
        use_all()
    assert [path.name for path in outside.iterdir()] == ["0-1-2-3"]


@pytest.mark.parametrize("kind", ["dangling link", "endless link", "pipe", "folder"])
def test_attributes_that_are_no_regular_file_are_reported_and_nothing_hangs(tmp_path: Path, kind: str) -> None:
    store = LocalStore(tmp_path)
    store.set_attributes("", a=1)
    place = tmp_path / ".samovar" / "attributes" / "@000000000007"
    make: dict[str, Callable[[], None]] = {
        "dangling link": lambda: place.symlink_to("nowhere"),
        "endless link": lambda: place.symlink_to("/dev/zero"),
        "pipe": lambda: os.mkfifo(place),
        "folder": place.mkdir,
    }
    make[kind]()
    with pytest.raises(CorruptData, match=r"@000000000007 is not a regular file\. Remove it"):
        store.attributes()


@pytest.mark.parametrize("name", ["@7", "@²", "@٣٣٣٣٣٣٣٣٣٣٣٣", "@0000000000007", "@000000000007.tmp"])
def test_attributes_of_another_name_do_not_count(tmp_path: Path, name: str) -> None:
    store = LocalStore(tmp_path)
    store.set_attributes("", a=1)
    (tmp_path / ".samovar" / "attributes" / name).symlink_to("nowhere")
    assert store.attributes().values == {"a": 1}
    store.set_attributes("", a=2)
    assert store.attributes().values == {"a": 2}


def test_attributes_are_read_up_to_a_limit(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.set_attributes("", a=1)
    os.truncate(tmp_path / ".samovar" / "attributes" / "@000000000001", 1 << 40)
    with pytest.raises(CorruptData, match=r"1,099,511,627,776 bytes, more than the limit"):
        store.attributes()


def test_a_pipe_in_the_place_of_a_file_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for use in (LocalStore(tmp_path).read, LocalStore(tmp_path).map):
        with pytest.raises(BadPath, match="pipe is not a regular file"):
            use("pipe")


def test_a_lease_that_names_a_file_elsewhere_opens_nothing(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    take_lease(store)
    record = store.attributes().values["lease"]
    store.set_attributes("", lease={**record, "heartbeat": {**record["heartbeat"], "file": "../../etc/passwd"}})
    with pytest.raises(CorruptData, match=r"invalid path '\.\./\.\./etc/passwd'"):
        lease_state(store)


def sum_with_now(seconds: float) -> float:
    return time.time() + seconds


def test_setting_the_time_of_day_replaces_no_living_holder_on_the_same_machine(tmp_path: Path) -> None:
    with take_lease(LocalStore(tmp_path)) as lease:
        for step in (120, 86_400, -120):
            stepped = LocalStore(tmp_path, clock=Clock(day=partial(sum_with_now, step)))
            with pytest.raises(LeaseHeld):
                take_lease(stepped)
        later = LocalStore(tmp_path, clock=Clock(steady=lambda: time.monotonic() + 61))
        assert lease_state(later).liveness == "silent"
        lease.beat()
        assert lease_state(LocalStore(tmp_path)).is_held


def test_a_lock_file_that_a_backup_has_read_falls_back_to_the_time_of_day(tmp_path: Path) -> None:
    with take_lease(LocalStore(tmp_path)):
        (lock,) = (tmp_path / ".samovar" / "locks").iterdir()
        os.utime(lock, (time.time(), time.time()))  # what reading it does on most disks
        assert lease_state(LocalStore(tmp_path)).is_held
        later = LocalStore(tmp_path, clock=Clock(day=lambda: time.time() + 61))
        assert lease_state(later).liveness == "silent"


def test_a_replaced_holder_can_neither_publish_nor_remove_a_file(tmp_path: Path) -> None:
    asleep = LocalStore(tmp_path)
    old = take_lease(asleep)
    write_file(asleep, "a/kept", b"old")
    open_file = asleep.create("a/open")  # without a fence: nothing else could stop it
    open_file.write(b"late")
    later = LocalStore(tmp_path, clock=Clock(steady=lambda: time.monotonic() + 61))
    with take_lease(later):
        write_file(later, "a/kept", b"new")
        for late in (
            open_file.close,
            lambda: write_file(asleep, "a/new", b"late"),
            lambda: asleep.create_if_absent("a/absent", b"late"),
            lambda: asleep.remove("a/kept"),
            lambda: asleep.remove_tree("a"),
        ):
            with pytest.raises(LeaseLost, match="took over the lease"):
                late()
        assert {entry.path: later.read(entry.path) for entry in later.list()} == {"a/kept": b"new"}
        old.release()
        later.remove("a/kept")
        assert later.list() == []
    assert list((tmp_path / ".samovar" / "tmp").iterdir()) == []


def test_a_process_that_slept_while_it_took_the_lease_takes_nothing(tmp_path: Path) -> None:
    class Sleeper(Disk):
        def mkdir(self, path: Path) -> None:
            super().mkdir(path)
            if path.parent.name == "tmp" and not successors:
                successors.append(take_lease(later))
                write_file(later, "file", b"new")

    successors: list[Lease] = []
    later = LocalStore(tmp_path, clock=Clock(steady=lambda: time.monotonic() + 61))
    with pytest.raises(LeaseLost):
        take_lease(LocalStore(tmp_path, Sleeper()))
    write_file(later, "file", b"newer")
    successors[0].release()
    assert later.read("file") == b"newer"
