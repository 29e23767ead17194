"""Trainings of one name, the nets they leave, and which net predicts."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from samovar import PytorchTrainer
from samovar.data import ArrayDataset
from samovar.errors import BadInput, NotAResult
from samovar.seeds import numpy_generator

QUIET: dict[str, Any] = {"verbose": False, "n_epochs": 3, "seed": 1}


pytestmark = pytest.mark.usefixtures("folder")


def build(num_outputs: int = 1) -> nn.Module:
    return nn.Linear(3, num_outputs)


X = numpy_generator(1, "runs").normal(size=(120, 3))
Y = X.sum(1, keepdims=True)


def train(name: str = "m", **options: Any) -> PytorchTrainer:
    return PytorchTrainer(build, device="cpu").fit(X, Y, name=name, **{**QUIET, **options})


def test_training_a_name_again_says_so_and_loses_no_net(capsys: pytest.CaptureFixture[str]) -> None:
    first = train(verbose=True).predict(X)
    assert "trained before" not in capsys.readouterr().err
    second = train(seed=2, verbose=True).predict(X)
    said = capsys.readouterr().err
    assert "m was trained before, in m/0. This training is m/1, and m.pt will hold its net; load('m', run=0)" in said
    for run, expected in ((0, first), (1, second), (None, second)):
        np.testing.assert_array_equal(PytorchTrainer.load("m", net_builder=build, run=run).predict(X), expected)
        np.testing.assert_array_equal(PytorchTrainer(build, device="cpu").load("m", run=run).predict(X), expected)
    with pytest.raises(NotAResult, match=r"m: training 7 does not exist. Finished trainings: 0, 1"):
        PytorchTrainer.load("m", net_builder=build, run=7)


def test_the_net_of_a_training_that_never_ended_is_kept_too(capsys: pytest.CaptureFixture[str]) -> None:
    def fail(trainer: PytorchTrainer) -> None:
        raise KeyError("hook")

    with pytest.raises(KeyError):
        train(epoch_hook=fail)
    expected = PytorchTrainer.load("m").predict(X)
    with pytest.raises(
        NotAResult, match=r"training 0 is not finished: train with resume=True. Finished trainings: none"
    ):
        PytorchTrainer.load("m", run=0)
    train(seed=2, verbose=True)
    assert "(it is unfinished: resume=True continues it)" in capsys.readouterr().err
    np.testing.assert_array_equal(PytorchTrainer.load("m", run=0).predict(X), expected)


def test_a_name_may_be_that_of_its_file(folder: Path) -> None:
    expected = train("m.pt").predict(X)
    assert sorted(path.name for path in folder.iterdir()) == ["m", "m.pt"]
    for name in ("m", "m.pt", folder / "m.pt"):
        np.testing.assert_array_equal(PytorchTrainer.load(name).predict(X), expected)
    with pytest.raises(NotAResult, match=r"^absent\.pt: no such file"):
        PytorchTrainer.load("absent.pt")


def test_fit_without_a_name_writes_nothing(folder: Path) -> None:
    trainer = PytorchTrainer(build, device="cpu").fit(X, Y, **QUIET)
    assert trainer.predict(X).shape == (120, 1)
    assert list(folder.iterdir()) == []
    assert trainer.report is not None
    assert trainer.report.directory is None
    assert "best net      epoch 2" in str(trainer.report)
    with pytest.raises(BadInput, match="resume=True needs name"):
        trainer.fit(X, Y, resume=True)


def test_the_average_predicts_if_it_is_better() -> None:
    chosen = set()
    noisy = Y + 2 * numpy_generator(2, "noise").normal(size=Y.shape)
    for seed in range(4):
        options: dict[str, Any] = {
            "n_best_nets": 4, "n_epochs": 12, "patience": 12, "learning_rate": 0.3, "optimizer": torch.optim.SGD,
            "seed": seed, "verbose": False,
        }  # fmt: skip
        name = f"m{seed}"
        trainer = PytorchTrainer(build, device="cpu").fit(X, noisy, name=name, **options)
        report = trainer.report
        assert report is not None
        assert report.averaged_loss is not None
        assert report.uses_average == (report.averaged_loss < report.best_loss)
        assert (", which predicts" in str(report)) == report.uses_average
        chosen.add(report.uses_average)
        best, average = (PytorchTrainer.load(each).predict(X) for each in (name, f"{name}_avg"))
        expected = average if report.uses_average else best
        again = PytorchTrainer(build, device="cpu")
        again.fit(X, noisy, name=name, resume=True, **options)
        for found in (trainer, again, PytorchTrainer.load(name, run=0)):
            np.testing.assert_array_equal(found.predict(X), expected)
        assert str(again.report) == str(report)
    assert True in chosen


def test_a_wrong_output_shape_is_one_sentence_and_leaves_nothing_behind(folder: Path) -> None:
    message = r"^net: output of shape \[16, 2\] does not fit a target of shape \[16, 1\]\. Change the last layer"
    with pytest.raises(BadInput, match=message):
        PytorchTrainer(build, [2], device="cpu").fit(X, Y, name="m", **QUIET)
    assert not (folder / "m/0/model_config.json").exists()
    train()  # the same directory
    assert sorted(path.name for path in (folder / "m").iterdir()) == ["0"]
    with pytest.raises(BadInput, match=r"^net: cannot take an input of float32 \[16, 2\]: mat1 and mat2"):
        PytorchTrainer(build, device="cpu").fit(X[:, :2], Y, **QUIET)


def test_epochs_are_counted_from_zero_everywhere(capsys: pytest.CaptureFixture[str]) -> None:
    trainer = train(verbose=True, patience=5)
    assert trainer.report is not None
    assert [row["epoch"] for row in trainer.report.history] == [0, 1, 2]
    said = capsys.readouterr().err
    assert [line.split(":")[0] for line in said.splitlines()[:3]] == [f"epoch {n} ({2 - n} left)" for n in range(3)]
    assert f"best net      epoch {trainer.report.best_epoch}," in said


def test_a_short_training_is_not_cut_after_one_epoch_without_progress() -> None:
    class Bad(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bias = nn.Parameter(torch.zeros(1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.bias * 0 + torch.zeros(len(x), 1)

    report = PytorchTrainer(Bad, device="cpu").train(ArrayDataset(X, Y), "m", **{**QUIET, "n_epochs": 6})
    assert [row["event"] for row in report.history] == ["progress", "restart", "cut", "stop"]
