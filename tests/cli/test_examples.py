"""What every command has: one clear line, an example that works as it stands, an answer in JSON, and no colours when
nobody sees them."""

import glob
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
from tests.cli.here import run
from tests.cli.test_cli import on_a_terminal, samovar

from samovar.cli.app import app

MOST_LETTERS = 60  # what a terminal of 80 columns shows beside the longest name


def find_commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from find_commands(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


COMMANDS = dict(find_commands(typer.main.get_command(app)))


def example_of(name: str) -> str:
    return " ".join(COMMANDS[name].help.partition("Example: ")[2].split())


@pytest.mark.parametrize("name", COMMANDS)
def test_help_is_one_clear_line_then_more_then_an_example(name: str) -> None:
    first, *_, example = COMMANDS[name].help.split("\n\n")
    assert re.fullmatch(r"[A-Z][^\n]*\.", first.strip()), first
    assert len(first) <= MOST_LETTERS, first
    assert example.strip().startswith(f"Example: samovar {name} ")
    assert any("--json" in param.opts for param in COMMANDS[name].params)


# One story, in which every example runs

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
    "model": {"lr": 0.05},
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
    "augmentation.json": "{}",
    "lr.json": json.dumps({"base": "online.json", "script": "model.py", "grid": {"model.lr": [0.03]}}),
    "runs/one.json": json.dumps({**ONLINE, "train_data": {"table": "../tables/clicks", "targets": ["clicked"]}}),
    "data/x": "x",
}
Told = Callable[[Any], bool]
STORY: list[tuple[str, Told]] = [
    ("brew", lambda told: told["was_finished"] and told["version"] == 1),
    ("table", lambda told: told["row"] == 0 and told["columns"]["ad"]["data"][:3] == [0, 1, 2]),
    ("train", lambda told: told["directory"] == "models/click_1"),
    ("predict", lambda told: told["directory"] == "predictions/tomorrow"),
    ("metrics", lambda told: told[0]["name"] == "ahead" and 0 < told[0]["auc"] < 1),
    ("embeddings", lambda told: told[0]["ids"] == 7 and told[0]["ttl"] == 24),
    ("run", lambda told: told["was_finished"]),
    ("chain", lambda told: told[0]["sources"][0]["sources"][0]["state"] == "raw files"),
    ("why", lambda told: told["stale"] == []),
    ("ls", lambda told: sorted(run["model.lr"] for run in told) == [0.02, 0.04]),
    ("show", lambda told: told["state"] == "finished" and told["config"]["model"]["lr"] == 0.02),
    ("diff", lambda told: sorted(told["differences"]["model.lr"].values()) == [0.02, 0.04, 0.5]),
    ("clone", lambda told: told["path"] == "onlineb.json" and told["changes"]["model.lr"]["new"] == 0.01),
    ("plot", lambda told: {point["metric"] for point in told} == {"ahead+1h.auc"}),
    ("tree", lambda told: [each["branch"] for each in told] == [0, 1]),
    ("audit", lambda told: len(told) == 3 and not any(each["differences"] for each in told)),
    ("replay", lambda told: told["differences"] == [] and told["files"] > 3),
    ("checksum", lambda told: told["files"] == 1 and told["changed"] == []),
    ("experiment", lambda told: told["parts"][0]["state"] == "done" and told["parts"][0]["metrics"]["loss"] > 0),
    ("queue add", lambda told: told[0]["how"] == "known"),
    ("queue ls", lambda told: told == []),
    ("queue show", lambda told: told["state"] == "waiting" and told["priority"] == 5),
    ("queue cancel", lambda told: told[0]["state"] == "cancelled" and not told[0]["is_changed"]),
    ("queue retry", lambda told: told == []),
    ("queue rebuild", lambda told: told == {"known": 2}),
    ("worker", lambda told: told == {"taken": 0, "failed": []}),
]
ELSEWHERE = "verify-resume"  # it forks, which a process that has used torch must not: see test_train.py


@pytest.fixture
def folder(quick_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(quick_path)
    for name, text in FILES.items():
        (quick_path / name).parent.mkdir(exist_ok=True)
        (quick_path / name).write_text(text)
    return quick_path


def typed(line: str) -> list[str]:
    """As a shell would hand it over."""
    words = shlex.split(line.partition(" > ")[0])[1:]
    return [each for word in words for each in (sorted(glob.glob(word)) if "*" in word else [word])]


def prepare(name: str) -> None:
    """What the next example takes for granted."""
    if name == "predict":
        shutil.copytree("tables/clicks", "tables/tomorrow")
        run(["train", "online.json", "--script", "model.py", "--conf", '{"model.lr": 0.04}', "--out", "models/click_2"])
    if name == "checksum":
        run(["checksum", "data", "--save", "data.sha256"])


def test_every_example_runs_and_answers_programs(folder: Path) -> None:
    assert {name for name, _ in STORY} == COMMANDS.keys() - {ELSEWHERE}
    for name, is_told in STORY:
        prepare(name)
        words = typed(example_of(name))
        run(words)
        told = json.loads(run([*words, "--json"]))
        assert is_told(told), f"{name}: {told}"
    assert Path("click_1.png").stat().st_size > 1000
    assert Path("kin.svg").stat().st_size > 1000


def test_what_json_cannot_say_is_null(folder: Path) -> None:
    run(["brew", "clicks.json", "--out", "tables/clicks"])
    facts = json.loads(run(["table", "tables/clicks", "--json"]))
    assert (facts["minibatches"], facts["examples"], facts["complete_until"]) == (4, 240, None)
    assert facts["batch_sizes"] == {"60": 4}
    written = json.loads(run(["table", "tables/clicks", "--export", "rows.parquet", "--json"]))
    assert written == {"path": "rows.parquet", "rows": 240}


# Colours

COLOUR = re.compile(r"\x1b\[[0-9;]*[34][0-9][0-9;]*m")


@pytest.mark.parametrize("words", [["--help"], ["queue", "add", "--help"], ["no-such-command"], ["show", "none"]])
def test_nothing_is_coloured_for_a_file(words: list[str]) -> None:
    done = samovar(*words)
    assert "\x1b" not in done.stdout + done.stderr


def test_a_terminal_gets_colours_unless_it_wants_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert COLOUR.search(on_a_terminal("--help", terminal="xterm-256color"))
    monkeypatch.setenv("NO_COLOR", "1")
    assert not COLOUR.search(on_a_terminal("--help", terminal="xterm-256color"))


def test_a_pipe_that_closes_early_is_no_error(folder: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "samovar", "--help"], stdout=writing, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(writing)
    assert "Traceback" not in done.stderr
