"""Experiments of toy jobs: what is made, what is kept, what runs again."""

import csv
import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.places import local
from tests.queue.fleet import TOY, finishes, metrics, start_worker, toy_command
from tests.waiting import wait_until

from samovar.config import read_config
from samovar.config.identity import Parent, read_parent, without_parent
from samovar.errors import BadInput, ConfigError, NotAResult, Stopped
from samovar.queue import open_queue
from samovar.signals import StopRequest
from samovar.sweep import Done
from samovar.sweep.experiment import Request, run_parts

SCRIPT = str(TOY)


def run(path: Path, stop: StopRequest | None = None, **options: Any) -> Done:
    request = Request(path, **{"num_workers": 2, "make_command": toy_command, **options})
    return run_parts(request, stop or StopRequest(), lambda states: None)


def write(path: Path, **document: Any) -> Path:
    path.write_text(json.dumps({"base": {"steps": 2, "name": "toy"}, "kind": "run", "script": SCRIPT, **document}))
    return path


def test_parts_are_made_run_and_collected(quick_path: Path) -> None:
    path = write(quick_path / "exp.json", grid={"steps": [1, 2, 4]}, metrics=["loss", "loss:max"])
    done = run(path)
    assert done.errors == {}
    folder = quick_path / "exp"
    assert done.folder == folder
    rows = list(csv.DictReader((folder / "table.csv").read_text().splitlines()))
    assert len({row.pop("code") for row in rows}) == 1
    assert rows == [
        {"part": "0", "state": "done", "steps": "1", "loss": "1.0", "loss:max": "1.0"},
        {"part": "1", "state": "done", "steps": "2", "loss": "0.5", "loss:max": "1.0"},
        {"part": "2", "state": "done", "steps": "4", "loss": "0.25", "loss:max": "1.0"},
    ]
    assert (folder / "metrics.png").read_bytes().startswith(b"\x89PNG")
    assert without_parent(read_config(folder / "configs/2.json")) == {"steps": 4, "name": "toy"}
    parent = read_parent(read_config(folder / "configs/2.json"))
    assert parent == Parent("base", "base", {"steps": 4})
    assert without_parent(read_config(folder / "2/model_config.json")) == {"steps": 4, "name": "toy"}


def test_finished_parts_are_kept_removed_ones_run_again_and_new_ones_are_added(quick_path: Path) -> None:
    path = write(quick_path / "exp.json", grid={"steps": [1, 2]})
    folder = local(run(path).folder)
    assert sorted(finishes(folder)) == ["0", "1"]
    run(path)
    assert sorted(finishes(folder)) == ["0", "1"]

    shutil.rmtree(folder / "0")
    write(path, grid={"steps": [2, 1, 3]})
    kept = (folder / "1/status.json").stat().st_mtime_ns
    done = run(path)
    assert sorted(finishes(folder)) == ["0", "0", "1", "2"]
    assert [(row.name, row.values["steps"]) for row in done.table.rows] == [("1", 2), ("0", 1), ("2", 3)]
    assert (folder / "1/status.json").stat().st_mtime_ns == kept

    (folder / "queue.db").unlink()  # the directories are the truth
    run(path)
    assert sorted(finishes(folder)) == ["0", "0", "1", "2"]


def test_a_failed_part_is_reported_and_retried_the_next_time(quick_path: Path) -> None:
    cure = quick_path / "cure"
    path = write(quick_path / "exp.json", list=[{}, {"fails_until": str(cure)}], max_attempts=1)
    done = run(path)
    assert done.errors == {"1": "exit code 1: RuntimeError: the toy broke"}
    assert [row.state for row in done.table.rows] == ["done", "failed"]
    cure.touch()
    assert run(path).errors == {}
    assert finishes(local(done.folder)) == ["0", "1"]


def test_a_stopped_experiment_resumes_from_its_snapshots(quick_path: Path) -> None:
    path = write(quick_path / "exp.json", list=[{"wait_at_0": str(quick_path / "never")}])
    stop = StopRequest()
    errors: list[BaseException] = []

    def work() -> None:
        try:
            run(path, stop)
        except Stopped as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    status = quick_path / "exp/0/status.json"
    wait_until(lambda: status.exists() and '"position": 1' in status.read_text(), "the part runs")
    stop.ask()
    thread.join()
    assert [str(error) for error in errors] == [f"{quick_path}/exp: stopped. Start it again to continue"]
    again = StopRequest()
    second = threading.Thread(target=run, args=(path, again))
    second.start()
    wait_until(lambda: status.exists() and '"position": 2' in status.read_text(), "it resumes")
    second.join()
    assert [line["began_at"] for line in metrics(quick_path / "exp/0")] == [0, 1]


def test_other_workers_of_a_shared_queue_run_the_parts(quick_path: Path) -> None:
    path = write(quick_path / "exp.json", grid={"steps": [1, 2]})
    url = f"sqlite:///{quick_path}/shared.db"
    thread = threading.Thread(target=run, args=(path,), kwargs={"db": url, "num_workers": 0})
    thread.start()
    wait_until(lambda: (quick_path / "shared.db").exists() and _has_jobs(url), "the parts are in the queue")
    worker = start_worker(url)
    thread.join()
    worker.join()
    assert not (quick_path / "exp/queue.db").exists()
    assert len(list(csv.DictReader((quick_path / "exp/table.csv").read_text().splitlines()))) == 2


def _has_jobs(url: str) -> bool:
    try:
        return len(open_queue(url).jobs()) == 2
    except NotAResult:
        return False


def test_paths_in_a_base_file_are_relative_to_it(quick_path: Path) -> None:
    (quick_path / "configs").mkdir()
    base: Mapping[str, Any] = {
        "model_dir": "elsewhere",
        "train_data": {"table": "../tables/clicks"},
        "steps": 1,
        "name": "toy",
        "num_threads": 1,
    }
    (quick_path / "configs/base.json").write_text(json.dumps(base))
    evaluation = {"eval_confs": [{"name": "seen", "table": "tables/later"}]}
    changes = [{}, {"train_data.table": "tables/other"}]
    path = write(quick_path / "exp.json", base="configs/base.json", kind="train", evaluation=evaluation, list=changes)
    run(path, out=quick_path / "here")
    first = {
        "train_data": {"table": str(quick_path / "tables/clicks")},
        "steps": 1,
        "name": "toy",
        "num_threads": 1,
        "evaluation": {"eval_confs": [{"name": "seen", "table": str(quick_path / "tables/later")}]},
    }
    second = {**first, "train_data": {"table": str(quick_path / "tables/other")}}
    assert without_parent(read_config(quick_path / "here/configs/0.json")) == first
    assert without_parent(read_config(quick_path / "here/configs/1.json")) == second
    parents = [read_parent(read_config(quick_path / f"here/configs/{number}.json")) for number in (0, 1)]
    whole = str(quick_path / "configs/base.json")
    assert parents == [Parent(whole, "base", {}), Parent(whole, "base", {"train_data.table": "tables/other"})]


def test_in_a_users_stage_only_the_keys_that_run_reads_are_paths(quick_path: Path) -> None:
    own = {
        "steps": 1,
        "name": "toy",
        "model_dir": "m1",
        "result": "r",
        "init_from": "noise",
        "train_data": {"table": "t"},
    }
    (quick_path / "configs").mkdir()
    (quick_path / "configs/base.json").write_text(json.dumps({**own, "files": "raw/*.txt", "out": "o"}))
    path = write(
        quick_path / "exp.json",
        base="configs/base.json",
        grid={"source": ["data", ["data", "more"]]},
        list=[{"files": ["a", "b"]}],
    )
    run(path)
    raw, here = f"{quick_path}/configs/raw/*.txt", str(quick_path)
    configs = [without_parent(read_config(quick_path / f"exp/configs/{number}.json")) for number in range(3)]
    assert configs == [
        {**own, "files": raw, "source": f"{here}/data"},
        {**own, "files": raw, "source": [f"{here}/data", f"{here}/more"]},
        {**own, "files": [f"{here}/a", f"{here}/b"]},
    ]


def test_changes_that_give_the_same_config_are_one_part(quick_path: Path) -> None:
    path = write(quick_path / "exp.json", list=[{"steps": 2}, {}, {"steps": 1}], metrics=["loss"])
    done = run(path)
    assert [(row.name, row.values, row.metrics) for row in done.table.rows] == [
        ("0", {"steps": 2}, {"loss": 0.5}),
        ("1", {"steps": 1}, {"loss": 1.0}),
    ]
    assert [row.name for row in run(path).table.rows] == ["0", "1"]


def test_a_metric_that_no_run_has_yet_hides_no_failure_and_no_stop(quick_path: Path) -> None:
    """What the user needs to know is the part's error, or how to continue."""
    path = write(quick_path / "exp.json", list=[{}, {"is_wrong": True}], metrics=["loss", "accuracy"])
    done = run(path)
    assert list(done.errors) == ["1"]
    assert [dict(row.metrics) for row in done.table.rows] == [
        {"loss": 0.5, "accuracy": None},
        {"loss": None, "accuracy": None},
    ]
    stop = StopRequest()
    stop.ask("ctrl-C")
    with pytest.raises(Stopped, match="Start it again to continue"):
        run(path, stop)


def test_a_cancelled_part_is_reported_as_an_error(quick_path: Path) -> None:
    path = write(quick_path / "exp.json", list=[{}, {"steps": 1}])
    url = f"sqlite:///{quick_path}/shared.db"
    found: list[Done] = []
    thread = threading.Thread(target=lambda: found.append(run(path, db=url, num_workers=0)))
    thread.start()
    wait_until(lambda: (quick_path / "shared.db").exists() and _has_jobs(url), "the parts are in the queue")
    queue = open_queue(url)
    wait_until(lambda: queue.cancel([1, 2]) is None or not thread.is_alive(), "nothing is left to wait for")
    assert found[0].errors == {"0": "was cancelled", "1": "was cancelled"}


def test_an_invalid_metric_or_folder_is_an_error(quick_path: Path) -> None:
    path = write(quick_path / "odd.json", metrics=["loss:median"])
    with pytest.raises(ConfigError, match=r"metrics.*'loss:median': no reduction 'median'.*Available: last, mean"):
        run(path)
    assert not (quick_path / "odd").exists()
    path = write(quick_path / "exp.json", metrics=["accuracy"])
    with pytest.raises(BadInput, match=r"no run has a metric 'accuracy'. Available: loss, began_at"):
        run(path)
    (quick_path / "mine").mkdir()
    (quick_path / "mine/notes.txt").touch()
    with pytest.raises(NotAResult, match=r"not an experiment's directory: it holds notes\.txt but no configs/"):
        run(path, out=quick_path / "mine")


def test_the_click_example_runs_on_the_command_line(quick_path: Path) -> None:
    example = Path(__file__).parents[2] / "examples/click_model"
    shutil.copytree(example, quick_path / "click_model")
    folder = quick_path / "click_model"
    document = json.loads((folder / "experiment.json").read_text())
    document["grid"]["model.dim"] = [4]  # a test has less time
    document["random"]["count"] = 1
    (folder / "experiment.json").write_text(json.dumps(document))
    log = [sys.executable, "make_log.py", "clicks.parquet", "--days", "1", "--rows-per-hour", "50"]
    subprocess.run(log, cwd=folder, check=True)
    samovar = [sys.executable, "-m", "samovar"]
    subprocess.run([*samovar, "brew", "recipe.json"], cwd=folder, check=True, capture_output=True)
    command = [*samovar, "experiment", "experiment.json", "-j", "2"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "3 parts, 0 already done" in done.stderr
    rows = list(csv.DictReader((folder / "experiment/table.csv").read_text().splitlines()))
    assert [row["model.emb_lr"] for row in rows] == ["0.1", "0.4", "0.4"]
    assert all(0 < float(row["ahead.log_loss"]) < 1 for row in rows)
    assert {
        json.loads((folder / f"experiment/{n}/model_config.json").read_text())["num_threads"] for n in range(3)
    } == {json.loads((folder / "experiment/configs/0.json").read_text())["num_threads"]}
