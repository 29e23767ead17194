"""A file that another process cuts while this one has it in memory."""

import signal
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
from tests.tables.making import make_table

from samovar.store import LocalStore

MAPS = """
    from samovar.store import LocalStore
    data = LocalStore({folder!r}).map("file")
    print("mapped", flush=True)
    input()
    print(bytes(data[-10:]))
"""
READS = """
    from samovar.tables import open_table
    reader = open_table({folder!r}).read()
    first = next(reader)
    print("mapped", flush=True)
    input()
    for record in reader:
        print(sum(record["price"].tolist()))
"""
MANY = """
    import os, threading, time, zlib
    from samovar.store import LocalStore
    data = LocalStore({folder!r}).map("file")
    print("mapped", flush=True)
    input()
    os.set_blocking(2, False)  # fill the pipe, so that whoever reports next waits in the middle of the report
    try:
        while True:
            os.write(2, b"." * 4096)
    except BlockingIOError:
        os.set_blocking(2, True)
    readers = [threading.Thread(target=zlib.crc32, args=(data[8192:],)) for _ in range(4)]  # crc32 releases the GIL
    for reader in readers:
        reader.start()
    stats = [f"/proc/self/task/{{reader.native_id}}/stat" for reader in readers]
    states = lambda: [open(stat).read().rsplit(")", 1)[1][1] for stat in stats]
    asleep = 0
    while asleep < 20:
        asleep = asleep + 1 if set(states()) == {{"S"}} else 0
        time.sleep(0.01)
    print("all there", flush=True)
    time.sleep(60)
"""
OTHER = """
    import mmap
    from samovar.store import LocalStore
    kept = LocalStore({folder!r}).map("other")
    with open({folder!r} + "/file", "rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    print("mapped", flush=True)
    input()
    print(data[-10:])
"""


def start(program: str, file: Path, options: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    code = dedent(program).format(folder=str(file.parent if file.name == "file" else file.parents[2]))
    return subprocess.Popen(
        [sys.executable, *options, "-c", code],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def cut(file: Path, child: subprocess.Popen[str]) -> None:
    assert child.stdout is not None
    assert child.stdout.readline() == "mapped\n"
    with open(file, "r+b") as opened:
        opened.truncate(4096)


def cut_while_it_runs(program: str, file: Path, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    child = start(program, file, options)
    cut(file, child)
    output, errors = child.communicate("\n", timeout=300)
    return subprocess.CompletedProcess(child.args, child.returncode, output, errors)


@pytest.mark.parametrize("options", [(), ("-X", "faulthandler")], ids=["plain", "with faulthandler"])
def test_the_process_says_which_file_was_cut_and_exits_with_1(tmp_path: Path, options: tuple[str, ...]) -> None:
    file = tmp_path / "file"
    file.write_bytes(bytes(1 << 20))
    ended = cut_while_it_runs(MAPS, file, options)
    assert f"Error: {file}: the file was truncated while it was read." in ended.stderr
    assert (ended.returncode, ended.stdout) == (1, "")


def test_threads_that_meet_the_cut_together_report_it_once(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(bytes(1 << 20))
    with start(MANY, file) as child:
        cut(file, child)
        assert child.stdout is not None
        assert child.stdin is not None
        child.stdin.write("\n")
        child.stdin.flush()
        assert child.stdout.readline() == "all there\n"
        _, errors = child.communicate(timeout=300)
    message = f"Error: {file}: the file was truncated while it was read. Restore it from a copy, and start again\n"
    assert errors.lstrip(".") == message
    assert child.returncode == 1


@pytest.mark.parametrize("compression", ["zstd", "none"])
def test_a_table_that_is_cut_while_it_is_read_is_named(tmp_path: Path, compression: str) -> None:
    table = make_table(LocalStore(tmp_path), 200, compression=compression, num_examples=(3000,))
    file = tmp_path / table.manifests[0].segment.files[0].path
    ended = cut_while_it_runs(READS, file)
    assert f"Error: {file}: the file was truncated while it was read." in ended.stderr
    assert ended.returncode == 1


def test_a_mapping_that_is_not_ours_ends_as_before(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(bytes(1 << 20))
    (tmp_path / "other").write_bytes(b"kept")
    ended = cut_while_it_runs(OTHER, file)
    assert ended.returncode == -signal.SIGBUS
    assert "truncated" not in ended.stderr


def test_an_unmapped_file_may_be_cut(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(bytes(1 << 20))
    store = LocalStore(tmp_path)
    for _ in range(100):
        assert store.map("file")[-1] == 0
    file.write_bytes(b"short")
    assert bytes(store.map("file")) == b"short"
