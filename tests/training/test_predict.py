"""Predictions of finished and unfinished models, by hour or in parts, and after kills."""

from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.places import local
from tests.training.toys import (
    FIRST,
    HOUR,
    OFFLINE,
    ONLINE,
    SCRIPT,
    make_hours,
    make_toy,
    run,
    run_well,
    wait_while_running,
    write_table,
)

from samovar.provenance.contract import compare, contract_of
from samovar.provenance.verify import ChildExit, run_in_child, start_child
from samovar.results import ResultDirectory, open_directory
from samovar.results.snapshot import committed_snapshots
from samovar.scoring.quality import Quality, evaluations
from samovar.store import LocalStore
from samovar.testing.disks import KillingDisk
from samovar.training.prediction import FOLDER, PredictRequest, run_prediction


@pytest.fixture
def folder(quick_path: Path) -> Path:
    write_table(quick_path / "clicks", make_hours([3, 2, 0, 4]))
    return quick_path


def apply(request: PredictRequest) -> ChildExit:
    return run_in_child(lambda: run_prediction(request), local(request.place).parent / "predict.log")


def apply_well(request: PredictRequest) -> dict[str, list[float]]:
    ended = apply(request)
    assert ended.code == 0, ended.output
    files = sorted((local(request.place) / FOLDER).iterdir())
    return {file.name: pq.read_table(file)["prediction"].to_pylist() for file in files}


def test_a_finished_model_predicts_hours_as_its_last_evaluation_did(folder: Path) -> None:
    change = {"train_data.end_date": "2021-01-01T03:00"}
    model = run_well(make_toy(folder, ONLINE, change))
    found = apply_well(PredictRequest(model, folder / "clicks", folder / "out", ["hit", "user"], ["clicked"]))
    assert [len(rows) for rows in found.values()] == [96, 64, 128]
    last = pq.read_table(model / "evaluation" / "log" / "20210101T03.shift1.parquet")
    assert found["20210101T03.parquet"] == last["prediction"].to_pylist()
    part = pq.read_table(folder / "out" / FOLDER / "20210101T03.parquet")
    assert part.column_names == ["hit", "user", "clicked", "prediction"]
    chain = [(link.source.key, link.state) for link in open_directory(folder / "out").chain()]
    assert ("source", "good") in chain
    (row,) = [row for row in evaluations(open_directory(folder / "out"), "day") if row["name"] == "predictions"]
    assert row["num_examples"] == 288


def test_dates_select_hours_and_a_second_run_does_nothing(folder: Path) -> None:
    model = run_well(make_toy(folder, ONLINE))
    dates = {"start_date": "2021-01-01T01:00", "end_date": "2021-01-01T03:00"}
    request = PredictRequest(model, folder / "clicks", folder / "out", dates=dates)
    assert list(apply_well(request)) == ["20210101T01.parquet"]
    assert apply(request).code == 0
    refused = apply(PredictRequest(model, folder / "clicks", folder / "out", keys=["hit"], dates=dates))
    assert refused.code == 2
    assert "belongs to another config" in refused.output
    nothing = PredictRequest(model, folder / "clicks", folder / "none", dates={"start_date": "2022-01-01T00:00"})
    assert (
        "is between start_date and end_date. Choose from 2021-01-01T00:00 to 2021-01-01T03:00" in apply(nothing).output
    )
    assert not (folder / "none").exists()


def test_a_model_in_training_is_used_as_of_its_newest_snapshot(folder: Path) -> None:
    request = make_toy(folder, ONLINE)
    assert run(request, KillingDisk(500)).was_killed
    position = open_directory(request.out).load_model().position
    assert position["next_uri"] >= 1
    apply_well(PredictRequest(request.out, folder / "clicks", folder / "out"))
    assert open_directory(folder / "out").config["position"] == position


def test_an_offline_table_is_predicted_in_parts_with_the_modules_that_the_script_imports(folder: Path) -> None:
    (folder / "layers.py").write_text("from sizes import WIDTH\n")
    (folder / "sizes.py").write_text("WIDTH = 8\n")
    script = SCRIPT.replace("import samovar\n", "import samovar\nfrom layers import WIDTH\n", 1).replace(
        "8, 1)", "WIDTH, 1)"
    )
    model = run_well(make_toy(folder, OFFLINE, {}, script))
    assert sorted(path.name for path in (model / "all_files").iterdir()) == ["layers.py", "sizes.py"]
    for name in ("layers.py", "sizes.py", "script.py"):
        (folder / name).unlink()
    write_table(folder / "flat", [make_hours([1])[0]], table_id="flat")
    assert [len(rows) for rows in apply_well(PredictRequest(model, folder / "flat", folder / "out")).values()] == [32]


def test_a_day_is_measured_on_all_its_predictions_and_drawn(folder: Path) -> None:
    rows = make_hours([2, 2, 2], FIRST + 22 * HOUR)
    write_table(folder / "night", rows, table_id="night")
    model = run_well(make_toy(folder, ONLINE, {
        "train_data.table": "night",
        "evaluation.eval_confs": [{"name": "log", "table": "night", "shifts": [1], "keys": ["hit"]}],
    }))  # fmt: skip
    found = open_directory(model)
    hours, days = evaluations(found, "hour"), evaluations(found, "day")
    assert [row["time"] for row in hours] == ["2021-01-01T23:00", "2021-01-02T00:00"]
    assert [(row["time"], row["num_examples"]) for row in days] == [("2021-01-01", 64), ("2021-01-02", 64)]
    assert days[0]["auc"] == hours[0]["auc"]
    assert Quality(days).is_measured
    assert Quality(days).to_csv().splitlines()[0].startswith("name,shift,time,num_examples")
    Quality(hours).figure().savefig(folder / "hours.png")
    assert (folder / "hours.png").read_bytes().startswith(b"\x89PNG")


def test_hours_and_days_without_rows_are_not_listed(folder: Path) -> None:
    write_table(folder / "evening", make_hours([2, 2], FIRST + 22 * HOUR), table_id="evening")
    conf = {"name": "log", "table": "evening", "shifts": [1], "keys": ["hit"]}
    change = {"train_data.table": "evening", "evaluation.eval_confs": [conf]}
    found = open_directory(run_well(make_toy(folder, ONLINE, change)))
    hours, days = evaluations(found, "hour"), evaluations(found, "day")
    assert [(row["time"], row["num_examples"]) for row in hours] == [("2021-01-01T23:00", 64)]
    assert [row["time"] for row in days] == ["2021-01-01"]


@pytest.mark.parametrize(
    ("outputs", "names"),
    [
        ('{"sure": output.sigmoid(), "raw": output}', ["log sure", "log raw"]),
        ("torch.stack([output, -output], 1)", ["log"]),
    ],
)
def test_named_outputs_are_measured_one_by_one_and_lists_by_class(folder: Path, outputs: str, names: list[str]) -> None:
    write_table(folder / "short", make_hours([2, 2]), table_id="short")
    conf = {"name": "log", "table": "short", "shifts": [1], "keys": ["hit"]}
    change = {"train_data.table": "short", "evaluation.eval_confs": [conf]}
    script = SCRIPT.replace("loss, torch.sigmoid, policies", f"loss, lambda output: {outputs}, policies")
    days = evaluations(open_directory(run_well(make_toy(folder, ONLINE, change, script))), "day")
    assert [row["name"] for row in days] == names
    assert Quality(days).is_measured
    assert [row["num_examples"] for row in days] == [64] * len(names)
    assert len({row["auc" if len(names) > 1 else "macro_f1"] for row in days}) == 1


def test_a_killed_prediction_resumes_to_the_same_files(folder: Path) -> None:
    model = run_well(make_toy(folder, ONLINE))
    whole = apply_well(PredictRequest(model, folder / "clicks", folder / "whole", ["hit"], ["clicked"]))
    request = PredictRequest(model, folder / "clicks", folder / "killed", ["hit"], ["clicked"])
    for seconds in (0.02, 0.05, 0.08, 0.1):
        run_in_child(lambda: run_prediction(request), folder / "predict.log", seconds)
    assert apply_well(request) == whole
    logs = [(folder / name / "logs" / "metrics.jsonl").read_bytes() for name in ("whole", "killed")]
    assert logs[0] == logs[1]


def test_features_default_to_those_of_training(folder: Path) -> None:
    script = SCRIPT.replace('return ["ad", "price"]', 'return ["ad"]')
    model = run_well(make_toy(folder, ONLINE, {"train_data.features": ["ad", "price"], "evaluation": None}, script))
    assert len(apply_well(PredictRequest(model, folder / "clicks", folder / "out"))) == 3


def test_a_killed_prediction_of_a_growing_table_ends_like_a_straight_one(quick_path: Path) -> None:
    folder = quick_path
    write_table(folder / "clicks", make_hours([3, 2, 2, 4]))
    drawing = SCRIPT.replace("torch.sigmoid, policies", "draw, policies").replace(
        "def build", "def draw(output):\n    return torch.sigmoid(output) + torch.rand(1)\n\n\ndef build"
    )
    model = run_well(make_toy(folder, ONLINE, {"evaluation": None}, drawing))
    request = PredictRequest(model, folder / "clicks", folder / "straight", ["hit"], snapshot_seconds=0)
    assert run_in_child(lambda: run_prediction(request), folder / "log").code == 0
    killed = replace(request, out=folder / "killed")
    child = start_child(lambda: run_prediction(killed), folder / "log")
    wait_while_running(child, lambda: _num_snapshots(local(killed.place)) >= 2)
    assert child.wait(0).was_killed
    write_table(folder / "clicks", make_hours([1], FIRST + 4 * HOUR))
    ended = run_in_child(lambda: run_prediction(killed), folder / "log")
    assert ended.code == 0, ended.output
    assert compare(contract_of(request.place), contract_of(killed.place)) == []
    assert len(list((local(killed.place) / FOLDER).iterdir())) == 4


def _num_snapshots(out: Path) -> int:
    names = committed_snapshots(ResultDirectory(LocalStore(out)).store) if out.exists() else []
    return names[0].number if names else 0
