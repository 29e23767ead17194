"""The example in the help of every command works as printed, and answers programs with --json."""

import glob
import json
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.commands import COMMANDS, run_here


def example_of(name: str) -> str:
    return " ".join(COMMANDS[name].help.partition("Example: ")[2].split())


SCRIPT = """
import samovar, torch
from samovar.embeddings import HashAdagrad
from torch import nn

class Clicks(samovar.BaseEmbeddingModel):
    def __init__(self):
        super().__init__({"ad": 2})
        self.top = nn.Linear(2, 1)

    def forward(self, inputs):
        return self.top(self.embedding.concat(inputs)).squeeze(1)

def loss(output, targets):
    return nn.functional.binary_cross_entropy_with_logits(output, targets["clicked"])

def build(params):
    print("a script may print what it likes")
    model = Clicks()
    optimizers = {"emb": HashAdagrad(model.hash_embeddings(), lr=params.lr, ttl=24)}
    return samovar.Learner(model, optimizers, loss, torch.sigmoid)
"""
STAGE = """
def main(params, out):
    print("and so may a stage")
    (out / "copies.txt").write_text("x" * params.get("copies", 1))
"""
ONLINE = {
    "pipeline": "online",
    "model": {"lr": 0.02},
    "num_threads": 1,
    "train_data": {"table": "tables/clicks", "targets": ["clicked"]},
    "evaluation": {"eval_confs": [{"name": "ahead", "table": "tables/clicks", "shifts": [1], "keys": ["hit"]}]},
}
RECIPE = {
    "source": "rows.csv",
    "time_field": "time",
    "categorical_factors": ["ad"],
    "realvalue_factors": ["clicked"],
    "keys": ["hit"],
}
FILES = {
    "rows.csv": "time,ad,clicked,hit\n"
    + "".join(f"{1_609_459_200 + 60 * n},{n % 7},{int(n % 3 == 0)},{n}\n" for n in range(240)),
    "clicks.json": json.dumps(RECIPE),
    "model.py": SCRIPT,
    "online.json": json.dumps(ONLINE),
    "new_config.json": json.dumps({**ONLINE, "model": {"lr": 0.5}}),
    "augment.py": STAGE,
    "augment.json": "{}",
    "lr.json": json.dumps({"base": "online.json", "script": "model.py", "grid": {"model.lr": [0.03]}}),
    "runs/one.json": json.dumps({**ONLINE, "train_data": {"table": "../tables/clicks", "targets": ["clicked"]}}),
    "data/x": "x",
}
Check = Callable[[Any], bool]
STORY: list[tuple[str, Check]] = [
    ("recipe", lambda answer: answer["recipe"]["columns"]["time"] == "time" and answer["columns"]["ad"]["is_doubtful"]),
    ("brew", lambda answer: answer["was_finished"] and answer["version"] == 1),
    ("table", lambda answer: answer["minibatch"] == 0 and answer["columns"]["ad"]["data"][:3] == [0, 1, 2]),
    ("train", lambda answer: answer["directory"] == "models/click_1"),
    ("predict", lambda answer: answer["directory"] == "predictions/new"),
    ("metrics", lambda answer: answer[0]["name"] == "ahead" and 0 < answer[0]["auc"] < 1),
    ("export", lambda answer: answer["directory"] == "bundles/click_1"),
    ("embeddings", lambda answer: answer[0]["ids"] == 7 and answer[0]["ttl"] == 24),
    ("run", lambda answer: answer["was_finished"]),
    ("chain", lambda answer: answer[0]["sources"][0]["sources"][0]["state"] == "raw files"),
    ("why", lambda answer: answer["stale"] == []),
    ("ls", lambda answer: sorted(run["model.lr"] for run in answer) == [0.02, 0.04]),
    ("show", lambda answer: answer["state"] == "finished" and answer["config"]["model"]["lr"] == 0.02),
    ("diff", lambda answer: sorted(answer["differences"]["model.lr"].values()) == [0.02, 0.04, 0.5]),
    ("clone", lambda answer: answer["path"] == "onlineb.json" and answer["changes"]["model.lr"]["new"] == 0.01),
    ("plot", lambda answer: {point["metric"] for point in answer} == {"ahead+1h.auc"}),
    ("report", lambda answer: answer["runs"] == ["models/click_1", "models/click_2"]),
    ("tree", lambda answer: [each["branch"] for each in answer] == [0, 1]),
    ("audit", lambda answer: len(answer) == 3 and not any(each["differences"] for each in answer)),
    ("replay", lambda answer: answer["differences"] == [] and answer["files"] > 3),
    ("checksum", lambda answer: answer["files"] == 1 and answer["changed"] == []),
    ("experiment", lambda answer: answer["parts"][0]["state"] == "done" and answer["parts"][0]["metrics"]["loss"] > 0),
    ("queue add", lambda answer: answer[0]["how"] == "known"),
    ("queue ls", lambda answer: answer == []),
    ("queue show", lambda answer: answer["state"] == "waiting" and answer["priority"] == 5),
    ("queue cancel", lambda answer: answer[0]["state"] == "cancelled" and not answer[0]["is_changed"]),
    ("queue retry", lambda answer: answer == []),
    ("queue rebuild", lambda answer: answer == {"known": 2}),
    ("worker", lambda answer: answer == {"taken": 0, "failed": []}),
    ("copy", lambda answer: (answer["kind"], answer["num_copied"]) == ("a model", 0)),
    ("gc", lambda answer: answer == []),
    ("rm", lambda answer: [each["kind"] for each in answer] == ["a model"]),
]
ELSEWHERE = {"verify-resume", "serve", "ui"}
"""The first forks, which a process that has used torch must not: see test_training.py. The others serve until
ctrl-C: see tests/serving and tests/ui."""


@pytest.fixture
def folder(quick_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(quick_path)
    for name, text in FILES.items():
        (quick_path / name).parent.mkdir(exist_ok=True)
        (quick_path / name).write_text(text)
    return quick_path


def typed(line: str) -> list[str]:
    """The words that a shell would pass."""
    words = shlex.split(line.partition(" > ")[0])[1:]
    return [each for word in words for each in (sorted(glob.glob(word)) if "*" in word else [word])]


def prepare(name: str) -> None:
    """Make what the next example needs."""
    if name == "predict":
        shutil.copytree("tables/clicks", "tables/new")
        run_here(
            ["train", "online.json", "--script", "model.py", "--conf", '{"model.lr": 0.04}', "--out", "models/click_2"]
        )
    if name == "checksum":
        run_here(["checksum", "data", "--save", "data.sha256"])


def test_every_example_runs_and_answers_programs(folder: Path) -> None:
    assert {name for name, _ in STORY} == COMMANDS.keys() - ELSEWHERE
    for name, is_right in STORY:
        prepare(name)
        words = typed(example_of(name))
        if name != "rm":  # it cannot be done twice
            run_here(words)
        answer = json.loads(run_here([*words, "--json"]))
        assert is_right(answer), f"{name}: {answer}"
    assert Path("click_1.png").stat().st_size > 1000
    assert Path("tree.svg").stat().st_size > 1000


def test_table_answers_programs(folder: Path) -> None:
    run_here(["brew", "clicks.json", "--out", "tables/clicks"])
    facts = json.loads(run_here(["table", "tables/clicks", "--json"]))
    assert (facts["minibatches"], facts["examples"], facts["complete_until"]) == (4, 240, None)
    assert facts["batch_sizes"] == {"60": 4}
    written = json.loads(run_here(["table", "tables/clicks", "--export", "rows.parquet", "--json"]))
    assert written == {"path": "rows.parquet", "rows": 240}
