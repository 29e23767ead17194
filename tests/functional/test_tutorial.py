"""The classic tutorial: MNIST, logs, checkpoints, policies and validation with `train_model`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from samovar import EarlyStopping, Policy, TorchModel, set_seed, train_model
from samovar.data import MNIST
from samovar.functional import layers
from samovar.functional.batch_iter import Infinite, load_by_random_id
from samovar.policies import Exponential
from samovar.results.event_file import read_scalars


def make_architecture() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 32, kernel_size=3),
        nn.ReLU(),
        nn.Conv2d(32, 64, kernel_size=3),
        nn.ReLU(),
        nn.Conv2d(64, 128, kernel_size=3),
        layers.PyramidPooling(nn.functional.max_pool2d),  # global pooling
        nn.ReLU(),
        nn.Linear(128, 10),
    )


def make_model(kind: type[TorchModel] = TorchModel) -> TorchModel:
    return kind(make_architecture(), nn.Softmax(-1), nn.CrossEntropyLoss(), torch.optim.Adam)


def make_batches(path: Path, batch_size: int = 8, n_iters: int = 2) -> Infinite:
    dataset = MNIST(path)
    return Infinite(
        load_by_random_id(dataset.load_image, dataset.load_label, ids=dataset.ids),
        batch_size=batch_size,
        n_iters_per_epoch=n_iters,
    )


def test_the_tutorial_runs_and_its_loss_falls(mnist_path: Path) -> None:
    """Eighty small steps are too few for ten digits, but enough for three images."""
    set_seed(0)
    dataset, model, losses = MNIST(mnist_path), make_model(), []

    class Watch(Policy):
        def epoch_finished(self, epoch: int, *, train_losses: Any = None, metrics: Any = None) -> None:
            losses.append(np.mean(train_losses))

    batch_iter = Infinite(
        load_by_random_id(dataset.load_image, dataset.load_label, ids=dataset.ids[:3]),
        batch_size=4,
        n_iters_per_epoch=20,
    )
    train_model(model, batch_iter, n_epochs=4, lr=1e-3, watch=Watch())
    assert losses[-1] < losses[0] / 2
    images = np.stack([dataset.load_image(i) for i in dataset.ids[:3]])
    probabilities = model.do_inf_step(images)
    np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-5)
    assert probabilities.argmax(1).tolist() == [0, 1, 2]


def test_logs_and_checkpoints_expand_the_home_folder(
    mnist_path: Path, quick_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(quick_path))
    model, batch_iter = make_model(), make_batches(mnist_path)

    class Failing(Policy):
        def epoch_finished(self, epoch: int, **_: Any) -> None:
            if epoch == 2:
                raise KeyboardInterrupt

    paths: dict[str, Any] = {"log_path": "~/my_new_model/logs", "checkpoints_path": "~/my_new_model/checkpoints"}
    with pytest.raises(KeyboardInterrupt):
        train_model(model, batch_iter, n_epochs=4, lr=1e-3, **paths, watch=Failing())
    epochs: list[int] = []

    class Passing(Failing):
        def epoch_started(self, epoch: int) -> None:
            epochs.append(epoch)

        def epoch_finished(self, epoch: int, **_: Any) -> None:
            pass

    Passing.__name__ = "Failing"
    train_model(model, batch_iter, n_epochs=4, lr=1e-3, **paths, watch=Passing())
    assert epochs == [2, 3]
    (file,) = (quick_path / "my_new_model/logs").glob("*.tfevents")
    events = list(read_scalars(file.read_bytes()))
    assert [step for tag, step, _ in events if tag == "train/loss"] == [0, 1, 2, 3]


def test_a_policy_ends_the_run_early(mnist_path: Path) -> None:
    finished = []

    class TrainLossStop(Policy):
        def epoch_finished(
            self, epoch: int, *, train_losses: Sequence[float] | None = None, metrics: Any = None
        ) -> None:
            finished.append(epoch)
            assert train_losses is not None
            if np.mean(train_losses) < 1e5:
                raise EarlyStopping

    train_model(make_model(), make_batches(mnist_path), n_epochs=10, lr=1e-3, stop=TrainLossStop())
    assert finished == [0]


def test_the_value_of_a_policy_is_passed_to_each_step(mnist_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    class WeightedModel(TorchModel):
        def do_train_step(self, *inputs: Any, lr: float, weights: float) -> float:  # type: ignore[override]  # one more policy
            print("I received these weights:", weights)
            return super().do_train_step(*inputs, lr=lr)

    model = make_model(WeightedModel)
    weights = Exponential(initial=10, multiplier=0.5)
    train_model(model, make_batches(mnist_path), n_epochs=3, lr=1e-3, weights=weights)
    expected = [f"I received these weights: {value}" for value in (10.0, 10.0, 5.0, 5.0, 2.5, 2.5)]
    assert capsys.readouterr().out.splitlines() == expected


def test_validation_metrics_reach_policies_and_tensorboard(mnist_path: Path, quick_path: Path) -> None:
    def validate() -> dict[str, float]:
        return {
            "acuracy": 0.95,
            "roc_auc": 0.91,
        }

    seen = []

    class Watch(Policy):
        def epoch_finished(self, epoch: int, *, train_losses: Any = None, metrics: Any = None) -> None:
            seen.append(dict(metrics))

    train_model(make_model(), make_batches(mnist_path), 2, 1e-3, log_path=quick_path, validate=validate, watch=Watch())
    assert seen == [{"acuracy": 0.95, "roc_auc": 0.91}] * 2
    events = list(read_scalars((quick_path / "events.tfevents").read_bytes()))
    values = {(tag, step): value for tag, step, value in events}
    assert values["metrics/roc_auc", 1] == pytest.approx(0.91)
    assert values["policies/lr", 0] == pytest.approx(1e-3)
