"""The tools of scikit-learn take a trainer, and a trainer does not need scikit-learn."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

from samovar import PytorchTrainer
from samovar.data import ArrayDataset
from samovar.errors import BadInput
from samovar.seeds import numpy_generator

FAST: dict[str, Any] = {"verbose": False, "n_epochs": 8, "seed": 1}
X = numpy_generator(1, "estimator").normal(size=(240, 3))
FRAME = pd.DataFrame(X, columns=["a", "b", "c"])
LABELS = np.where(X[:, 0] > 0, "up", "down")
NUMBERS = X @ [3.0, -2.0, 1.0]


pytestmark = pytest.mark.usefixtures("folder")


def build(num_outputs: int = 1) -> nn.Module:
    return nn.Linear(3, num_outputs)


def test_parameters_are_those_of_the_constructor_and_copies_have_the_same() -> None:
    trainer = PytorchTrainer(build, [1], n_epochs=7, learning_rate=0.1)
    params = trainer.get_params()
    assert (params["net_builder"], params["net_build_args"], params["device"]) == (build, [1], "auto")
    assert (params["n_epochs"], params["learning_rate"], params["batch_size"], params["fast"]) == (7, 0.1, None, False)
    copy = clone(trainer)
    assert copy.get_params() == params
    assert repr(copy) == "PytorchTrainer(build, [1], n_epochs=7, learning_rate=0.1)"
    assert copy.set_params(n_epochs=9, device="cpu") is copy
    assert (copy.get_params()["n_epochs"], str(copy.device)) == (9, "cpu")
    with pytest.raises(BadInput, match=r"no argument 'n_epoch'. Did you mean 'n_epochs'?"):
        PytorchTrainer(n_epoch=3)


def test_arguments_of_the_constructor_count_unless_a_call_gives_its_own() -> None:
    trainer = PytorchTrainer(build, n_epochs=2, verbose=False, with_restarts=False)
    assert len(trainer.train(ArrayDataset(X, NUMBERS), "m").history) == 2
    assert len(trainer.train(ArrayDataset(X, NUMBERS), "m", n_epochs=1).history) == 1
    trainer.fit(X, NUMBERS, n_epochs=3)
    assert trainer.report is not None
    assert len(trainer.report.history) == 3


@pytest.mark.parametrize("net_builder", [None, build])
def test_cross_validation_scores_numbers(net_builder: Any, folder: Path) -> None:
    options = {**FAST, "learning_rate": 0.05} if net_builder else {**FAST, "fast": True}
    scores = cross_val_score(PytorchTrainer(net_builder, device="cpu", **options), X, NUMBERS, cv=2)
    assert scores.min() > 0.5
    assert list(folder.iterdir()) == []


def test_cross_validation_scores_labels_of_frames() -> None:
    trainer = PytorchTrainer(device="cpu", fast=True, **FAST)
    for scoring in (None, "accuracy", "roc_auc"):
        assert cross_val_score(trainer, FRAME, LABELS, cv=2, scoring=scoring).min() > 0.8
    probabilities = cross_val_predict(trainer, FRAME, LABELS, cv=2, method="predict_proba")
    assert probabilities.shape == (240, 2)


def test_scores_are_those_of_scikit_learn() -> None:
    weights = np.arange(240.0)
    numbers = PytorchTrainer(build, device="cpu").fit(X, NUMBERS, **FAST)
    expected = r2_score(NUMBERS, numbers.predict(X)[:, 0], sample_weight=weights)
    assert numbers.score(X, NUMBERS, weights) == pytest.approx(expected, rel=1e-5)
    labels = PytorchTrainer(device="cpu").fit(FRAME, LABELS, fast=True, **FAST)
    expected = accuracy_score(LABELS, labels.predict(FRAME), sample_weight=weights)
    assert labels.score(FRAME, LABELS, weights) == pytest.approx(expected)
    assert is_classifier(labels)
    assert not is_regressor(labels)


@pytest.mark.parametrize("num_classes", [2, 4])
def test_a_net_of_ones_own_has_probabilities_and_scores(num_classes: int) -> None:
    classes = np.digitize(X[:, 0], np.linspace(-1, 1, num_classes - 1))
    num_outputs = 1 if num_classes == 2 else num_classes
    trainer = PytorchTrainer(build, [num_outputs], device="cpu").fit(X, classes, learning_rate=0.05, **FAST)
    probabilities = trainer.predict_proba(X)
    assert probabilities.shape == (240, num_classes)
    assert list(trainer.classes_) == list(range(num_classes))
    assert trainer.score(X, classes) == pytest.approx((probabilities.argmax(1) == classes).mean())


def test_columns_of_several_kinds_have_a_mean_score() -> None:
    targets = np.stack([NUMBERS, X[:, 0] > 0], 1)
    targets[::5, 0] = np.nan
    trainer = PytorchTrainer(build, [2], device="cpu").fit(X, targets, learning_rate=0.05, **FAST)
    predicted = trainer.predict(X)
    known = ~np.isnan(targets[:, 0])
    expected = r2_score(targets[known, 0], predicted[known, 0]), ((predicted[:, 1] > 0.5) == targets[:, 1]).mean()
    assert trainer.score(X, targets) == pytest.approx(np.mean(expected))


def test_pipelines_and_searches_take_a_trainer() -> None:
    pipeline = make_pipeline(StandardScaler(), PytorchTrainer(device="cpu", fast=True, **FAST))
    assert pipeline.fit(X, LABELS).score(X, LABELS) > 0.8
    assert pipeline.predict_proba(X).shape == (240, 2)
    assert "PytorchTrainer" in repr(pipeline)
    search = GridSearchCV(PytorchTrainer(build, device="cpu", **FAST), {"learning_rate": [1e-5, 0.05]}, cv=2)
    assert search.fit(X, NUMBERS).best_params_ == {"learning_rate": 0.05}


WITHOUT = """
import sys
sys.modules["sklearn"] = None
import numpy as np
import samovar
x = np.random.randn(50, 2)
trainer = samovar.PytorchTrainer(fast=True, n_epochs=1, verbose=False).fit(x, x[:, 0])
print(trainer.score(x, x[:, 0]) < 1, trainer.get_params()["n_epochs"])
"""


def test_a_trainer_does_not_need_scikit_learn() -> None:
    found = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True)
    assert found.stdout == "True 1\n"
