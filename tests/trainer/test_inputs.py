"""What the net gets: standardised numbers, frames of any kind, and nothing that no net can learn from."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn
from torch.utils.data import Dataset

from samovar import PytorchTrainer
from samovar.data import ArrayDataset
from samovar.errors import BadInput
from samovar.seeds import numpy_generator

QUIET: dict[str, Any] = {"verbose": False, "n_epochs": 3, "seed": 1}


pytestmark = pytest.mark.usefixtures("folder")


class Watched(nn.Module):
    """Remembers what it was given."""

    def __init__(self, num_inputs: int = 3) -> None:
        super().__init__()
        self.layer = nn.Linear(num_inputs, 1)
        self.seen: list[torch.Tensor] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen.append(x)
        output: torch.Tensor = self.layer(x)
        return output


def make_raw(count: int = 400) -> tuple[Any, Any]:
    """Columns of very different sizes, as tables have them, and one that is constant."""
    x = numpy_generator(1, "raw").normal(size=(count, 3)) * [1e4, 1.0, 0.0] + [3e5, -2.0, 7.0]
    return x, (x[:, 0] / 1e4 - 3 * x[:, 1])[:, None] * 1000


def test_arrays_are_standardised_by_the_training_part_and_the_file_keeps_the_scales() -> None:
    x, y = make_raw()
    trainer = PytorchTrainer(Watched, device="cpu").fit(x, y, name="m", learning_rate=0.05, **{**QUIET, "n_epochs": 40})
    assert isinstance(trainer.net, Watched)
    batches = trainer.net.seen[:23]  # the first epoch
    assert torch.cat(batches).mean(0).abs().max() < 0.01
    torch.testing.assert_close(torch.cat(batches).std(0)[:2], torch.ones(2), rtol=0.01, atol=0)
    assert trainer.score(x, y) > 0.99
    loaded = PytorchTrainer.load("m", net_builder=Watched)
    np.testing.assert_array_equal(loaded.predict(x), trainer.predict(x))
    np.testing.assert_allclose(
        loaded.predict_dataset(ArrayDataset(x), 50, verbose=False), trainer.predict(x), rtol=1e-4
    )


def test_the_plain_behaviour_is_had_by_naming_it(folder: Path) -> None:
    x, y = make_raw()
    trainer = PytorchTrainer(Watched, device="cpu").fit(x, y, name="m", scale_inputs=False, batch_size=16, **QUIET)
    assert isinstance(trainer.net, Watched)
    assert trainer.net.seen[0].max() > 1e5
    config = json.loads((folder / "m/0/model_config.json").read_text())
    assert (config["batch_size"], config["learning_rate"], config["scale_inputs"]) == (16, 0.001, False)


def test_an_outlier_neither_sets_the_scale_nor_rules_a_prediction() -> None:
    x, y = make_raw()
    x[0] = [1e12, 3, 7]
    trainer = PytorchTrainer(Watched, device="cpu").fit(x, y, **QUIET)
    assert isinstance(trainer.net, Watched)
    trainer.net.seen.clear()
    trainer.predict(x)
    seen = trainer.net.seen[0]
    assert seen[1:, 0].std() == pytest.approx(1, rel=0.1)
    assert seen[0, 0] < 10
    assert torch.equal(seen[:, 2], torch.zeros(400))


def test_a_net_that_is_trained_further_keeps_its_scales() -> None:
    x, y = make_raw()
    trainer = PytorchTrainer(Watched, device="cpu").fit(x, y, **QUIET)
    assert isinstance(trainer.net, Watched)
    before = len(trainer.net.seen)
    trainer.fit(x + 1e4, y, **QUIET)
    assert torch.cat(trainer.net.seen[before : before + 23]).mean(0)[0] == pytest.approx(1, abs=0.1)


def test_images_are_scaled_as_a_whole_and_integers_stay() -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(9, 1)
            self.embedding = nn.Embedding(4, 1)
            self.images: list[torch.Tensor] = []

        def forward(self, images: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
            self.images.append(images)
            output: torch.Tensor = self.layer(images.flatten(1)) + self.embedding(ids)
            return output

    images = np.arange(360.0).reshape(40, 1, 3, 3)
    trainer = PytorchTrainer(Both, device="cpu").fit([images, np.arange(40) % 4], np.arange(40.0), **QUIET)
    assert isinstance(trainer.net, Both)
    first = trainer.net.images[0]
    assert first[0, 0, 1, 1] - first[0, 0, 1, 0] == pytest.approx(1 / 104, rel=0.1)


@pytest.mark.parametrize("is_array", [True, False])
def test_raw_numbers_do_not_throw_the_weights_away_in_the_first_steps(is_array: bool) -> None:
    x, y = make_raw(64)
    dataset = ArrayDataset(x, y) if is_array else Rows(x, y)
    options = {**QUIET, "n_epochs": 1, "scale_inputs": False}
    report = PytorchTrainer(Watched, device="cpu").train(dataset, "m", 16, **options)
    assert np.isfinite(report.best_loss)
    net = PytorchTrainer.load("m", net_builder=Watched).net
    assert isinstance(net, Watched)
    assert net.layer.weight.abs().max() < 3**-0.5 + 0.1  # they began below the first number


class Rows(Dataset[Any]):
    """Rows that are made one by one."""

    def __init__(self, x: Any, y: Any) -> None:
        self.x, self.y = torch.from_numpy(x).float(), torch.from_numpy(y).float()

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> Any:
        return self.x[index], self.y[index]


def test_a_data_set_is_scaled_on_demand() -> None:
    trainer = PytorchTrainer(Watched, device="cpu")
    trainer.train(Rows(*make_raw()), "plain", 16, **QUIET)
    assert isinstance(trainer.net, Watched)
    assert trainer.net.seen[0].max() > 1e5
    trainer = PytorchTrainer(Watched, device="cpu")
    trainer.train(Rows(*make_raw()), "scaled", 16, scale_inputs=True, **QUIET)
    assert isinstance(trainer.net, Watched)
    assert trainer.net.seen[0].abs().max() < 10


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_what_is_not_finite_is_named_before_training(folder: Path, wrong: float) -> None:
    x, y = make_raw()
    x[123, 1] = wrong
    with pytest.raises(BadInput, match=rf"inputs: row 123, column 1 is {wrong:g}"):
        PytorchTrainer(Watched, device="cpu").fit(x, y, name="m", **QUIET)
    assert not (folder / "m").exists()
    with pytest.raises(BadInput, match=rf"input 0: row 123, column 1 is {wrong:g}"):
        PytorchTrainer(Watched, device="cpu").train(Rows(x, y), "m", **QUIET)  # at its minibatch
    x, y = make_raw()
    y[7] = np.inf
    with pytest.raises(BadInput, match="targets: row 7, column 0 is inf"):
        PytorchTrainer(Watched, device="cpu").fit(x, y, **QUIET)


def test_negative_weights_are_named(folder: Path) -> None:
    x, y = make_raw()
    weights = np.ones(400)
    weights[31] = -2
    with pytest.raises(BadInput, match="weights must not be negative, got -2 in row 31"):
        PytorchTrainer(Watched, device="cpu").fit(x, y, weights, name="m", **QUIET)
    assert not (folder / "m").exists()


@pytest.mark.parametrize(
    ("count", "batch_size", "rate"), [(300, 16, 0.001), (3000, 32, 0.001 * 2**0.5), (40000, 256, 0.004)]
)
def test_batch_size_and_rate_follow_the_size_of_the_data(
    folder: Path, count: int, batch_size: int, rate: float
) -> None:
    x = np.zeros((count, 1))
    PytorchTrainer(nn.Linear, [1, 1], device="cpu").fit(x, x + np.pi, name="m", **{**QUIET, "n_epochs": 1})
    config = json.loads((folder / "m/0/model_config.json").read_text())
    assert config["batch_size"] == batch_size
    assert config["learning_rate"] == pytest.approx(rate)
    assert config["patience"] == 3


def test_both_losses_of_the_report_have_the_units_of_the_target() -> None:
    x, y = make_raw()
    trainer = PytorchTrainer(Watched, device="cpu").fit(x, y, name="m", **QUIET)
    assert trainer.report is not None
    first = trainer.report.history[0]
    assert first["train_loss"] > 1e6
    assert first["train_loss"] == pytest.approx(first["valid_loss"], rel=0.5)
    lines = [json.loads(line) for line in Path("m/0/logs/metrics.jsonl").read_text().splitlines()]
    assert lines[0]["loss"] == first["train_loss"]


# Frames


def make_frame(count: int = 200) -> pd.DataFrame:
    generator = numpy_generator(1, "frame")
    frame = pd.DataFrame(
        {
            "price": generator.normal(1e5, 1e4, count),
            "city": generator.choice(["Oslo", "Rome", "Bern"], count),
            "sold": pd.date_range("2024-01-01", periods=count, freq="D"),
            "old": generator.random(count) < 0.5,
            "grade": pd.Categorical(generator.choice(["a", "b"], count)),
        }
    )
    frame.loc[3, "price"] = np.nan
    frame.loc[4, "city"] = None
    frame.loc[5, "sold"] = pd.NaT
    return frame


class Mixed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 1)
        self.embedding = nn.Embedding(5, 1)
        self.seen: list[tuple[torch.Tensor, torch.Tensor]] = []

    def forward(self, numbers: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
        self.seen.append((numbers, codes))
        output: torch.Tensor = self.layer(numbers) + self.embedding(codes).sum(1)
        return output


def test_a_frame_of_any_columns_becomes_numbers_and_codes(folder: Path) -> None:
    frame = make_frame()
    frame["target"] = np.arange(200.0)
    trainer = PytorchTrainer(Mixed, device="cpu").fit(frame, "target", name="m", **QUIET)
    assert isinstance(trainer.net, Mixed)
    trainer.net.seen.clear()
    expected = trainer.predict(frame)
    numbers, codes = trainer.net.seen[0]
    assert numbers.shape == (200, 3)
    assert numbers.isfinite().all()
    assert numbers[3, 0].abs() < 1e-6  # the mean
    assert numbers[10, 1] - numbers[9, 1] == pytest.approx(1 / 57.6, rel=0.05)  # days
    assert codes[4, 0] == 0
    assert set(codes[:, 0].tolist()) == {0, 1, 2, 3}
    unseen = frame.drop(columns="target").assign(city="Lima")
    assert trainer.predict(unseen).shape == (200, 1)
    assert set(trainer.net.seen[1][1][:, 0].tolist()) == {0}
    loaded = PytorchTrainer.load("m", net_builder=Mixed)
    np.testing.assert_array_equal(loaded.predict(frame[frame.columns[::-1]]), expected)


def test_infinity_in_a_frame_is_named() -> None:
    frame = make_frame()
    frame.loc[17, "price"] = np.inf
    with pytest.raises(BadInput, match=r"column 'price', row 17: the value is inf"):
        PytorchTrainer(Mixed, device="cpu").fit(frame, np.arange(200.0), **QUIET)


def test_dates_keep_their_minutes() -> None:
    frame = pd.DataFrame({"at": [datetime(2026, 1, 1, hour, tzinfo=UTC) for hour in range(24)] * 5})
    trainer = PytorchTrainer(Watched, [1], device="cpu").fit(frame, np.arange(120.0), scale_inputs=False, **QUIET)
    assert isinstance(trainer.net, Watched)
    trainer.net.seen.clear()
    trainer.predict(frame)
    steps = trainer.net.seen[0][:24, 0].diff() * 24 * 60
    torch.testing.assert_close(steps, torch.full((23,), 60.0), atol=0.5, rtol=0)


def test_a_column_that_does_not_exist_is_refused_with_the_nearest() -> None:
    with pytest.raises(LookupError, match=r"target: the rows have no column 'prise'\. Did you mean 'price'"):
        PytorchTrainer(Mixed, device="cpu").fit(make_frame(), "prise", **QUIET)
    with pytest.raises(BadInput, match="'price' is the name of a column, but the inputs have no names"):
        PytorchTrainer(Mixed, device="cpu").fit(np.zeros((9, 3)), "price", **QUIET)
