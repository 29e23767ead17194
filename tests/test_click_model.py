"""The click example: how much of the hidden truth is learned online, and that a frozen model falls behind."""

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tests.training.toys import run_well

from samovar.brewing.brew import load_recipe, make_table
from samovar.config import merge, read_config
from samovar.provenance.verify import run_in_child
from samovar.training.prediction import FOLDER, PredictRequest, run_prediction
from samovar.training.request import make_request

EXAMPLE = Path(__file__).parents[1] / "examples" / "click_model"
LAST_DAY = "20260104"


def log_loss(targets: np.ndarray, predictions: np.ndarray) -> float:
    return float(-np.mean(np.where(targets == 1, np.log(predictions), np.log(1 - predictions))))


def read_day(folder: Path) -> pa.Table:
    return pa.concat_tables([pq.read_table(path) for path in sorted(folder.glob(f"{LAST_DAY}*.parquet"))])


def test_the_model_learns_most_of_what_can_be_known_and_a_frozen_one_less(quick_path: Path) -> None:
    folder = quick_path / "click_model"
    shutil.copytree(EXAMPLE, folder)
    command = [sys.executable, "make_log.py", "clicks.parquet", "--days", "4", "--rows-per-hour", "1200"]
    subprocess.run(command, cwd=folder, check=True)
    recipe = read_config(folder / "recipe.json")
    make_table(load_recipe(recipe, "recipe.json", folder), folder / "clicks")
    online = make_request(folder / "online.json", folder / "script.py", [{"num_threads": 1}])
    out = run_well(online)
    rows = read_day(out / "evaluation" / "ahead")
    targets, predictions = rows["clicked"].to_numpy(), rows["prediction"].to_numpy()
    base = log_loss(targets, np.full(len(targets), targets.mean()))
    best = log_loss(targets, rows["chance"].to_numpy())
    learned = log_loss(targets, predictions)
    assert (base - learned) / (base - best) >= 0.6

    half = {"train_data": {"end_date": "2026-01-03T00:00"}, "evaluation": None}
    frozen = run_well(replace(online, out=folder / "half", tree=merge(online.tree, half)))
    request = PredictRequest(frozen, folder / "clicks", folder / "frozen", targets=["clicked"])
    ended = run_in_child(lambda: run_prediction(request), folder / "predict.log")
    assert ended.code == 0, ended.output
    rows = read_day(folder / "frozen" / FOLDER)
    assert learned < log_loss(rows["clicked"].to_numpy(), rows["prediction"].to_numpy())

    offline = make_request(folder / "offline.json", folder / "script.py", [{"num_threads": 1}])
    assert (run_well(offline) / "evaluation" / "seen" / "predictions.parquet").exists()
