"""`predict_dataset` makes many examples at once and changes no bit by it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.trainer.test_trainer import Augmented
from torch import nn
from torch.utils.data import Dataset

from samovar import PytorchTrainer
from samovar.data import ArrayDataset, BatchMaker
from samovar.runner.step import frozen

NUM_EXAMPLES = 150


class Rows(Dataset[Any]):
    """One row at a time, without targets."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.rows = np.random.Generator(np.random.Philox(key=1)).standard_normal((NUM_EXAMPLES, *shape), np.float32)

    def __len__(self) -> int:
        return NUM_EXAMPLES

    def __getitem__(self, index: int) -> Any:
        return torch.from_numpy(self.rows[index])


class Mean(nn.Module):
    """Mixes the examples of a minibatch, and draws random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = self.layer(x - x.mean(0)) + torch.randn(1)
        return output


class Both(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 1)

    def forward(self, x: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = self.layer(torch.cat([x, state], 1))
        return output


def make_mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(), nn.Linear(32, 1))


def make_convolution() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 1))


CASES: list[tuple[Callable[[], nn.Module], Callable[[], Any]]] = [
    (make_mlp, lambda: Rows((8,))),
    (make_mlp, lambda: ArrayDataset(Rows((8,)).rows)),
    (make_convolution, lambda: Rows((1, 8, 8))),
    (Mean, lambda: Rows((8,))),
    (Both, Augmented),
]


def predict_one_by_one(trainer: PytorchTrainer, dataset: Any, batch_size: int) -> Any:
    maker, found = BatchMaker(dataset, 0), []
    with frozen(trainer.net, 0), torch.no_grad():
        for number, start in enumerate(range(0, len(dataset), batch_size)):
            batch = maker.make(number, range(start, min(start + batch_size, len(dataset))))
            found.append(trainer.criterion.postproc(trainer.net(*batch.inputs)).numpy())
    return np.concatenate(found)


@pytest.mark.parametrize("batch_size", [1, 7, 100])
@pytest.mark.parametrize(("build", "make_dataset"), CASES)
def test_predictions_are_those_of_minibatches_made_one_by_one(
    build: Callable[[], nn.Module], make_dataset: Callable[[], Any], batch_size: int
) -> None:
    torch.manual_seed(0)
    trainer = PytorchTrainer(build, device="cpu")
    trainer.criterion = Identity()
    expected = predict_one_by_one(trainer, make_dataset(), batch_size)
    before = torch.get_rng_state()
    found = trainer.predict_dataset(make_dataset(), batch_size, verbose=False)
    np.testing.assert_array_equal(found, expected)
    assert torch.equal(torch.get_rng_state(), before)


class Identity:
    def postproc(self, pred: Any) -> Any:
        return pred


def test_workers_change_no_prediction(quick_path: Path) -> None:
    torch.manual_seed(0)
    trainer = PytorchTrainer(Both, device="cpu")
    trainer.criterion = Identity()
    here, elsewhere = (trainer.predict_dataset(Augmented(), 8, False, n_workers) for n_workers in (0, 1))
    np.testing.assert_array_equal(here, elsewhere)
