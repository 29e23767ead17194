"""What `train_model` and `PytorchTrainer` write is listed, plotted and compared like any other run."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from samovar import PytorchTrainer, TorchModel, set_seed, train_model
from samovar.functional.batch_iter import Infinite, sample
from samovar.policies import Exponential
from samovar.results import open_directory
from samovar.results.artifacts import read_log
from samovar.runs import diff, list_runs, plot

INPUTS = np.sin(np.arange(120, dtype=np.float32)).reshape(40, 3)
ROWS = [(row, row.sum(keepdims=True)) for row in INPUTS]


def train(folder: Path, n_epochs: int, **options: Any) -> None:
    """The metrics are a number, a tensor, and values that a log cannot hold."""
    set_seed(0)
    model = TorchModel(nn.Linear(3, 1), nn.Identity(), nn.MSELoss(), torch.optim.Adam)
    batches = Infinite(sample(ROWS), batch_size=4, n_iters_per_epoch=3, buffer_size=0)
    metrics = {"accuracy": 0.5, "evaluation": torch.tensor(0.25), "names": ["a"], "both": torch.zeros(2)}
    train_model(
        model, batches, n_epochs, Exponential(1e-2, 0.5), checkpoints_path=folder, validate=lambda: metrics, **options
    )


def build(num_inputs: int) -> nn.Module:
    return nn.Linear(num_inputs, 1)


def test_losses_metrics_and_policies_of_train_model_are_listed_and_plotted(quick_path: Path) -> None:
    train(quick_path / "runs/one", 3, seed=1)
    train(quick_path / "runs/two", 2, seed=2)
    listing = list_runs(quick_path, columns=["loss", "accuracy", "metric.policies.lr"])
    assert listing.columns == ["name", "metric.loss", "metric.metrics.accuracy", "metric.policies.lr"]
    assert [row[2:] for row in listing.rows] == [[0.5, 0.0025], [0.5, 0.005]]

    loss, accuracy, other = plot(quick_path / "runs", ["loss", "accuracy", "evaluation"]).panels
    assert [(line.label, list(line.steps)) for line in loss.lines] == [("seed=1", [0, 1, 2]), ("seed=2", [0, 1])]
    assert [list(line.values) for line in accuracy.lines] == [[0.5] * 3, [0.5] * 2]
    assert [list(line.values) for line in other.lines] == [[0.25] * 3, [0.25] * 2]
    assert list(diff(quick_path / "runs").rows) == ["seed"]


def test_a_resumed_run_of_train_model_has_the_log_of_one_that_was_never_stopped(quick_path: Path) -> None:
    train(quick_path / "straight", 4, seed=1)
    for n_epochs in (1, 3, 4):
        train(quick_path / "cut", n_epochs, seed=1)
    logs = [list(read_log(open_directory(quick_path / name).store, "metrics.jsonl")) for name in ("straight", "cut")]
    assert len(logs[0]) == 4
    assert logs[0] == logs[1]


def test_losses_of_both_parts_of_a_trainer_are_listed_and_plotted(quick_path: Path) -> None:
    for number, rate in enumerate((1e-2, 1e-3)):
        trainer = PytorchTrainer(build, [3])
        name = str(quick_path / f"nets/{number}")
        trainer.fit(
            INPUTS, INPUTS.sum(1, keepdims=True), name=name, n_epochs=2, learning_rate=rate, seed=1, verbose=False
        )
    listing = list_runs(quick_path, sort="valid.loss")
    assert listing.columns[-2:] == ["metric.loss", "metric.valid.loss"]
    assert [row[1] for row in listing.rows] == ["finished", "finished"]
    (panel,) = plot(quick_path / "nets", "loss").panels
    assert [line.label for line in panel.lines] == ["learning_rate=0.01", "learning_rate=0.001"]
    (panel,) = plot(quick_path / "nets", "valid.loss").panels
    assert [len(line.values) for line in panel.lines] == [2, 2]
    assert list(diff(quick_path / "nets").rows) == ["learning_rate"]
