"""Leftovers of killed processes: found in every corner, removed under the lease, and nothing else touched."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from uuid import uuid4

import pytest
from tests.cli.commands import run_here
from tests.runs.runs import make_run, train_lines
from tests.runs.test_copying import read_all

from samovar.errors import BadInput
from samovar.results import ResultDirectory, ResultPlan, begin
from samovar.results.partial import mark_removed
from samovar.runs import copy, find_leftovers
from samovar.store import LocalStore, open_store, take_lease, write_file
from samovar.store.objects import ObjectStore
from samovar.testing.object_servers import ObjectServer

KILLED_WRITER = """
import os, signal, sys
from samovar.store import LocalStore
LocalStore(sys.argv[1]).create("model/big").write(b"half")
os.kill(os.getpid(), signal.SIGKILL)
"""
LATE = {
    "snapshot/000009.e1/state.json": "uncommitted snapshots",
    "evaluation/late.parquet": "files that no snapshot lists",
    "manifest/000002.e1.json": "parts of no version",
    "segments/000002.e1/0000.parquet": "parts of no version",
}


@pytest.mark.parametrize("is_finished", [True, False])
def test_leftovers_are_listed_and_only_deleted_on_request(quick_path: Path, is_finished: bool) -> None:
    store = make_run(quick_path / "models/a", {"lr": 1}, train_lines([3]), is_finished=is_finished).store
    write_file(store, "external_stuff/notes.txt", b"mine")
    before = read_all(quick_path / "models/a")
    assert find_leftovers(quick_path / "models").found == []
    subprocess.run([sys.executable, "-c", KILLED_WRITER, str(quick_path / "models/a")], check=False)
    for path in LATE:
        write_file(store, path, b"12345")
    removed = quick_path / "models/.b.removed-0123abcd"
    make_run(removed, {"lr": 2})
    (removed / "model_config.json").unlink()

    listed = find_leftovers(quick_path / "models")
    kinds = {path: each.kind for each in listed.found for path in each.paths}
    assert {path: kinds[path] for path in LATE} == LATE
    assert sum(each.kind == "unfinished files" for each in listed.found) == 1
    assert listed.found[0].place == removed
    assert listed.size_bytes > 5 * len(LATE)
    assert store.size("evaluation/late.parquet") == 5

    with take_lease(LocalStore(quick_path / "models/a")):
        answer = find_leftovers(quick_path / "models", delete=True)
    assert [each.place for each in answer.found] == [removed]
    assert "models/a is in use by process" in answer.skipped[0]
    assert "deleted" in run_here(["gc", str(quick_path / "models"), "--delete"])
    assert os.listdir(quick_path / "models") == ["a"]
    assert read_all(quick_path / "models/a") == before
    assert run_here(["gc", str(quick_path / "models")]) == "nothing left behind\n"
    if not is_finished:
        with begin(ResultDirectory(store), ResultPlan("model", {"lr": 1}, b"script"), heartbeat_seconds=None) as run:
            assert run.restore() is not None


def test_files_of_a_damaged_snapshot_are_kept(quick_path: Path) -> None:
    store = make_run(quick_path / "a", {"lr": 1}, train_lines([3]), is_finished=False).store
    manifest = next(entry.path for entry in store.list("snapshot") if entry.path.endswith("manifest.json"))
    write_file(store, manifest, b"{}")
    before = read_all(quick_path / "a")
    answer = find_leftovers(quick_path / "a", delete=True)
    assert "manifest.json: damaged or changed" in answer.skipped[0]
    assert read_all(quick_path / "a") == before


def test_a_folder_that_is_missing_is_an_error(quick_path: Path) -> None:
    (quick_path / "models").mkdir()
    with pytest.raises(BadInput, match=r"model: no such folder\. Did you mean '.*models'"):
        find_leftovers(quick_path / "model")


def test_leftovers_in_an_object_store(quick_path: Path, s3: ObjectServer) -> None:
    make_run(quick_path / "a", {"lr": 1}, train_lines([3]))
    folder = f"{s3.url}/{uuid4().hex}"
    for name in ("a", "b"):
        copy(quick_path / "a", f"{folder}/{name}")
    half, store = open_store(f"{folder}/b"), ObjectStore(f"{folder}/a", lease_seconds=0.1)
    mark_removed(half, take_lease(half))  # and then it is killed
    assert run_here(["ls", folder, "--json"]).count('"name"') == 1
    with take_lease(store):
        write_file(store, "notes.txt", b"x")
        store.remove("notes.txt")  # leaves a tombstone
    time.sleep(2.1)  # more than ten leases, on a clock of whole seconds
    assert [entry.path for entry in store.leftovers()] == ["notes.txt"]
    with take_lease(store):
        store.sweep()
    assert store.leftovers() == []
    write_file(store, "evaluation/late.parquet", b"12345")

    listed = json.loads(run_here(["gc", folder, "--json"]))
    assert {each["kind"] for each in listed if each["place"].endswith("/a")} == {"files that no snapshot lists"}
    assert store.size("evaluation/late.parquet") == 5
