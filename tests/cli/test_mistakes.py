"""Mistakes that users type, on the command line and in Python: each is answered by one clear sentence."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from tests.cli.commands import run_here
from tests.cli.mistakes import COLUMNS, fill, make_log

import samovar
from samovar.cli.app import app
from samovar.errors import Diverged, SamovarError

ENTRIES = [entry.split("\n", 1) for entry in Path(__file__).with_name("mistakes.txt").read_text().strip().split("\n\n")]
"""What is typed, and the answer; … is the current folder."""
COMMANDS = [(typed.removeprefix("$ "), answer) for typed, answer in ENTRIES if typed.startswith("$ ")]
CALLS = [(typed.removeprefix(">>> "), answer) for typed, answer in ENTRIES if typed.startswith(">>> ")]


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    place = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with TemporaryDirectory(prefix="samovar-test-", dir=place) as name, pytest.MonkeyPatch.context() as patch:
        patch.chdir(name)
        fill()
        yield Path(name)


def answer_of(error: Exception, folder: Path) -> str:
    """The first line, without long lists of names; others show a place in a file, or a difference."""
    text: str = error.format_message() if hasattr(error, "format_message") else str(error)  # of a wrong usage
    first = text.replace(str(folder.resolve()), "…").replace(str(folder), "…").splitlines()[0]
    return re.sub(r"Available: (?:[^,]+, ){8,}.*", "Available: …", first)


@pytest.mark.parametrize(("line", "answer"), COMMANDS, ids=[line for line, _ in COMMANDS])
def test_a_mistake_on_the_command_line_is_answered_by_one_sentence(
    line: str, answer: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    with pytest.raises(Exception) as caught:  # noqa: PT011  # a wrong usage is an error of typer
        run_here(shlex.split(line))
    assert answer_of(caught.value, folder) == answer
    assert isinstance(caught.value, SamovarError) or hasattr(caught.value, "format_message")


@pytest.mark.parametrize(("call", "answer"), CALLS, ids=[call for call, _ in CALLS])
def test_a_mistake_in_python_is_answered_by_one_sentence(
    call: str, answer: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {"samovar": samovar, "frame": make_log()}
    with pytest.raises(SamovarError) as caught:
        eval(call, names)
    assert answer_of(caught.value, folder) == answer


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_an_input_that_is_not_finite_is_named_with_its_place(
    value: float, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    frame = make_log()
    frame.loc[100, "price"] = value
    frame.to_csv(f"{value}.csv", index=False, na_rep="nan")
    table = samovar.brew(f"{value}.csv", f"with_{value}", columns=COLUMNS, batch_size=64, progress=False)
    with pytest.raises(Diverged, match=f"The input 'price' is {value} in row 36 of minibatch 1 of .*with_{value}"):
        samovar.train("model.py", table, targets=["clicked"], model_dir=f"on_{value}", progress=False, num_threads=1)


def test_a_source_of_rows_in_memory_is_not_called_a_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    samovar.brew(make_log(), "in_memory", columns=COLUMNS, progress=False)
    assert run_here(["chain", "in_memory"]).rstrip().endswith("rows in memory (a pandas DataFrame)  [not kept]")


def test_the_counts_of_a_queue_are_those_of_the_jobs_that_are_listed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    db = "sqlite:///counted.db"
    run_here(["queue", "add", "recipe.json", "--kind", "brew", "--db", db])
    run_here(["queue", "add", "offline.json", "--script", "model.py", "--db", db])
    for state, notes in (
        ([], "1 done, 1 waiting\n"),
        (["--state", "done"], "1 done shown; in the queue: 1 done, 1 waiting\n"),
        (["--failed"], "no jobs shown; in the queue: 1 done, 1 waiting\n"),
    ):
        app(["queue", "ls", *state, "--db", db], standalone_mode=False)
        assert capsys.readouterr().err == notes


def test_there_are_many_mistakes() -> None:
    assert len(COMMANDS) + len(CALLS) == len(ENTRIES) > 85
