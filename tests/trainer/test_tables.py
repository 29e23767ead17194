"""`fit` without a builder: rows of any kind, and what is predicted."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch

from samovar import PytorchTrainer
from samovar.errors import BadInput, UnknownColumn
from samovar.nets import TabularNet
from samovar.seeds import numpy_generator

FAST: dict[str, Any] = {"verbose": False, "n_epochs": 4, "seed": 1, "fast": True}


pytestmark = pytest.mark.usefixtures("folder")


def make_frame(count: int = 400) -> pd.DataFrame:
    generator = numpy_generator(1, "table")
    frame = pd.DataFrame(
        {
            "size": generator.uniform(20, 90, count),
            "city": generator.choice(["Oslo", "Rome", "Bern"], count),
            "built": pd.date_range("2020-01-01", periods=count, freq="D"),
            "lift": generator.random(count) < 0.5,
        }
    )
    frame["price"] = frame["size"] * frame["city"].map({"Oslo": 50, "Rome": 30, "Bern": 70}) + 500 * frame["lift"]
    frame["kind"] = np.where(frame["price"] > 2500, "dear", "cheap")
    frame.loc[::9, "size"] = np.nan
    frame.loc[::11, "city"] = None
    return frame


FRAME = make_frame()
ROWS = FRAME.drop(columns=["price", "kind"])


def test_numbers_are_predicted_from_text_dates_booleans_and_missing_values() -> None:
    trainer = PytorchTrainer(device="cpu").fit(ROWS, FRAME["price"], **{**FAST, "n_epochs": 30})
    predicted = trainer.predict(ROWS)
    assert predicted.shape == (400,)
    assert trainer.score(ROWS, FRAME["price"]) > 0.8
    known = FRAME["size"].notna() & FRAME["city"].notna()
    assert np.abs(predicted - FRAME["price"])[known].mean() < 200
    with pytest.raises(BadInput, match="predict_proba needs a net that was trained on one target of classes"):
        trainer.predict_proba(ROWS)
    assert not hasattr(trainer, "classes_")


@pytest.mark.parametrize("target", ["kind", "city"])
def test_classes_are_predicted_as_the_target_has_them(target: str) -> None:
    rows = FRAME.drop(columns="kind" if target == "city" else "price")
    trainer = PytorchTrainer(device="cpu").fit(rows, target, **{**FAST, "n_epochs": 20})
    predicted = trainer.predict(rows)
    probabilities = trainer.predict_proba(rows.drop(columns=target))
    assert list(trainer.classes_) == sorted(FRAME[target].dropna().unique())
    assert probabilities.shape == (400, len(trainer.classes_))
    np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-5)
    np.testing.assert_array_equal(predicted, trainer.classes_[probabilities.argmax(1)])
    known = FRAME[target].notna()
    assert trainer.score(rows, target) == pytest.approx((predicted == FRAME[target])[known].mean())
    assert trainer.score(rows, target) > 0.85


def test_a_target_is_an_array_a_series_or_the_name_of_a_column() -> None:
    expected = PytorchTrainer(device="cpu").fit(ROWS, FRAME["price"], **FAST).predict(ROWS)
    with_target = ROWS.assign(price=FRAME["price"])
    for rows, target in ((ROWS, FRAME["price"].to_numpy()), (ROWS, list(FRAME["price"])), (with_target, "price")):
        trainer = PytorchTrainer(device="cpu").fit(rows, target, **FAST)
        np.testing.assert_array_equal(trainer.predict(rows), expected)
    np.testing.assert_array_equal(trainer.predict(ROWS), expected)  # without the target too
    with pytest.raises(UnknownColumn, match=r"no column 'prize'. Did you mean 'price'?"):
        PytorchTrainer(device="cpu").fit(with_target, "prize", **FAST)


def test_frames_of_every_library_train_the_same_net() -> None:
    expected = PytorchTrainer(device="cpu").fit(ROWS, FRAME["kind"], **FAST).predict_proba(ROWS)
    for rows in (pl.from_pandas(ROWS), pa.Table.from_pandas(ROWS)):
        trainer = PytorchTrainer(device="cpu").fit(rows, FRAME["kind"], **FAST)
        np.testing.assert_array_equal(trainer.predict_proba(rows), expected)
        np.testing.assert_array_equal(trainer.predict_proba(ROWS), expected)
    with_target = pl.from_pandas(FRAME.drop(columns="price"))
    by_name = PytorchTrainer(device="cpu").fit(with_target, "kind", **FAST)
    np.testing.assert_array_equal(by_name.predict_proba(with_target), expected)


def test_arrays_may_have_missing_values() -> None:
    x = numpy_generator(1, "x").normal(size=(300, 4))
    y = x[:, 0] > 0
    x[::7, 1] = np.nan
    trainer = PytorchTrainer(device="cpu").fit(x, y, **{**FAST, "n_epochs": 10})
    assert trainer.predict(x).dtype == bool
    assert trainer.score(x, y) > 0.9
    np.testing.assert_array_equal(trainer.predict(torch.from_numpy(x)), trainer.predict(x))


def test_the_file_holds_all_that_predicting_needs() -> None:
    trainer = PytorchTrainer(device="cpu").fit(FRAME.drop(columns="price"), "kind", name="m", **FAST)
    expected = trainer.predict_proba(FRAME.drop(columns="price"))
    for loaded in (PytorchTrainer.load("m"), PytorchTrainer().load("m.pt"), PytorchTrainer.load("m", run=0)):
        assert isinstance(loaded.net, TabularNet)
        np.testing.assert_array_equal(loaded.predict_proba(FRAME.drop(columns="price")), expected)
        assert list(loaded.classes_) == ["cheap", "dear"]
    with pytest.raises(BadInput, match="the net in it needs no builder"):
        PytorchTrainer(torch.nn.Linear, [3, 1]).load("m")


def test_each_fit_starts_a_new_net(folder: Path) -> None:
    trainer = PytorchTrainer(device="cpu").fit(ROWS, FRAME["kind"], **FAST)
    trainer.fit(ROWS, FRAME["price"], **FAST)
    fresh = PytorchTrainer(device="cpu").fit(ROWS, FRAME["price"], **FAST)
    np.testing.assert_array_equal(trainer.predict(ROWS), fresh.predict(ROWS))
    assert list(folder.iterdir()) == []


def test_fast_nets_have_one_member_and_others_eight() -> None:
    nets = [PytorchTrainer(device="cpu").fit(ROWS, FRAME["price"], **{**FAST, "fast": fast}).net for fast in (1, 0)]
    assert [net(*inputs_of(net)).shape for net in nets] == [(1, 1, 1), (1, 8, 1)]


def inputs_of(net: Any) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.zeros(1, len(net.numbers.sizes)), torch.zeros(1, len(net.categories.sizes), dtype=torch.int64)


def test_weights_count() -> None:
    x = np.zeros((400, 1))
    x[::2] = 1
    y = np.tile([0.0, 0.0, 1.0, 3.0], 100)
    weights = np.tile([1.0, 0.0, 0.0, 1.0], 100)
    trainer = PytorchTrainer(device="cpu").fit(x, y, weights, **{**FAST, "n_epochs": 30})
    np.testing.assert_allclose(trainer.predict([[0.0], [1.0]]), [3, 0], atol=0.3)
    assert trainer.score(x, y, weights) > 0.9 > trainer.score(x, y)


def test_progress_and_the_report_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    trainer = PytorchTrainer(device="cpu").fit(ROWS, FRAME["price"], **{**FAST, "verbose": True})
    said = capsys.readouterr().err
    assert said.startswith("epoch 0 (3 left): train ")
    assert "training: 4 epochs\n  best net      epoch 3, validation loss" in said
    assert trainer.report is not None
    last = trainer.report.history[-1]
    assert last["train_loss"] == pytest.approx(last["valid_loss"], rel=0.9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"criterion": object()}, "criterion: the built-in net for tables has its own"),
        ({"optimizer": torch.optim.SGD}, "optimizer: the net for tables has its own"),
        ({"batch_size": 0}, "batch_size must be an integer of at least 1, got 0"),
        ({"batchsize": 9}, r"fit has no argument 'batchsize'\. Did you mean 'batch_size'"),
        ({"weights": np.ones((400, 2))}, r"weights must be one number per row, got the shape \[400, 2\]"),
    ],
)
def test_what_the_net_for_tables_does_not_take_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        PytorchTrainer(device="cpu").fit(ROWS, FRAME["price"], **{**FAST, **options})


def test_a_series_is_a_table_of_one_column_and_a_target_must_be_given() -> None:
    trainer = PytorchTrainer(device="cpu").fit(FRAME["lift"], FRAME["price"], **FAST)
    assert trainer.predict(FRAME["lift"]).shape == (400,)
    with pytest.raises(BadInput, match=r"targets must be what to predict, .* got None"):
        trainer.fit(FRAME, None, **FAST)
    with pytest.raises(BadInput, match="target: values must be numbers, got string"):
        trainer.score(FRAME["lift"], FRAME["kind"])


def test_infinity_is_named_and_a_data_set_needs_a_builder() -> None:
    wrong = ROWS.copy()
    wrong.loc[17, "size"] = np.inf
    with pytest.raises(BadInput, match="column 'size', row 17: the value is inf"):
        PytorchTrainer(device="cpu").fit(wrong, FRAME["price"], **FAST)
    with pytest.raises(BadInput, match="there is no net: pass net_builder, or call fit"):
        PytorchTrainer(device="cpu").train(torch.utils.data.TensorDataset(torch.zeros(50, 3), torch.zeros(50, 1)), "m")
    trainer = PytorchTrainer(device="cpu").fit(ROWS, FRAME["price"], **FAST)
    with pytest.raises(BadInput, match="there is no net: pass net_builder, or call fit"):
        trainer.train(torch.utils.data.TensorDataset(torch.zeros(50, 3), torch.zeros(50, 1)), "m")
    trainer.set_params(net_builder=torch.nn.Linear, net_build_args=[3, 1])
    assert trainer.fit(np.zeros((50, 3)), np.zeros(50), n_epochs=1, verbose=False).predict(np.zeros((2, 3))).shape == (
        2,
        1,
    )
    with pytest.raises(BadInput, match="fast=True is for the built-in net for tables"):
        PytorchTrainer(torch.nn.Linear, [3, 1]).fit(np.zeros((50, 3)), np.zeros(50), fast=True)
    with pytest.raises(BadInput, match="call train, fit or load first"):
        PytorchTrainer().predict(ROWS)
