"""Copies of results between places: exact, resumable, and never half a result."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest
from tests.cli.commands import run_here
from tests.runs.runs import make_run, train_lines

from samovar.config.places import PathLike
from samovar.errors import BadInput, Conflict, CorruptData, LeaseHeld, NotAResult
from samovar.results import ResultDirectory, ResultPlan, begin, open_directory
from samovar.results.partial import find_copy
from samovar.runs import copy, remove
from samovar.store import LocalStore, open_store, take_lease, write_file
from samovar.testing.object_servers import ObjectServer


def read_all(place: PathLike) -> dict[str, bytes]:
    store = open_store(place)
    return {entry.path: store.read(entry.path) for entry in store.list()}


def test_a_copy_has_the_same_files_and_id_and_is_made_once(quick_path: Path) -> None:
    source = make_run(quick_path / "a", {"lr": 1}, train_lines([3, 2]))
    shown: list[tuple[int, int]] = []
    done = copy(quick_path / "a", quick_path / "backup/a", progress=lambda *at: shown.append(at))
    made = open_directory(quick_path / "backup/a")
    assert read_all(quick_path / "a") == read_all(quick_path / "backup/a")
    assert (made.id, made.condition, made.load_model().tree) == (source.id, "finished", {"weights": 1})
    assert (done.kind, done.num_files, done.num_copied) == ("a model", len(source.store.list()), done.num_files)
    assert shown[-1][0] == shown[-1][1] > 0
    assert copy(quick_path / "a", quick_path / "backup/a").num_copied == 0
    make_run(quick_path / "b", {"lr": 2})
    with pytest.raises(Conflict, match="backup/a exists: it is a model"):
        copy(quick_path / "b", quick_path / "backup/a")


def test_a_stopped_run_goes_on_in_its_copy(quick_path: Path) -> None:
    make_run(quick_path / "a", {"lr": 1}, train_lines([3, 2]), is_finished=False)
    copy(quick_path / "a", quick_path / "b")
    plan = ResultPlan("model", {"lr": 1}, b"script")
    with begin(ResultDirectory(LocalStore(quick_path / "b")), plan, heartbeat_seconds=None) as result:
        snapshot = result.restore()
        assert snapshot is not None
        assert snapshot.position == 2
        assert result.epoch > open_directory(quick_path / "a").lease.epoch
        result.finish({"weights": 2}, 2)
    with pytest.raises(Conflict, match="one of the two has gone on since"):
        copy(quick_path / "a", quick_path / "b")


def test_what_must_not_be_copied_or_overwritten_is_refused(quick_path: Path) -> None:
    make_run(quick_path / "a", {"lr": 1}, is_finished=False)
    make_run(quick_path / "b", {"lr": 2})
    with take_lease(LocalStore(quick_path / "a")), pytest.raises(LeaseHeld, match=r"/a is in use by process \d+ on"):
        copy(quick_path / "a", quick_path / "c")
    with take_lease(LocalStore(quick_path / "c")), pytest.raises(LeaseHeld, match=r"/c is in use by process \d+ on"):
        copy(quick_path / "a", quick_path / "c")
    with pytest.raises(BadInput, match="the same directory"):
        copy(quick_path / "b", quick_path / "b")
    with pytest.raises(BadInput, match="must not contain its source"):
        copy(quick_path / "b", quick_path / "b/inner")
    (quick_path / "photos").mkdir()
    (quick_path / "photos/cat.png").write_bytes(b"cat")
    with pytest.raises(NotAResult, match=r"files that Samovar did not make, such as cat\.png"):
        copy(quick_path / "b", quick_path / "photos")
    with pytest.raises(NotAResult, match=r"photos has no model_config\.json"):
        copy(quick_path / "photos", quick_path / "d")
    assert not (quick_path / "d").exists()


@pytest.mark.parametrize("path", ["model/state.json", "model_config.json"])
def test_a_damaged_source_is_refused_and_leaves_no_result(quick_path: Path, path: str) -> None:
    make_run(quick_path / "a", {"lr": 1}, train_lines([3]))
    file = quick_path / "a" / path
    file.write_bytes(file.read_bytes().replace(b"1", b"2", 1))
    with pytest.raises(CorruptData, match=rf"{path}: damaged or changed"):
        copy(quick_path / "a", quick_path / "b")
    assert not ResultDirectory(LocalStore(quick_path / "b")).is_created
    file.unlink()
    with pytest.raises((CorruptData, NotAResult)):
        copy(quick_path / "a", quick_path / "c")


def test_half_a_copy_is_no_result_and_goes_on_or_is_removed(quick_path: Path) -> None:
    source = make_run(quick_path / "a", {"lr": 1}, train_lines([3]))
    write_file(source.store, "external_stuff/big", bytes(64 << 20))
    code = "import sys; from samovar.runs import copy; copy(*sys.argv[1:], progress=lambda done, total: print(done))"

    def kill_half_way(target: Path) -> None:
        child = subprocess.Popen(
            [sys.executable, "-u", "-c", code, str(quick_path / "a"), str(target)], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        while int(child.stdout.readline()) < 8 << 20:
            pass
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()

    kill_half_way(quick_path / "b")
    half = ResultDirectory(LocalStore(quick_path / "b"))
    assert not half.is_created
    with pytest.raises(Conflict, match=r"b is an unfinished copy of .*a\. Run samovar copy again, or remove the rest"):
        begin(half, ResultPlan("model", {"lr": 1}, b"script"))
    make_run(quick_path / "other", {"lr": 7})
    with pytest.raises(Conflict, match=r"b is an unfinished copy of .*a, which is another result"):
        copy(quick_path / "other", quick_path / "b")
    assert copy(quick_path / "a", quick_path / "b").num_copied > 0
    assert read_all(quick_path / "a") == read_all(quick_path / "b")
    known = find_copy(half)
    assert known is not None
    assert (known.source, known.is_whole) == (str(quick_path / "a"), True)

    kill_half_way(quick_path / "c")
    assert remove(quick_path / "c").kind == f"an unfinished copy of {quick_path / 'a'}"
    assert not (quick_path / "c").exists()


def test_copies_go_to_an_object_store_and_back(quick_path: Path, s3: ObjectServer) -> None:
    make_run(quick_path / "a", {"lr": 1}, train_lines([3, 2]))
    url = f"{s3.url}/{uuid4().hex}/a"
    answer = json.loads(run_here(["copy", str(quick_path / "a"), url, "--json"]))
    assert (answer["target"], answer["kind"]) == (url, "a model")
    assert run_here(["copy", url, str(quick_path / "b")]).startswith(f"{quick_path / 'b'}: a model, ")
    assert read_all(quick_path / "a") == read_all(url) == read_all(quick_path / "b")
    assert "nothing to do" in run_here(["copy", str(quick_path / "a"), url])


def test_a_result_in_an_object_store_is_removed_without_a_trace(quick_path: Path, s3: ObjectServer) -> None:
    make_run(quick_path / "a", {"lr": 1}, train_lines([3]))
    folder = f"{s3.url}/{uuid4().hex}"
    for name in ("a", "ab"):
        copy(quick_path / "a", f"{folder}/{name}")
    run_here(["rm", f"{folder}/a", "--yes"])
    assert not open_store(f"{folder}/a").exists()
    assert [row["name"] for row in json.loads(run_here(["ls", folder, "--json"]))] == [f"{folder}/ab"]
