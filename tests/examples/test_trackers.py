"""The callbacks for MLflow and W&B, run as their page says, killed and resumed, against real local stores.

`make long` installs both packages into build/trackers, beside the environment: they bring a hundred others.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ROOT / "build" / "trackers"
TRACKERS = ROOT / "examples" / "trackers"
NUM_HOURS = 48
pytestmark = pytest.mark.long

_READ_MLFLOW = """
import json
from mlflow.tracking import MlflowClient

client = MlflowClient()
experiment = client.get_experiment_by_name("samovar")
for run in client.search_runs([experiment.experiment_id]):
    history = {name: [(m.step, m.value) for m in client.get_metric_history(run.info.run_id, name)]
               for name in run.data.metrics}
    print(json.dumps({"status": run.info.status, "params": run.data.params, "tags": run.data.tags, "history": history}))
"""

_READ_WANDB = '''
import json, struct, sys
from pathlib import Path
from wandb.proto.wandb_internal_pb2 import Record


def records(data):
    """The format of LevelDB's log after a header of 7 bytes: blocks of 32 kB; checksum, size, kind, bytes."""
    place, piece = 7, b""
    while place + 7 <= len(data):
        left = 32768 - place % 32768
        if left < 7:
            place += left
            continue
        size, kind = struct.unpack_from("<HB", data, place + 4)
        piece = (piece if kind in (3, 4) else b"") + data[place + 7 : place + 7 + size]
        place += 7 + size
        if kind in (1, 4):
            yield Record.FromString(piece)


for path in sorted(Path("wandb").glob("offline-run-*/*.wandb")):
    found = {"id": path.stem.removeprefix("run-"), "config": {}, "history": {}}
    for record in records(path.read_bytes()):
        kind = record.WhichOneof("record_type")
        if kind == "run":
            assert record.run.run_id == found["id"]
            found["config"] = {each.key: json.loads(each.value_json) for each in record.run.config.update}
        elif kind == "history":
            items = {(item.key or item.nested_key[-1]): json.loads(item.value_json) for item in record.history.item}
            for name, value in items.items():
                found["history"].setdefault(name, []).append((record.history.step.num, value))
    print(json.dumps(found))
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    assert (PACKAGES / "installed").exists(), "mlflow and wandb are not installed: run `make build/trackers/installed`"
    run(tmp_path, TRACKERS.with_name("click_model") / "make_log.py", "clicks.parquet", "--days", 2,
        "--rows-per-hour", 300)  # fmt: skip
    return tmp_path


def environment(folder: Path) -> dict[str, str]:
    """Nothing is sent, and nothing is written outside of the folder."""
    places = {f"WANDB_{name}_DIR": str(folder / "own") for name in ("CACHE", "CONFIG", "DATA")}
    wandb = {"WANDB_MODE": "offline", "WANDB_SILENT": "true", "WANDB_ERROR_REPORTING": "false", **places}
    mlflow = {"MLFLOW_TRACKING_URI": (folder / "mlruns").as_uri(), "MLFLOW_ALLOW_FILE_STORE": "true"}
    quiet = {"MLFLOW_DISABLE_TELEMETRY": "true", "HOME": str(folder / "home"), "PYTHONPATH": str(PACKAGES)}
    return {**os.environ, **wandb, **mlflow, **quiet}


def start(folder: Path, *command: Any) -> subprocess.Popen[str]:
    words = [sys.executable, "-W", "error", *map(str, command)]
    out = subprocess.PIPE
    return subprocess.Popen(words, cwd=folder, env=environment(folder), text=True, stdout=out, stderr=out)


def run(folder: Path, *command: Any) -> str:
    process = start(folder, *command)
    printed, complaints = process.communicate()
    assert process.returncode == 0, complaints
    return printed


def train_with_a_kill(folder: Path, name: str) -> None:
    process = start(folder, TRACKERS / f"{name}_callback.py")
    predictions = folder / f"{name}_model" / "evaluation" / "next_hour"
    while process.poll() is None and len(list(predictions.glob("*.parquet"))) < NUM_HOURS // 3:
        time.sleep(0.001)
    process.kill()
    _, complaints = process.communicate()
    assert process.returncode == -9, complaints
    run(folder, TRACKERS / f"{name}_callback.py")


def logged(folder: Path, name: str) -> dict[str, list[tuple[int, float]]]:
    """What the metrics log says, as a tracker shows it: steps and values by name."""
    curves: dict[str, list[tuple[int, float]]] = {}
    for line in map(json.loads, (folder / f"{name}_model/logs/metrics.jsonl").read_text().splitlines()):
        names = {"train": {"loss": "loss"}, "evaluation": {"auc": "next_hour/auc 1h"}}.get(line["kind"], {})
        for key, shown in names.items():
            if key not in line:  # an hour without rows has no quality
                continue
            curves.setdefault(shown, []).append((line["uri"], line[key]))
    return curves


def test_mlflow_has_one_run_with_every_step_once_though_training_was_killed(folder: Path) -> None:
    train_with_a_kill(folder, "mlflow")
    (found,) = map(json.loads, run(folder, "-c", _READ_MLFLOW).splitlines())
    assert found["status"] == "FINISHED"
    assert found["params"] == {"emb_lr": "0.1", "ttl": "24"}
    assert found["tags"]["model_dir"] == str(folder / "mlflow_model")
    curves = logged(folder, "mlflow")
    assert len(curves["loss"]) == NUM_HOURS
    assert {name: [tuple(point) for point in found["history"][name]] for name in curves} == curves


def test_wandb_has_one_run_with_every_step_though_training_was_killed(folder: Path) -> None:
    train_with_a_kill(folder, "wandb")
    parts = [json.loads(line) for line in run(folder, "-c", _READ_WANDB).splitlines()]
    assert len(parts) == 2  # one per process; `wandb sync` joins parts with the same id
    assert len({part["id"] for part in parts}) == 1
    found = parts[1]  # the first may have lost anything
    assert found["config"]["ttl"] == 24
    assert found["config"]["model_dir"] == str(folder / "wandb_model")
    curves = logged(folder, "wandb")
    assert len(curves["loss"]) == NUM_HOURS
    assert {name: [tuple(point) for point in found["history"][name]] for name in curves} == curves


def test_a_tracker_changes_no_byte_of_the_model(folder: Path) -> None:
    for name in ("mlflow", "wandb"):
        run(folder, TRACKERS / f"{name}_callback.py")
    states = [(folder / f"{name}_model/logs/metrics.jsonl").read_bytes() for name in ("mlflow", "wandb")]
    assert states[0] == states[1]
    weights = [sorted((folder / f"{name}_model/model").glob("*.safetensors")) for name in ("mlflow", "wandb")]
    assert weights[0]
    assert [path.read_bytes() for path in weights[0]] == [path.read_bytes() for path in weights[1]]
