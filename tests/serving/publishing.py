"""A run that publishes each hour, and what its models must answer."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from tests.serving.clients import as_rows
from tests.training.rows import COLUMNS, SCRIPT, make_frame

import samovar
from samovar.runner import Run
from samovar.runner.step import frozen
from samovar.scoring.signature import Signature
from samovar.scoring.tiles import score

NUM_ROWS = 40
SLOW = """
import os, time

class Gate(samovar.Callback):
    def on_uri_begin(self, run):
        gate = os.environ.get("GATE")
        while gate and not os.path.exists(f"{gate}/{run.uri.number}"):
            time.sleep(0.01)

_build = build

def build(params):
    learner = _build(params)
    learner.callbacks = [Gate()]
    return learner
"""
CONFIG: dict[str, Any] = {
    "pipeline": "online",
    "num_threads": 1,
    "progress": False,
    "snapshotter": {"frequency": 0},
    "train_data": {"table": "table", "targets": ["clicked"]},
}


def make_place(folder: Path, hours: int) -> Path:
    """A table, a script and a config of a run that publishes. Ids expire and return."""
    folder.mkdir(parents=True, exist_ok=True)
    first = make_frame(2000, 1, seed=5)  # its many ids make a large base, so that several deltas follow it
    first["user"] = np.arange(2000, dtype=np.uint64) + 2**63
    frame = pd.concat([first, make_frame(50 * hours, hours)], ignore_index=True)
    columns = {name: role for name, role in COLUMNS.items() if name != "hit"}
    samovar.brew(frame, folder / "table", time="time", columns=columns, batch_size=50, progress=False)
    (folder / "model.py").write_text(SCRIPT + SLOW)
    (folder / "config.json").write_text(json.dumps({**CONFIG, "publish": True}))
    return folder


def make_rows() -> list[dict[str, Any]]:
    """The rows of all requests."""
    frame = make_frame(NUM_ROWS, seed=3)
    frame["user"] = make_frame(NUM_ROWS)["user"].array  # ids that training knows
    return as_rows(frame.drop(columns=["time", "clicked", "hit"]))


class Recorder(samovar.Callback):
    """What the model of each hour answers, as its own code computes it."""

    def __init__(self, signature: Signature) -> None:
        self.answers: dict[str, bytes] = {}
        (self._part,) = signature.read_rows(make_rows())

    def on_uri_end(self, run: Run) -> None:
        import torch

        learner = run.learner
        with torch.no_grad(), frozen(learner.model, 0):
            found = score(lambda inputs: learner.predict(learner.model(inputs)), *self._part)
        assert run.uri is not None
        self.answers[run.uri.name] = np.asarray(found.numpy(), np.float32).tobytes()


def answers_by_hour(place: Path) -> dict[str, bytes]:
    """The answers of a straight run that publishes nothing."""
    arguments: dict[str, Any] = {
        "config": {**CONFIG, "train_data": {**CONFIG["train_data"], "table": str(place / "table")}}
    }
    short = samovar.train(
        place / "model.py", model_dir=place / "first_hour", end_date="2024-05-01T01:00:00", **arguments
    )
    recorder = Recorder(short.load().signature)
    samovar.train(place / "model.py", model_dir=place / "straight", callbacks=[recorder], **arguments)
    return recorder.answers


def start_training(place: Path, gate: Path | None = None) -> "subprocess.Popen[bytes]":
    """The run that publishes, in a process of its own. It waits for a file in `gate` before each hour."""
    command = [sys.executable, "-m", "samovar", "train", "config.json", "--script", "model.py", "--out", "model"]
    environment = {**os.environ, **({} if gate is None else {"GATE": str(gate)})}
    return subprocess.Popen(command, cwd=place, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
