"""The queue and its worker on the command line, with real jobs."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.waiting import wait_until

from samovar.results import open_directory

RECIPE = {"source": "rows.csv", "realvalue_factors": ["x"], "batch_size": 2}


def samovar(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "samovar", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def ok(folder: Path, *words: str) -> str:
    done = samovar(folder, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def folder(quick_path: Path) -> Path:
    (quick_path / "rows.csv").write_text("x\n1\n2\n3\n")
    for name in ("one", "two"):
        (quick_path / f"{name}.json").write_text(json.dumps(RECIPE))
    (quick_path / "bad.json").write_text(json.dumps({**RECIPE, "source": "none.csv"}))
    return quick_path


def test_configs_are_added_done_shown_and_a_lost_queue_is_rebuilt(folder: Path) -> None:
    added = ok(folder, "queue", "add", "one.json", "two.json", "bad.json", "--kind", "brew")
    assert added.splitlines()[0] == f"job 1: {folder}/one: added"
    again = ok(folder, "queue", "add", "one.json", "--kind", "brew")
    assert again == f"job 1: {folder}/one: already in the queue (waiting), nothing to do\n"

    ended = samovar(folder, "worker", "--until-empty")
    assert ended.returncode == 1
    assert "1 of its jobs failed (3). See `samovar queue ls --failed`" in " ".join(ended.stderr.split())
    said = ended.stdout
    assert said.startswith(f"job 1: brew {folder}/one\njob 1: done\n")
    assert said.endswith("3 taken, none waiting\n")
    assert "job 3: wrong: exit code 2: error: source: no such file: none.csv" in said
    assert ok(folder, "worker", "--once") == "no job is waiting\n"

    jobs = json.loads(ok(folder, "queue", "ls", "--json"))
    assert [(job["id"], job["state"]) for job in jobs] == [(1, "done"), (2, "done"), (3, "failed")]
    assert "none.csv" in ok(folder, "queue", "ls", "--failed")
    shown = ok(folder, "queue", "show", "3")
    assert "exit code  2" in shown
    assert "end of its log:\nerror: source: no such file: none.csv" in shown

    assert ok(folder, "queue", "retry", "--failed") == "job 3: waiting again\n"
    assert ok(folder, "queue", "cancel", "3", "1") == "job 3: cancelled\njob 1: is done, nothing to do\n"

    (folder / "queue.db").unlink()
    assert ok(folder, "queue", "rebuild", ".") == "2 done\n"
    assert ok(folder, "queue", "add", "two.json", "--kind", "brew").endswith("nothing to do\n")


def test_a_user_error_is_reported_with_exit_code_2(folder: Path) -> None:
    for words, message in [
        (("queue", "ls"), "no queue there. Check its address"),
        (("worker",), "no queue there"),
        (("queue", "add", "one.json"), "train needs a Python file"),
        (("queue", "add", "one.json", "two.json", "--kind", "brew", "--out", "x"), "--out names one directory"),
        (("experiment", "one.json", "-j", "0"), "which --db must name"),
    ]:
        done = samovar(folder, *words)
        assert done.returncode == 2, done.stdout
        assert message in " ".join(done.stderr.replace("│", " ").split())
    assert not (folder / "queue.db").exists()
    ok(folder, "queue", "add", "one.json", "--kind", "brew")
    huge = "99999999999999999999"
    for words, message in [
        (("show", huge), f"has no job {huge}. See `samovar queue ls`"),
        (("cancel", huge), f"has no job {huge}"),
        (
            ("add", "two.json", "--kind", "brew", "--priority", huge),
            f"priority must be from -2147483647 to 2147483647, got {huge}",
        ),
    ]:
        done = samovar(folder, "queue", *words)
        assert (done.returncode, done.stdout) == (2, ""), done.stderr
        assert message in done.stderr


SCRIPT = """
import torch
from torch import nn
import samovar

def build(params):
    model = nn.Linear(1, 1)
    forward = model.forward
    model.forward = lambda inputs: forward(inputs["x"].unsqueeze(1)).squeeze(1)
    loss = lambda output, targets: nn.functional.mse_loss(output, targets["x"])
    return samovar.Learner(model, [torch.optim.SGD(model.parameters(), lr=0.01)], loss)
"""


def test_a_stopped_worker_puts_its_training_back_into_the_queue(folder: Path) -> None:
    ok(folder, "brew", "one.json")
    (folder / "script.py").write_text(SCRIPT)
    data = {"table": "one", "features": ["x"], "targets": ["x"], "allow_targets_as_features": True}
    data |= {"epoch_count": 1_000_000, "uri_granularity": 1}
    config = {"pipeline": "offline", "train_data": data, "num_threads": 1, "snapshotter": {"frequency": 0}}
    (folder / "net.json").write_text(json.dumps(config))
    ok(folder, "queue", "add", "net.json", "--script", "script.py")
    log = (folder / "worker.log").open("w")
    with (
        log,
        subprocess.Popen([sys.executable, "-m", "samovar", "worker"], cwd=folder, stdout=log, stderr=log) as worker,
    ):
        wait_until(lambda: _position(folder / "net") > 3, "the training has saved something")
        for _ in range(2):  # as `timeout` does: to the process, and to its group
            os.kill(worker.pid, signal.SIGTERM)
        assert worker.wait() == 75, (folder / "worker.log").read_text()
    log_text = (folder / "worker.log").read_text()
    assert "is back in the queue and will resume\nto continue: " in log_text
    assert log_text.endswith(" -m samovar worker\n")
    [job] = json.loads(ok(folder, "queue", "ls", "--json"))
    assert (job["state"], job["attempts"], job["exit_code"]) == ("waiting", 0, 75)
    assert open_directory(folder / "net").describe_state() == "stopped"


def _position(directory: Path) -> int:
    try:
        status = open_directory(directory).status
    except ValueError:
        return 0
    return 0 if status is None or status.position is None else int(status.position["next_uri"])
