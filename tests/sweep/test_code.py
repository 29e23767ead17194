"""Experiments whose code changes: nothing is made again, and no table mixes code unless it is told to."""

import csv
import json
import logging
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.queue.fleet import TOY, finishes

from samovar.errors import Conflict
from samovar.queue import open_queue
from samovar.queue.task import Task, make_task
from samovar.signals import StopRequest
from samovar.sweep import Done
from samovar.sweep.experiment import Request, run_parts


def command(task: Task) -> list[str]:
    assert task.script is not None
    return [sys.executable, task.script, task.config_path, task.out]


def run(folder: Path, steps: list[int], **options: Any) -> Done:
    document = {"base": {"name": "toy"}, "kind": "run", "script": "toy.py", "grid": {"steps": steps}}
    (folder / "exp.json").write_text(json.dumps(document))
    request = Request(folder / "exp.json", **{"make_command": command, **options})
    return run_parts(request, StopRequest(), lambda states: None)


@pytest.fixture
def folder(quick_path: Path) -> Path:
    """With an experiment of one part, and a script that has changed since."""
    script = quick_path / "toy.py"
    script.write_bytes(TOY.read_bytes())
    run(quick_path, [1])
    script.write_bytes(TOY.read_bytes() + b"# new\n")
    return quick_path


def test_code_that_changed_is_refused_if_a_part_is_missing(folder: Path) -> None:
    with pytest.raises(Conflict, match=r"(?s)would mix results of different code.*--mix-code.*\+# new"):
        run(folder, [1, 2])
    assert finishes(folder / "exp") == ["0"]
    done = run(folder, [1, 2], mix_code=True)
    assert finishes(folder / "exp") == ["0", "1"]
    rows = list(csv.DictReader((folder / "exp/table.csv").read_text().splitlines()))
    assert [row["code"] for row in rows] == [row.code for row in done.table.rows]
    assert rows[0]["code"] != rows[1]["code"]
    with pytest.raises(Conflict, match="would mix results of different code"):
        run(folder, [1, 2])


def test_code_that_changed_is_reported_if_all_parts_are_finished(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "samovar"):
        run(folder, [1])
    assert "the code has changed since these parts were made, and they are not made again" in caplog.text
    assert "+# new" in caplog.text
    assert finishes(folder / "exp") == ["0"]


def test_code_that_changes_while_an_experiment_runs_fails_the_parts_that_are_left(folder: Path) -> None:
    script = folder / "toy.py"

    def change(task: Task) -> list[str]:
        words = command(task)
        script.write_bytes(script.read_bytes() + b"# newer\n")  # after this part has started
        copy = folder / "started.py"
        copy.write_bytes(script.read_bytes().removesuffix(b"# newer\n"))
        return [words[0], str(copy), *words[2:]]

    done = run(folder, [1, 2], out=folder / "other", make_command=change)
    assert [row.state for row in done.table.rows] == ["done", "failed"]
    assert "would mix results of different code" in done.errors["1"]


def test_the_queue_reports_changed_code_of_a_finished_directory(folder: Path) -> None:
    task = make_task(folder / "exp/configs/0.json", kind="run", script=folder / "toy.py", out=folder / "exp/0")
    queue = open_queue(f"sqlite:///{folder}/queue.db", is_new=True)
    [added] = queue.add([task])
    assert added.note is not None
    assert "+# new" in added.note
    (folder / "toy.py").write_bytes(TOY.read_bytes())
    assert queue.add([task])[0].note is None
    (folder / "toy.py").write_text("def main(")
    assert "finished, but" in str(queue.add([task])[0].note)
