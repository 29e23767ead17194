"""Both facades, killed in training, validation or saving and resumed, end with the bits of a straight run."""

import multiprocessing
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from samovar import Callback, EarlyStopping, Policy, PytorchTrainer, TorchModel, set_seed, train_model
from samovar.functional.batch_iter import Infinite, sample
from samovar.policies import DecreasingOnPlateau
from samovar.results import open_directory, snapshot
from samovar.results.event_file import read_scalars
from samovar.runner import Run

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    ["samovar.trainer", "samovar.functional", "pytest", "matplotlib.figure", "torch._dynamo"]
)
PLACES = ("training", "validation", "saving")


def kill_at(count: int) -> Callable[[], None]:
    """A function that kills this process at its call number `count`."""
    left = [count]

    def call() -> None:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    return call


def arm(place: str | None) -> tuple[Callable[[], None], Callable[[], None]]:
    """The functions to call in training and in validation; for saving, patch the writer."""
    nothing = kill_at(0)
    if place == "saving":
        call, original = kill_at(4), vars(snapshot)["write_checked"]  # after the third state, before its manifest

        def write(*args: Any) -> Any:
            call()
            return original(*args)

        vars(snapshot)["write_checked"] = write
    return kill_at(23) if place == "training" else nothing, kill_at(7) if place == "validation" else nothing


class Net(nn.Module):
    def __init__(self, place: str | None) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.Linear(8, 1))
        self.calls = arm(place)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls[0 if self.training else 1]()
        output: torch.Tensor = self.layers(x)
        return output


class Noisy(torch.utils.data.Dataset[Any]):
    """Draws from the global generators, as augmentation does."""

    def __len__(self) -> int:
        return 60

    def __getitem__(self, index: int) -> Any:
        x = torch.tensor([index / 60, (index % 7) / 7, 1.0])
        return x + torch.randn(3) * 0.1 + np.random.rand() * 0.1, x.sum()[None]


class Smooth(Callback):
    """A callback with a state, whose number is logged."""

    def __init__(self) -> None:
        self.value = 0.0

    def on_uri_end(self, run: Run) -> None:
        self.value = 0.9 * self.value + (run.mean_loss or 0.0)
        run.metrics["smooth"] = self.value

    def state_dict(self) -> dict[str, Any]:
        return {"value": self.value}

    def load_state_dict(self, state: Any) -> None:
        self.value = state["value"]


class BestNets(Smooth):
    """Called like one of the trainer's own."""


def train_trainer(folder: str, place: str | None) -> None:
    os.chdir(folder)
    torch.set_num_threads(1)
    set_seed(os.getpid())  # each process draws others; the snapshot decides
    trainer = PytorchTrainer(Net, [place], device="cpu")
    options: dict[str, Any] = {"n_epochs": 8, "n_best_nets": 2, "batch_size": 8, "patience": 6, "verbose": False}
    callbacks = [Smooth(), BestNets()]
    trainer.train(Noisy(), "m", seed=5, resume=True, snapshot_seconds=0, callbacks=callbacks, **options)


class KillIn(Callback):
    """Kills in training, or between validation and the snapshot: the net for tables is not the test's own."""

    def __init__(self, place: str | None) -> None:
        self.calls = arm(place)

    def on_batch_end(self, run: Run) -> None:
        self.calls[0]()

    def on_uri_end(self, run: Run) -> None:
        for _ in range(2):
            self.calls[1]()


def fit_table(folder: str, place: str | None) -> None:
    os.chdir(folder)
    torch.set_num_threads(1)
    set_seed(os.getpid())  # each process draws others; the snapshot decides
    index = np.arange(300)
    frame = pd.DataFrame({"a": np.sin(index), "b": index % 7, "c": np.array(["x", "y", None])[index % 3]})
    frame.loc[::5, "a"] = np.nan
    frame["y"] = frame["a"].fillna(0) * frame["b"] + index % 3
    options: dict[str, Any] = {"n_epochs": 8, "n_best_nets": 2, "batch_size": 64, "verbose": False}
    callbacks = [Smooth(), KillIn(place)]
    trainer = PytorchTrainer(fast=True, device="cpu")
    trainer.fit(frame, "y", name="m", seed=5, resume=True, snapshot_seconds=0, callbacks=callbacks, **options)
    np.save("predictions.npy", trainer.predict(frame))


class Stop(Policy):
    def epoch_finished(self, epoch: int, **_: Any) -> None:
        if epoch == 6:
            raise EarlyStopping("enough")


def train_functional(folder: str, place: str | None) -> None:
    os.chdir(folder)
    torch.set_num_threads(1)
    set_seed(1)
    net = Net(place)
    model = TorchModel(net, nn.Identity(), nn.MSELoss(), torch.optim.Adam)
    data = np.sin(np.arange(150, dtype=np.float32)).reshape(50, 3)
    batches = Infinite(sample([(row, row.sum(keepdims=True)) for row in data]), batch_size=4, n_iters_per_epoch=6)

    def validate() -> dict[str, float]:
        return {"mean": float(model.do_inf_step(data).mean() + np.random.rand()), "second": call_again()}

    def call_again() -> float:
        return float(model.do_inf_step(data[:2]).mean())

    lr = DecreasingOnPlateau(1e-2, 0.5, 0)
    train_model(model, batches, 9, lr, "logs", "checkpoints", validate, stop=Stop(), callbacks=[Smooth()])


def run(target: Callable[[str, str | None], None], folder: Path, place: str | None) -> int | None:
    folder.mkdir(exist_ok=True)
    process = CONTEXT.Process(target=target, args=(str(folder), place))
    process.start()
    process.join()
    return process.exitcode


def files_of(folder: Path) -> dict[str, bytes]:
    """Everything that must be the same."""
    found = {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and ("model" in path.parts or path.suffix in (".pt", ".png", ".npy") or path.name == "metrics.jsonl")
    }
    events = {
        str(path.relative_to(folder)): repr(list(read_scalars(path.read_bytes()))).encode()
        for path in folder.rglob("*.tfevents")
    }
    return found | events


@pytest.mark.parametrize("target", [train_trainer, fit_table, train_functional])
def test_a_killed_run_ends_with_the_bits_of_a_straight_one(
    quick_path: Path, target: Callable[[str, str | None], None]
) -> None:
    assert run(target, quick_path / "straight", None) == 0
    expected = files_of(quick_path / "straight")
    assert any(name.endswith("model/arrays.safetensors") for name in expected)
    assert any(name.endswith(".tfevents") for name in expected)
    assert any(b'"smooth"' in data for name, data in expected.items() if name.endswith("metrics.jsonl"))
    for place in PLACES:
        folder = quick_path / place
        assert run(target, folder, place) == -signal.SIGKILL
        assert run(target, folder, None) == 0
        found = files_of(folder)
        assert found.keys() == expected.keys()
        assert [name for name in found if found[name] != expected[name]] == []
    before = {path: path.stat().st_mtime_ns for path in (quick_path / "straight").rglob("*.safetensors")}
    assert run(target, quick_path / "straight", None) == 0  # finished: nothing is done
    assert {path: path.stat().st_mtime_ns for path in (quick_path / "straight").rglob("*.safetensors")} == before


def test_the_split_is_kept_with_the_run(quick_path: Path) -> None:
    assert run(train_trainer, quick_path, None) == 0
    kept = open_directory(quick_path / "m" / "0").load_model().tree["callbacks"]["KeptSplit"]
    assert len(kept["train"]) + len(kept["valid"]) == 60
