"""What the scanner sees and the catalogue keeps: runs that appear, change, die, vanish; and very many of them."""

import json
import os
import re
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from benchmarks.experiments import make_runs
from tests.runs.runs import make_run, train_lines
from tests.ui.everything import make_stopped, start_holder
from tests.ui.serving import serving
from tests.waiting import wait_until

from samovar.errors import BadInput
from samovar.results import open_directory
from samovar.runs import list_runs
from samovar.runs.listing import ListingRequest
from samovar.ui.catalogue import Catalogue
from samovar.ui.child import Child, Readers, ReadFailed, WrongRequest
from samovar.ui.scanner import WALK_SECONDS, Scanner


@pytest.fixture
def folder(quick_path: Path) -> Iterator[Path]:
    """The scanner works in its folder."""
    before = Path.cwd()
    root = quick_path / "results"
    make_run(root / "models/a", {"lr": 0.1, "seed": 1}, train_lines([1.0, 0.5]))
    make_run(root / "models/deep/b", {"lr": 0.2, "seed": 1}, train_lines([0.9, 0.4]))
    make_stopped(root / "c")
    yield root
    os.chdir(before)


def seen(catalogue: Catalogue, scanner: Scanner) -> dict[str, Any]:
    catalogue.apply(scanner.look())
    return {path: run.facts["state"] for path in catalogue.paths() if (run := catalogue.get(path)) is not None}


def test_runs_appear_change_and_vanish(folder: Path) -> None:
    catalogue, scanner = Catalogue(folder), Scanner(folder)
    assert seen(catalogue, scanner) == {"c": "stopped", "models/a": "finished", "models/deep/b": "finished"}
    version = catalogue.version
    assert seen(catalogue, scanner).keys() == {"c", "models/a", "models/deep/b"}
    assert catalogue.version == version  # nothing changed
    make_run(folder / "models/deep/new", {"lr": 0.3}, train_lines([0.8]))
    shutil.rmtree(folder / "models/a")
    assert seen(catalogue, scanner) == {"c": "stopped", "models/deep/b": "finished", "models/deep/new": "finished"}
    shutil.rmtree(folder / "c")
    shutil.rmtree(folder / "models")
    assert seen(catalogue, scanner) == {}


def test_a_run_that_dies_is_seen_at_the_next_look(folder: Path) -> None:
    catalogue, scanner = Catalogue(folder), Scanner(folder)
    process = start_holder(folder / "live")
    assert seen(catalogue, scanner)["live"] == "running"
    process.kill()
    process.wait()
    assert seen(catalogue, scanner)["live"] == "dead"


def test_a_folder_that_vanishes_is_a_problem_and_may_come_back(folder: Path) -> None:
    catalogue, scanner = Catalogue(folder), Scanner(folder)
    seen(catalogue, scanner)
    folder.rename(folder.with_name("away"))
    assert seen(catalogue, scanner) == {}
    assert "No such file or directory" in str(catalogue.problem)
    folder.with_name("away").rename(folder)
    assert len(seen(catalogue, scanner)) == 3
    assert catalogue.problem is None


def test_a_finished_run_is_looked_at_again_once_a_minute(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    catalogue, scanner = Catalogue(folder), Scanner(folder)
    seen(catalogue, scanner)
    (folder / "models/a/model_config.json").write_text("{")
    assert seen(catalogue, scanner)["models/a"] == "finished"
    scanner._walked_at -= WALK_SECONDS
    assert seen(catalogue, scanner)["models/a"] == "unreadable"


def test_a_view_is_a_listing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    catalogue, scanner = Catalogue(folder, clock=lambda: 2e9), Scanner(folder)
    seen(catalogue, scanner)
    for request in (
        ListingRequest(),
        ListingRequest(["lr>=0.1"], ["-loss"], ["lr", "loss:max", "age"]),
        ListingRequest(["state!=finished"]),
    ):
        found = catalogue.view(request).selection.to_listing()
        expected = list_runs(".", where=request.where, sort=request.sort, columns=request.columns)
        assert found.columns == expected.columns
        ages = [number for number, column in enumerate(found.columns) if column == "age"]
        for row, other in zip(found.rows, expected.rows, strict=True):
            assert [v for n, v in enumerate(row) if n not in ages] == [v for n, v in enumerate(other) if n not in ages]
    assert [run.facts["name"] for run in catalogue.view(ListingRequest(), below="models").selection.runs] == [
        "models/a",
        "models/deep/b",
    ]
    assert [(each.path, each.depth) for each in catalogue.folders()] == [("", 0), ("models", 1), ("models/deep", 2)]
    with pytest.raises(BadInput, match="Did you mean 'loss'"):
        catalogue.view(ListingRequest(sort=["losss"]))


def test_a_child_that_dies_is_replaced(folder: Path) -> None:
    readers = Readers(folder, count=1)
    try:
        assert readers.ask("answers:read_run", "models/a")["state"] == "finished"
        (child,) = readers._children
        os.kill(child.pid, 9)
        with pytest.raises(ReadFailed, match="the process that read it died"):
            readers.ask("answers:read_run", "models/a")
        assert readers.ask("answers:read_run", "models/a")["state"] == "finished"
        with pytest.raises(WrongRequest, match="does not exist"):
            readers.ask("answers:read_run", "models/nothing")
        with pytest.raises(ReadFailed, match="takes longer than"):
            readers.ask("answers:read_run", "models/a", seconds=0.0)
        assert readers.ask("answers:read_run", "models/a")["state"] == "finished"
    finally:
        readers.close()


def test_children_end_when_their_server_is_gone(folder: Path) -> None:
    child = Child("scanner:scan", str(folder))
    assert len(child.pipe.inward.recv().runs) == 3
    child.pipe.outward.close()
    child.pipe.inward.close()
    assert child._process.wait(60) == 0


def test_many_questions_are_answered_by_few_processes(folder: Path) -> None:
    readers = Readers(folder, count=2)
    answers: list[Any] = []
    threads = [
        threading.Thread(target=lambda: answers.append(readers.ask("answers:read_run", "models/a")["id"]))
        for _ in range(8)
    ]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert answers == [open_directory(folder / "models/a").id] * 8
        assert len(readers._children) == 2
    finally:
        readers.close()


@pytest.mark.long
def test_ten_thousand_runs(quick_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = quick_path / "results"
    make_runs(root, 10_000)
    with serving(root) as served:
        text = served.ask("/runs").text
        assert text.count("<tr data-run") == 200
        assert "10,000 of 10,000" in text
        for where in ("lr>0.01", "dim=8", "arch~w*", "auc>0.9"):
            expected = len(list_runs(root, where=where).rows)
            found = re.search(r"([\d,]+) of 10,000", served.ask(f"/runs?where={where.replace('>', '%3E')}").text)
            assert found is not None
            assert int(found[1].replace(",", "")) == expected
        assert json.loads(served.ask("/curves/data?run=first").data)["panels"]
    wait_until(lambda: not Path(f"/proc/{served.pid}").exists(), "the server ends")
