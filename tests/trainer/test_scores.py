"""Scores on data that scikit-learn ships, beside its own models. `docs/one_call.md` has the numbers."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from torch import nn

from samovar import PytorchTrainer


def build(num_inputs: int, num_outputs: int, width: int) -> nn.Module:
    return nn.Sequential(nn.Linear(num_inputs, width), nn.ReLU(), nn.Linear(width, num_outputs))


def fit(x: Any, y: Any, num_outputs: int, width: int = 32, **options: Any) -> PytorchTrainer:
    trainer = PytorchTrainer(build, [x.shape[1], num_outputs, width], device="cpu")
    options = {"batch_size": 32, "n_epochs": 30, "learning_rate": 1e-2, "verbose": False, "seed": 0, **options}
    return trainer.fit(x, y, name="net", **options)


def parts_of(data: Any) -> tuple[Any, Any, Any, Any]:
    x, y = data
    x_train, x_test, y_train, y_test = train_test_split(x, y, test_size=0.25, random_state=0)
    scaler = StandardScaler().fit(x_train)
    return scaler.transform(x_train), scaler.transform(x_test), y_train, y_test


@pytest.fixture(autouse=True)
def folder(quick_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(quick_path)


@pytest.mark.parametrize(
    ("load", "num_outputs", "options", "least"),
    [
        (load_digits, 10, {"n_epochs": 12}, 0.95),
        (load_wine, 3, {"batch_size": 8}, 0.95),
        (load_breast_cancer, 1, {"n_epochs": 15}, 0.94),
    ],
)
def test_classes_are_learned_as_well_as_by_logistic_regression(
    load: Any, num_outputs: int, options: dict[str, Any], least: float
) -> None:
    x, x_test, y, y_test = parts_of(load(return_X_y=True))
    predictions = fit(x, y, num_outputs, **options).predict(x_test)
    classes = predictions.argmax(1) if num_outputs > 1 else predictions[:, 0] > 0.5
    accuracy = float((classes == y_test).mean())
    baseline = LogisticRegression(max_iter=2000).fit(x, y).score(x_test, y_test)
    print(f"{load.__name__}: accuracy {accuracy:.3f}, LogisticRegression {baseline:.3f}")
    assert accuracy >= least
    assert accuracy >= baseline - 0.03


def test_numbers_are_learned_about_as_well_as_by_ridge() -> None:
    x, x_test, y, y_test = parts_of(load_diabetes(return_X_y=True))
    predictions = fit(x, y, 1, width=16, learning_rate=3e-3, n_best_nets=5).predict(x_test)
    error = float(((predictions[:, 0] - y_test) ** 2).mean())
    score = 1 - error / y_test.var()
    baseline = Ridge().fit(x, y).score(x_test, y_test)
    print(f"load_diabetes: R2 {score:.3f}, Ridge {baseline:.3f}")
    assert score > 0.25
    assert score > baseline - 0.1


def test_numbers_and_classes_are_learned_at_once() -> None:
    x, y = load_breast_cancer(return_X_y=True)
    features, size = x[:, 1:], np.log(x[:, 0])  # the mean radius is a number to predict, the diagnosis yes or no
    both = np.stack([size, y.astype(float)], 1)
    both[::7, 0] = np.nan  # unknown for some
    x_train, x_test, y_train, y_test = parts_of((features, both))
    predictions = fit(x_train, y_train, 2).predict(x_test)
    known = ~np.isnan(y_test[:, 0])
    score = 1 - ((predictions[known, 0] - y_test[known, 0]) ** 2).mean() / y_test[known, 0].var()
    accuracy = float(((predictions[:, 1] > 0.5) == y_test[:, 1]).mean())
    seen = ~np.isnan(y_train[:, 0])
    ridge = Ridge().fit(x_train[seen], y_train[seen, 0]).score(x_test[known], y_test[known, 0])
    logistic = LogisticRegression(max_iter=2000).fit(x_train, y_train[:, 1]).score(x_test, y_test[:, 1])
    print(f"mixed: R2 {score:.3f}, Ridge {ridge:.3f}; accuracy {accuracy:.3f}, LogisticRegression {logistic:.3f}")
    assert score > 0.9
    assert accuracy > 0.94
