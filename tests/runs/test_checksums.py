"""Checksums: equal to sha256sum's, and remembered only for files that cannot have changed."""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samovar.errors import BadInput, StoreError
from samovar.runs.checksums import Checksums, checksum, digest_of, find_changes, read_list, to_text


@pytest.fixture
def folder(quick_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files in `data`, and a temporary folder for the cache of this test."""
    (quick_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(quick_path / "tmp"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    for name, text in (("b", "two"), ("a/z", "one"), ("a-b", ""), ("odd\nname\\", "x")):
        path = quick_path / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return quick_path / "data"


def compute(folder: Path) -> Checksums:
    return checksum([folder], settled_seconds=0)


def test_sha256sum_checks_a_list_and_the_digest_of_the_list_is_the_folders(folder: Path) -> None:
    found = compute(folder).digests
    assert list(found) == ["a-b", "a/z", "b", "odd\nname\\"]
    assert found["b"] == hashlib.sha256(b"two").hexdigest()
    (folder.parent / "list").write_bytes(to_text(found))
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "../list"], cwd=folder, check=True)
    assert read_list(folder.parent / "list") == found
    assert digest_of(found) == hashlib.sha256((folder.parent / "list").read_bytes()).hexdigest()


def test_the_second_time_nothing_is_read(folder: Path) -> None:
    first, second = compute(folder), compute(folder)
    assert (first.num_read, second.num_read) == (4, 0)
    assert first.digests == second.digests
    assert first.digest == second.digest == digest_of(first.digests)
    assert checksum([folder], use_cache=False).num_read == 4


def test_only_what_changed_is_read_again(folder: Path) -> None:
    before = compute(folder).digests
    (folder / "b").write_text("2")
    (folder / "c").write_text("new")
    (folder / "a-b").unlink()
    after = compute(folder)
    assert after.num_read == 2
    assert after.digest == compute(folder).digest == digest_of(after.digests) != digest_of(before)
    changes = find_changes(before, after.digests)
    assert (changes.changed, changes.new, changes.removed) == (["b"], ["c"], ["a-b"])


def test_another_file_of_the_same_size_and_time_is_recognized_by_its_inode(folder: Path) -> None:
    before, status = compute(folder).digests, (folder / "b").stat()
    (folder / "other").write_text("owt")
    (folder / "other").replace(folder / "b")
    os.utime(folder / "b", ns=(status.st_atime_ns, status.st_mtime_ns))
    assert (folder / "b").stat().st_mtime_ns == status.st_mtime_ns
    assert find_changes(before, compute(folder).digests).changed == ["b"]


def test_a_change_in_place_is_noticed_even_if_the_time_is_reset(folder: Path) -> None:
    before, status = compute(folder).digests, (folder / "b").stat()
    while (folder / "b").stat().st_ctime_ns == status.st_ctime_ns:  # the clock of a file system ticks slowly
        (folder / "b").write_text("owt")
        os.utime(folder / "b", ns=(status.st_atime_ns, status.st_mtime_ns))
    assert find_changes(before, compute(folder).digests).changed == ["b"]


def test_a_file_written_just_now_is_not_remembered(folder: Path) -> None:
    """A second write in the same tick of the clock would leave the same size, times and inode."""
    for text in ("two", "owt", "tow"):
        (folder / "b").write_text(text)
        assert checksum([folder]).digests["b"] == hashlib.sha256(text.encode()).hexdigest()


def test_a_file_written_while_it_is_read_is_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = os.read

    def write_meanwhile(descriptor: int, size: int) -> bytes:
        if (folder / "b").stat().st_size == len("two"):
            (folder / "b").write_text("three")
        return read(descriptor, size)

    monkeypatch.setattr(os, "read", write_meanwhile)
    with pytest.raises(StoreError, match=r"data/b: changed while it was read\. Try again"):
        compute(folder)


def test_a_torn_cache_is_rebuilt_and_one_that_others_can_write_is_not_used(folder: Path) -> None:
    compute(folder)
    (cache,) = (folder.parent / "tmp").rglob("cache.db")
    cache.write_bytes(cache.read_bytes()[:100])
    assert compute(folder).num_read == 4
    assert compute(folder).num_read == 0
    cache.parent.chmod(0o777)
    assert compute(folder).num_read == 4


def test_files_are_named_as_the_user_wrote_them(folder: Path) -> None:
    found = checksum([folder / "b", folder / "a"], settled_seconds=0).digests
    assert list(found) == [f"{folder}/b", f"{folder}/a/z"]


def test_links_to_files_are_followed_and_other_links_are_errors(folder: Path) -> None:
    (folder / "link").symlink_to("b")
    assert compute(folder).digests["link"] == hashlib.sha256(b"two").hexdigest()
    (folder / "folder").symlink_to("a")
    with pytest.raises(BadInput, match="data/folder: neither a file nor a folder, or a broken link"):
        compute(folder)


def test_a_missing_path_and_a_malformed_list_are_errors(folder: Path) -> None:
    with pytest.raises(BadInput, match="none: No such file or directory"):
        compute(folder / "none")
    (folder / "b").write_text("not a list\n")
    with pytest.raises(BadInput, match="line 1: not a SHA-256 and a file name, as sha256sum writes them: 'not a list'"):
        read_list(folder / "b")


@given(
    st.dictionaries(st.text(st.characters(exclude_characters="\0/", exclude_categories=["Cs"]), min_size=1), st.none())
)
def test_any_name_survives_a_list(names: dict[str, None]) -> None:
    digests = {name: hashlib.sha256(name.encode()).hexdigest() for name in names}
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(to_text(digests))
        assert read_list(Path(file.name)) == digests


def test_two_thousand_files_are_read_on_all_cores(quick_path: Path) -> None:
    """In a process of its own: a process with threads, as this one may have, does not fork."""
    for number in range(2000):
        (quick_path / f"{number:04d}").write_bytes(b"%d" % number * 100)
    command = [sys.executable, "-W", "error", "-m", "samovar", "checksum", str(quick_path), "--json", "--no-cache"]
    done = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    digests = {f"{number:04d}": hashlib.sha256(b"%d" % number * 100).hexdigest() for number in range(2000)}
    assert (done["digest"], done["read"]) == (digest_of(digests), 2000)
