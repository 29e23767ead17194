"""Metrics by task in training: inferred, set in the config, with weights, within groups, and of the user's own."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.training.toys import (
    OFFLINE,
    ONLINE,
    SCHEMA,
    SCRIPT,
    make_hours,
    make_toy,
    metrics,
    run,
    run_well,
    write_table,
)

from samovar.runs import list_runs
from samovar.scoring import measure, read_quality
from samovar.tables import ColumnSchema, TableSchema
from samovar.tables.schema import GROUP_START, Minibatch
from samovar.training import ModelDirectory

EXTRA = (ColumnSchema(GROUP_START, "real", 1, "bool"), ColumnSchema("weight", "real", 1, "double"))
GROUPED = TableSchema((*SCHEMA.columns, *EXTRA), SCHEMA.sort_key)
OWN = SCRIPT.replace("[CountHours()])", "[CountHours()], metrics={'first_users': first_users})").replace(
    "def build(",
    """def first_users(predictions, targets, keys):
    assert set(targets) == {"clicked"} and set(keys) == {"hit", "user"}
    return predictions[keys["user"] == "user 0"].sum() - targets["clicked"].sum()


def build(""",
)
CLASSES = SCRIPT.replace("nn.Linear(8, 1)", "nn.Linear(8, 3)").replace(".squeeze(1)\n", "\n").replace(
    "nn.functional.binary_cross_entropy_with_logits(output, wanted)",
    "nn.functional.cross_entropy(output, targets['clicked'].long())",
).replace("torch.sigmoid", "lambda output: output.softmax(1)")  # fmt: skip


def with_groups(minibatch: Minibatch, rows: int = 4) -> Minibatch:
    """Groups of four rows, and weights of 0 to 2."""
    places = np.arange(minibatch.num_examples)
    extra = {GROUP_START: (places % rows == 0).astype(np.float32), "weight": (places % 3).astype(np.float32)}
    return Minibatch(minibatch.hour, minibatch.num_examples, {**minibatch.values, **extra})


@pytest.fixture
def folder(quick_path: Path) -> Path:
    write_table(quick_path / "clicks", [with_groups(each) for each in make_hours([3, 2])], GROUPED)
    valid = [with_groups(each) for each in make_hours([2], number=500)]
    write_table(quick_path / "valid", valid, GROUPED, table_id="valid")
    return quick_path


def evaluations(out: Path) -> list[dict[str, Any]]:
    return [line for line in metrics(out) if line["kind"] == "evaluation"]


def entry(**keys: Any) -> dict[str, Any]:
    entries = [{"name": "valid", "table": "valid", "keys": ["hit", "user"], **keys}]
    return {"train_data": {"epoch_count": 1}, "evaluation": {"eval_confs": entries}}


def test_a_script_may_have_metrics_of_its_own(folder: Path) -> None:
    out = run_well(make_toy(folder, OFFLINE, entry(), script=OWN))
    (line,) = evaluations(out)
    rows = pq.read_table(out / "evaluation/valid/predictions.parquet").to_pandas()
    assert line["first_users"] == pytest.approx(rows.prediction[rows.user == "user 0"].sum() - rows.clicked.sum())
    expected = measure(rows.clicked.to_numpy(), rows.prediction.to_numpy())
    assert {key: line[key] for key in expected} == expected
    assert expected["task"] == "binary"


def test_an_entry_may_set_the_task_and_name_weights(folder: Path) -> None:
    out = run_well(make_toy(folder, OFFLINE, entry(task="regression", weights="weight")))
    (line,) = evaluations(out)
    assert (line["task"], line["weights"], line["target"]) == ("regression", "weight", "clicked")
    rows = pq.read_table(out / "evaluation/valid/predictions.parquet").to_pandas()
    expected = measure(
        rows.clicked.to_numpy(), rows.prediction.to_numpy(), weights=rows.weight.to_numpy(), task="regression"
    )
    assert {key: line[key] for key in expected} == expected
    frame = ModelDirectory.of(out).metrics()
    assert frame.columns.tolist() == [
        "name", "shift", "time", "num_examples", "mean_target", "mean_prediction", "rmse", "mae", "r2", "bias",
        "calibration",
    ]  # fmt: skip
    assert [axis.get_ylabel() for axis in ModelDirectory.of(out).plot().axes] == [
        "loss", "rmse", "mae", "r2", "bias", "calibration",
    ]  # fmt: skip
    listing = list_runs([folder], sort="-rmse", columns=["name", "rmse"])
    assert f"{line['rmse']}" in listing.to_csv()


def test_a_model_with_classes_is_measured_by_them(folder: Path) -> None:
    out = run_well(make_toy(folder, OFFLINE, entry(k=2), script=CLASSES))
    (line,) = evaluations(out)
    rows = pq.read_table(out / "evaluation/valid/predictions.parquet").to_pandas()
    expected = measure(rows.clicked.to_numpy(), np.stack(rows.prediction.tolist()), k=2)
    assert {key: line[key] for key in expected} == expected
    assert {"macro_f1", "accuracy@2"} < expected.keys()
    assert read_quality(out).to_frame()["macro_f1"].tolist() == [line["macro_f1"]]


def test_groups_are_ranked_if_the_loss_reads_them_by_hour_and_by_day(folder: Path) -> None:
    change = {
        "train_data": {"targets": ["clicked", GROUP_START]},
        "evaluation": {"eval_confs": [{"name": "log", "table": "clicks", "shifts": [1]}]},
    }
    out = run_well(make_toy(folder, ONLINE, change))
    (line, *_) = evaluations(out)
    assert (line["task"], line["num_examples"], line["num_groups"]) == ("ranking", 64, 16)
    assert {"ndcg@10", "mrr", "group_auc", "auc", "log_loss"} < line.keys()
    (day,) = read_quality(out, "day").rows
    assert {key: day[key] for key in day if key in line and key not in ("name", "shift")} == {
        key: line[key] for key in day if key in line and key not in ("name", "shift")
    }


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"task": "ranked"}, "eval_confs"),
        ({"weights": "wait"}, "no column 'wait' in"),
        ({"task": "multiclass"}, "the task 'multiclass' needs predictions"),
        ({"weights": "price"}, "weights must be 0 or more, got -"),
    ],
)
def test_a_task_or_weights_that_do_not_fit_are_one_sentence(folder: Path, keys: dict[str, Any], message: str) -> None:
    ended = run(make_toy(folder, OFFLINE, entry(**keys)))
    assert ended.code == 2
    assert message in ended.output


def test_the_name_of_an_own_metric_must_be_free() -> None:
    from samovar import Learner
    from samovar.errors import BadInput
    from samovar.testing.callback import make_learner

    given = make_learner()
    for name in ("auc", "a.b"):
        with pytest.raises(BadInput, match=f"a metric cannot be named '{name}'"):
            Learner(given.model, given.optimizers, given.loss, metrics={name: lambda *rows: 0.0})
    with pytest.raises(BadInput, match="the metric 'mine' must be a function, got float"):
        Learner(given.model, given.optimizers, given.loss, metrics={"mine": 0.5})  # type: ignore[dict-item]
