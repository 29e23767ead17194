"""The index of many runs: it remembers what the files say, and can be deleted at any time."""

import json
import os
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from tests.places import local
from tests.runs.runs import make_run, train_lines

from samovar.config import Place
from samovar.errors import CorruptData
from samovar.results import ResultDirectory, ResultPlan, begin
from samovar.runs import index
from samovar.runs.find import find_targets
from samovar.runs.index import Question, read_facts, read_many, require_answers
from samovar.runs.listing import list_runs
from samovar.store import Attributes, LocalStore

Ask = Callable[..., list[object]]


@pytest.fixture(autouse=True)
def own_index(quick_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An index that remembers even one run, trusts new files, and is in a temporary folder of this test."""
    (quick_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(quick_path / "tmp"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(index, "MIN_TO_REMEMBER", 1)
    monkeypatch.setattr(index, "SETTLED_SECONDS", 0.0)
    return quick_path / "tmp"


@pytest.fixture
def folders(quick_path: Path) -> list[Path]:
    for name in "abc":
        (quick_path / "files" / name).mkdir(parents=True)
        (quick_path / "files" / name / "text").write_text(name)
    return sorted((quick_path / "files").iterdir())


@pytest.fixture
def ask(folders: list[Path]) -> Ask:
    """Return the texts, and the names of the folders in which they were read."""

    def answer(
        which: list[Path] | None = None, is_lasting: Callable[[object], bool] = lambda text: True
    ) -> list[object]:
        read: list[str] = []

        def look(folder: Place) -> str:
            read.append(folder.name)
            text = (local(folder) / "text").read_text()
            if text == "broken":
                raise ValueError("it is broken")
            return text

        question = Question("texts", ("text",), look, is_lasting)
        return [*read_many(question, folders if which is None else which), "".join(read)]

    return answer


def test_what_did_not_change_is_not_read_again(folders: list[Path], ask: Ask) -> None:
    assert ask() == ["a", "b", "c", "abc"]
    assert ask() == ["a", "b", "c", ""]
    (folders[1] / "text").write_text("B")
    assert ask() == ["a", "B", "c", "b"]
    assert ask() == ["a", "B", "c", ""]


def test_a_change_that_keeps_size_and_time_is_noticed(folders: list[Path], ask: Ask) -> None:
    before = (folders[0] / "text").stat()
    ask()
    (folders[0] / "text").write_text("A")
    os.utime(folders[0] / "text", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert ask() == ["A", "b", "c", "a"]


def test_a_file_written_just_now_is_not_trusted(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "SETTLED_SECONDS", 3600.0)
    assert [ask()[-1], ask()[-1]] == ["abc", "abc"]


def test_an_answer_that_depends_on_more_than_files_is_not_remembered(ask: Ask) -> None:
    ask(is_lasting=lambda text: text != "b")
    assert ask()[-1] == "b"


def test_an_error_is_an_answer_and_is_not_remembered(folders: list[Path], ask: Ask) -> None:
    (folders[2] / "text").write_text("broken")
    for _ in range(2):
        a, b, error, read = ask()
        assert (a, b) == ("a", "b")
        assert isinstance(error, CorruptData)
        assert f"{folders[2]}: cannot be read (ValueError('it is broken'))" in str(error)
    assert read == "c"


def test_fewer_folders_forget_no_others_and_removed_ones_are_forgotten(
    folders: list[Path], ask: Ask, own_index: Path
) -> None:
    ask()
    (folders[0] / "text").write_text("A")
    assert ask(folders[:2]) == ["A", "b", "a"]
    assert ask()[-1] == ""
    (folders[2] / "text").unlink()
    folders[2].rmdir()
    (folders[0] / "text").write_text("again")
    ask(folders[:2])
    (file,) = own_index.rglob("cache.db")
    with closing(sqlite3.connect(file)) as connection:
        kept = {row[0] for row in connection.execute("SELECT directory FROM answers_1")}
    assert kept == {os.fsencode(folder) for folder in folders[:2]}


def test_runs_whose_names_are_not_text_are_remembered(folders: list[Path], ask: Ask) -> None:
    odd = Path(os.fsdecode(os.fsencode(folders[0].parent) + b"/\xff"))
    odd.mkdir()
    (odd / "text").write_text("odd")
    assert ask([*folders, odd])[3] == "odd"
    assert ask([*folders, odd])[-1] == ""


def test_few_folders_make_no_index(ask: Ask, own_index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "MIN_TO_REMEMBER", 4)
    assert [ask()[-1], ask()[-1]] == ["abc", "abc"]
    assert list(own_index.rglob("*")) == []


# Runs


def rows(folder: Path) -> list[list[object]]:
    listing = list_runs(folder, columns=["state", "position", "lr", "loss"])
    return [list(row[1:]) for row in listing.rows]


def test_runs_that_resume_or_change_are_listed_as_they_are_now(quick_path: Path) -> None:
    runs = quick_path / "runs"
    make_run(runs / "a", {"lr": 1}, train_lines([0.5]))
    make_run(runs / "b", {"lr": 2}, train_lines([0.5]), is_finished=False)
    for _ in range(2):
        assert rows(runs) == [["finished", 1, 1, 0.5], ["stopped", 1, 2, 0.5]]
    with begin(ResultDirectory(LocalStore(runs / "b")), ResultPlan("model", {"lr": 2}, b"script")) as result:
        result.restore()
        assert rows(runs)[1] == ["running", 1, 2, 0.5]
        result.append("metrics.jsonl", train_lines([0.25])[0])
        result.save({"weights": 1}, 2)
        assert rows(runs)[1] == ["running", 2, 2, 0.25]
        result.append("metrics.jsonl", train_lines([0.125])[0])
        result.finish({"weights": 1}, 3)
    for _ in range(2):
        assert rows(runs) == [["finished", 1, 1, 0.5], ["finished", 3, 2, 0.125]]
    config = runs / "a/model_config.json"
    config.write_text(json.dumps({"lr": 7}))  # nobody should, but the files are the truth
    assert rows(runs)[0][2] == 7
    assert [target.config for target in find_targets([runs])] == [{"lr": 7}, {"lr": 2}]
    (runs / "a/logs/metrics.jsonl").write_bytes(b"not json\n")
    listing = list_runs(runs)
    assert "a/logs/metrics.jsonl, line 1" in listing.unreadable[0]


def test_a_stopped_run_is_read_once_and_then_remembered(quick_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_run(quick_path / "run", {}, is_finished=False)
    reads: list[str] = []
    attributes, read = LocalStore.attributes, LocalStore.read

    def count_attributes(store: LocalStore, directory: str = "") -> Attributes:
        reads.append("attributes")
        return attributes(store, directory)

    def count_read(store: LocalStore, path: str, start: int = 0, stop: int | None = None) -> bytes:
        reads.append(path)
        return read(store, path, start, stop)

    monkeypatch.setattr(LocalStore, "attributes", count_attributes)
    monkeypatch.setattr(LocalStore, "read", count_read)
    for _ in range(2):
        facts = require_answers(read_facts([quick_path / "run"]))
        assert facts[0]["state"] == "stopped"
    assert sorted(reads) == ["attributes", "status.json"]


def test_a_run_whose_process_may_die_is_not_remembered(quick_path: Path) -> None:
    with begin(ResultDirectory(LocalStore(quick_path / "run")), ResultPlan("model", {}), heartbeat_seconds=None):
        assert not require_answers(read_facts([quick_path / "run"]))[0]["is_settled"]
