"""Every kind of job, run by real workers: brew a table, train a net on it, predict, and count the predictions with a
script. Once with calls, once on the command line."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from samovar.queue import Worker, make_task, open_queue, rebuild, worker_name
from samovar.results import open_directory

DB = "sqlite:///queue.db"
SCRIPTS = {
    "net.py": """
import torch
from torch import nn
import samovar

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.line = nn.Linear(1, 1)

    def forward(self, inputs):
        return self.line(inputs["x"].unsqueeze(1)).squeeze(1)

def build(params):
    net = Net()
    loss = lambda output, targets: nn.functional.mse_loss(output, targets["y"])
    return samovar.Learner(net, [torch.optim.SGD(net.parameters(), lr=params.lr)], loss, predict=lambda output: output)
""",
    "count.py": """
import pyarrow.parquet as pq

def main(params, out):
    files = sorted((out.source("told") / "evaluation/predictions").glob("*.parquet"))
    (out / "count.txt").write_text(str(sum(pq.read_metadata(file).num_rows for file in files)))
""",
}
TRAINED_ON = {"table": "table", "features": ["x"], "targets": ["y"], "epoch_count": 2}
JOBS = {
    "table": ("brew", None, {"source": ["rows.csv"], "realvalue_factors": ["x", "y"], "keys": ["id"], "batch_size": 2}),
    "net": ("train", "net.py", {"pipeline": "offline", "model": {"lr": 0.01}, "train_data": TRAINED_ON}),
    "told": ("predict", None, {"source": "net", "table": "table", "keys": ["id"]}),
    "count": ("run", "count.py", {"source": ["told"]}),
}


@pytest.fixture
def folder(quick_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(quick_path)
    (quick_path / "rows.csv").write_text("id,x,y\n" + "".join(f"{n},{n},{2 * n}\n" for n in range(5)))
    for name, text in SCRIPTS.items():
        (quick_path / name).write_text(text)
    for name, (_, _, config) in JOBS.items():
        (quick_path / f"{name}.json").write_text(json.dumps(config))
    return quick_path


def by_calls(folder: Path) -> None:
    queue = open_queue(DB, is_new=True)
    tasks = [
        make_task(Path(f"{name}.json"), kind=kind, script=None if script is None else Path(script))
        for name, (kind, script, _) in JOBS.items()
    ]
    assert [added.how for added in queue.add(tasks)] == ["added"] * 4
    Worker(queue, worker_name(), lambda line: None).run_until_empty()


def on_the_command_line(folder: Path) -> None:
    for number, (name, (kind, script, _)) in enumerate(JOBS.items(), 1):
        words = ["queue", "add", f"{name}.json", "--kind", kind, *(() if script is None else ("--script", script))]
        assert samovar(*words) == f"job {number}: {folder}/{name}: added\n"
    said = samovar("worker", "--until-empty")
    expected = [
        line
        for number, (name, (kind, _, _)) in enumerate(JOBS.items(), 1)
        for line in (f"job {number}: {kind} {folder}/{name}", f"job {number}: done")
    ]
    assert said.splitlines() == [*expected, "4 taken, none waiting"]


def samovar(*words: str) -> str:
    done = subprocess.run([sys.executable, "-m", "samovar", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("do_all", [pytest.param(by_calls, marks=pytest.mark.long), on_the_command_line])
def test_a_worker_runs_every_kind_and_adding_it_again_changes_nothing(
    folder: Path, do_all: Callable[[Path], None]
) -> None:
    do_all(folder)
    queue = open_queue(DB)
    assert [(job.task.kind, job.state, job.error) for job in queue.jobs()] == [
        (kind, "done", None) for kind, _, _ in JOBS.values()
    ]
    assert (folder / "count/files/count.txt").read_text() == "5"
    assert all(open_directory(folder / name).is_finished for name in JOBS)
    tasks = [
        make_task(Path(f"{name}.json"), kind=kind, script=None if script is None else Path(script))
        for name, (kind, script, _) in JOBS.items()
    ]
    assert [(added.how, added.job.state) for added in queue.add(tasks)] == [("known", "done")] * 4
    new = open_queue("sqlite:///new.db", is_new=True)
    assert rebuild(new, [folder], max_attempts=3) == {"done": 4}
    assert {(Path(job.task.out).name, job.task.kind) for job in new.jobs()} == {
        (name, kind) for name, (kind, _, _) in JOBS.items()
    }
    assert [added.how for added in new.add(tasks)] == ["known"] * 4
