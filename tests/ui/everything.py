"""A folder that has one of everything that a page can show, made by real commands: trainings, tables, predictions,
stages, a queue; finished, stopped, failed, dead, stale, damaged."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from tests.waiting import wait_until

from samovar.cli.app import app
from samovar.errors import SamovarError
from samovar.queue import make_task, open_queue
from samovar.results import ResultDirectory, ResultPlan, begin, open_directory
from samovar.results.artifacts import METRICS_LOG
from samovar.store import LocalStore

SCRIPT = """
import samovar, torch
from samovar.embeddings import HashAdagrad
from torch import nn

class Clicks(samovar.BaseEmbeddingModel):
    def __init__(self, dim):
        super().__init__({"user": dim, "ad": dim})
        self.top = nn.Linear(2 * dim, 1)

    def forward(self, inputs):
        return self.top(self.embedding.concat(inputs)).squeeze(1)

def loss(output, targets):
    return nn.functional.binary_cross_entropy_with_logits(output, targets["clicked"])

def build(params):
    model = Clicks(params.get("dim", 4))
    optimizers = {
        "emb": HashAdagrad(model.hash_embeddings(), lr=params.lr, ttl=params.get("ttl", 12)),
        "top": torch.optim.Adagrad(model.dense_parameters(), lr=params.lr),
    }
    return samovar.Learner(model, optimizers, loss, torch.sigmoid)
"""
STAGE = """
def main(params, out):
    rows = out.source("source")
    (out / "count.txt").write_text("x" * params.get("copies", 1))
    (out / "page.html").write_text("<script>document.title = 'hacked'</script>")
    (out / "picture.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'><script>document.title='hacked'</script></svg>")
"""


def online(table: str = "tables/clicks", **model: Any) -> dict[str, Any]:
    return {
        "pipeline": "online",
        "seed": 1,
        "num_threads": 1,
        "model": {"lr": 0.05, **model},
        "train_data": {"table": table, "targets": ["clicked"]},
        "evaluation": {"eval_confs": [{"name": "next_hour", "table": table, "shifts": [1], "keys": ["hit"]}]},
    }


def write_rows(path: Path, num_hours: int, rows_per_hour: int, seed: int = 0) -> None:
    chance = np.random.default_rng(seed)
    taste, appeal = chance.normal(0, 1.2, 400), chance.normal(0, 0.8, 60)
    lines = ["time,hit,user,ad,clicked"]
    for number in range(num_hours * rows_per_hour):
        user, ad = int(chance.integers(400)), int(chance.zipf(1.4)) % 60
        clicked = chance.random() < 1 / (1 + np.exp(1.5 - taste[user] - appeal[ad]))
        moment = 1_700_002_800 + 3600 * (number // rows_per_hour) + number % rows_per_hour
        lines.append(f"{moment},hit-{number},{user},{ad},{int(clicked)}")
    path.write_text("\n".join(lines) + "\n")


def run(*words: object) -> None:
    """A command, in this process."""
    app([str(word) for word in words], standalone_mode=False)


def make_sources(folder: Path, num_hours: int = 6, rows_per_hour: int = 120) -> None:
    folder.mkdir(exist_ok=True)
    write_rows(folder / "rows.csv", num_hours, rows_per_hour)
    (folder / "model.py").write_text(SCRIPT)
    (folder / "stage.py").write_text(STAGE)
    recipe = {
        "source": "rows.csv",
        "time_field": "time",
        "categorical_factors": ["user", "ad"],
        "realvalue_factors": ["clicked"],
        "keys": ["hit"],
        "batch_size": 40,
    }
    (folder / "clicks.json").write_text(json.dumps(recipe))
    run("brew", folder / "clicks.json", "--out", folder / "tables/clicks")


def train(folder: Path, name: str, **model: Any) -> Path:
    config = folder / f"{name.replace('/', '_')}.json"
    config.write_text(json.dumps(online(str(folder / "tables/clicks"), **model)))
    run("train", config, "--script", folder / "model.py", "--out", folder / name)
    return folder / name


def make_everything(folder: Path) -> None:
    make_sources(folder)
    for seed, rate in ((1, 0.02), (2, 0.02), (1, 0.2)):
        config = {**online(str(folder / "tables/clicks"), lr=rate), "seed": seed}
        path = folder / f"lr{rate}_seed{seed}.json"
        path.write_text(json.dumps(config))
        run("train", path, "--script", folder / "model.py", "--out", folder / f"models/{path.stem}")
    first = folder / "models/lr0.02_seed1"
    run("predict", first, "--table", folder / "tables/clicks", "--keys", "hit", "--targets", "clicked",
        "--out", folder / "predictions/clicks")  # fmt: skip
    make_stale(folder)
    make_failed(folder / "models/failed")
    make_stopped(folder / "models/stopped")
    make_dead(folder / "models/dead")
    damaged = folder / "models/damaged"
    make_stopped(damaged)
    (damaged / "model_config.json").write_text("{ not json")
    queue = open_queue(f"sqlite:///{folder / 'queue.db'}", is_new=True)
    added = queue.add([make_task(folder / f"lr{name}.json", script=folder / "model.py") for name in
                       ("0.02_seed1", "0.02_seed2", "0.2_seed1")])  # fmt: skip
    queue.cancel([added[1].job.id])


def make_stale(folder: Path) -> None:
    """A stage whose source was made again from another config."""
    for name, copies in (("numbers", 3), ("total", 1)):
        source = {"source": str(folder / "tables/clicks" if name == "numbers" else folder / "stages/numbers")}
        (folder / f"{name}.json").write_text(json.dumps({**source, "copies": copies}))
        run("run", folder / "stage.py", "-c", folder / f"{name}.json", "--out", folder / f"stages/{name}")
    run("rm", folder / "stages/numbers", "--yes")
    (folder / "numbers.json").write_text(json.dumps({"source": str(folder / "tables/clicks"), "copies": 4}))
    run("run", folder / "stage.py", "-c", folder / "numbers.json", "--out", folder / "stages/numbers")


def plan(rate: float) -> ResultPlan:
    return ResultPlan("model", {"model": {"lr": rate}, "seed": 1}, SCRIPT.encode())


def line(number: int, **more: Any) -> dict[str, Any]:
    name = f"epoch {number}"
    return {"kind": "train", "uri": number, "name": name, "loss": 1 / (number + 1), "num_examples": 10, **more}


def make_failed(path: Path, advice: str = "lower the learning rate <b>now</b>") -> None:
    try:
        with begin(ResultDirectory(LocalStore(path)), plan(0.5), heartbeat_seconds=None) as result:
            result.restore()
            result.append(METRICS_LOG, line(0))
            result.save({"weights": 1}, {"next_uri": 1})
            raise SamovarError(f"the loss is not finite at URI 1: {advice}")
    except SamovarError:
        return


def make_stopped(path: Path) -> None:
    with begin(ResultDirectory(LocalStore(path)), plan(0.3), heartbeat_seconds=None) as result:
        result.restore()
        result.append(METRICS_LOG, line(0))
        result.save({"weights": 1}, {"next_uri": 1})


HOLDER = """
import sys, time
from pathlib import Path
from tests.ui.everything import line, plan
from samovar.results import ResultDirectory, begin
from samovar.results.artifacts import METRICS_LOG
from samovar.store import LocalStore
with begin(ResultDirectory(LocalStore(Path(sys.argv[1]))), plan(0.4)) as result:
    result.restore()
    result.append(METRICS_LOG, line(0))
    result.save({"weights": 1}, {"next_uri": 1})
    for number in range(1, 4):
        result.append(METRICS_LOG, line(number))
    time.sleep(3600)
"""


def start_holder(path: Path) -> "subprocess.Popen[bytes]":
    """A process that works in a directory, with one line in a snapshot and three in the open end of its log."""
    root = Path(__file__).parents[2]
    process = subprocess.Popen([sys.executable, "-c", HOLDER, str(path)], cwd=root)

    def is_working() -> bool:
        assert process.poll() is None, "the holder died"
        return path.exists() and LocalStore(path).read_tail(METRICS_LOG).count(b"\n") == 3

    wait_until(is_working, "the holder works")
    return process


def make_dead(path: Path) -> None:
    process = start_holder(path)
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait_until(lambda: open_directory(path).condition == "dead", "the run is seen dead")
