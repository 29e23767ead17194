"""The flights example, run as its README says but smaller: nothing leaks, and continued learning pays off."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
PNG = b"\x89PNG\r\n\x1a\n"


def run(folder: Path, *command: str) -> str:
    done = subprocess.run([sys.executable, *command], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def samovar(folder: Path, *command: str) -> str:
    return run(folder, "-m", "samovar", *command)


def copy(name: str, place: Path) -> Path:
    return Path(shutil.copytree(EXAMPLES / name, place / name))


def train_frozen(folder: Path, end: str, table: str, target: str, start: str) -> None:
    """The same model, trained only until `end` and applied unchanged from `start` on."""
    conf = json.dumps({"train_data.end_date": end, "evaluation": {"eval_confs": []}})
    samovar(folder, "train", "online.json", "--script", "script.py", "--conf", conf, "--out", "frozen_model")
    dates = ("--start-date", start, "--targets", target)
    samovar(folder, "predict", "frozen_model", "--table", table, *dates, "--out", "frozen")


def daily(folder: Path, model: str) -> dict[str, dict[str, Any]]:
    """By day, only days with rows."""
    samovar(folder, "metrics", model, "--by", "day", "--csv", f"{model}.csv", "--png", f"{model}.png")
    assert (folder / f"{model}.png").read_bytes().startswith(PNG)
    rows = pa.csv.read_csv(folder / f"{model}.csv").to_pylist()
    return {str(row["time"]): row for row in rows if row["num_examples"]}


@pytest.fixture(scope="module")
def flights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = copy("flights", tmp_path_factory.mktemp("flights"))
    run(folder, "make_log.py", "--until", "2013-02-08")
    return folder


def test_nothing_is_told_of_a_flight_before_it_has_left(flights: Path) -> None:
    rows = pq.read_table(flights / "flights.parquet")
    minutes = pc.divide(pc.subtract(rows["known"], rows["leaves"]), 60)
    assert pc.min(minutes).as_py() > 30
    assert pc.max(minutes).as_py() < 13 * 60
    assert rows["tailnum"].null_count == 0
    recipe = json.loads((flights / "recipe.json").read_text())
    script = (flights / "script.py").read_text()
    learned = [*recipe["hashed_factors"], *recipe["realvalue_factors"], *recipe["categorical_factors"]]
    assert not {"dep_delay", "dep_time", "arr_time", "arr_delay", "air_time", "known", "leaves"} & set(learned)
    assert '"late"' not in script.partition("def build")[0]


def test_flights_are_told_better_by_a_model_that_goes_on_learning(flights: Path, quick_path: Path) -> None:
    folder = Path(shutil.copytree(flights, quick_path / "flights"))
    samovar(folder, "brew", "recipe.json")
    samovar(folder, "brew", "recipe.json", "--conf", '{"time_field": "known"}', "--out", "known")
    samovar(folder, "train", "online.json", "--script", "script.py")
    train_frozen(folder, "2013-01-19T00:00", "leaving", "late", "2013-01-19T00:00")
    online, frozen = daily(folder, "online_model"), daily(folder, "frozen")
    assert len(frozen) >= 20
    assert mean_log_loss(online, frozen) < mean_log_loss(frozen, frozen)


def mean_log_loss(rows: dict[str, dict[str, Any]], days: Any) -> float:
    """Over the rows of some days."""
    weights = {day: rows[day]["num_examples"] for day in days if day in rows}
    return float(sum(rows[day]["log_loss"] * count for day, count in weights.items()) / sum(weights.values()))
