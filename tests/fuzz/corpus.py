"""Real directories of every kind that Samovar reads, made once and then damaged copy by copy."""

import json
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from tests.runs.runs import evaluation_lines, make_run, train_lines
from tests.stages.toys import NUMBERS, TOTAL, write_stage
from tests.training.rows import COLUMNS, SCRIPT, make_frame

import samovar
from samovar.brewing import brew_recipe
from samovar.queue import make_task, open_queue
from samovar.results import ResultDirectory, ResultPlan, begin, inventory, open_directory
from samovar.results.artifacts import METRICS_LOG
from samovar.runs import checksum, write_list
from samovar.stages import run_stage
from samovar.store import LocalStore
from samovar.tables import Table

QUIET: dict[str, Any] = {"num_threads": 1, "progress": False}
EVALUATE = {"next_hour": {"keys": ["hit"], "shifts": [1]}}

CONFIG = {
    "model_dir": "m",
    "train_data": {"table": "table", "targets": ["clicked"], "epoch_count": 2},
    "evaluation": {"eval_confs": [{"name": "valid", "table": "table", "keys": ["hit"], "targets": ["clicked"]}]},
    "stopping": {"metric": "valid.auc", "patience": 3},
    "init_from": {"model": "other", "match": {"a": "b"}, "drop": ["c"], "optimizers": ["top"]},
    "pretrained": {"embedding.user": "vectors.parquet"},
    "model": {"dim": 4, "layers": [{"width": 8}]},
}
RECIPE = {
    "source": "rows.csv",
    "result": "brewed",
    "batch_size": 4,
    "columns": {"user": "id", "clicked": {"number": {"scale": "standard"}}, "hit": "key"},
    "crosses": [["user", "clicked"]],
    "where": "user >= 0",
    "missing": {"user": "drop"},
}
EXPERIMENT = {
    "base": {"lr": 1, "dim": 2},
    "kind": "run",
    "script": "numbers.py",
    "grid": {"lr": [1, 2]},
    "random": {"count": 2, "values": {"lr": {"log_uniform": [0.1, 1.0]}, "dim": {"int": [2, 9]}}},
    "metrics": ["loss"],
}


def make_corpus(folder: Path) -> None:
    """`table`, `live`, `model`, `offline`, `unfinished`, `predictions`, `numbers`, `total`, `other`, a queue, a list,
    raw rows and configs."""
    frame = make_frame(60, hours=2)
    table = samovar.brew(frame, folder / "table", time="time", columns=COLUMNS, batch_size=20, progress=False)
    (folder / "model.py").write_text(SCRIPT)
    run = samovar.train(
        folder / "model.py", table, targets=["clicked"], evaluate=EVALUATE, model_dir=folder / "model", **QUIET
    )
    samovar.predict(run, table, folder / "predictions", keys=["hit"], targets=["clicked"])
    _train_offline(folder, table)
    _append_twice(folder, frame)
    _leave_unfinished(folder)
    make_run(folder / "other", {"model": {"lr": 0.1}}, [*train_lines([1.0, 0.5]), *evaluation_lines("next", [0.6])])
    write_stage(folder, "numbers", NUMBERS, {"count": 3})
    write_stage(folder, "total", TOTAL, {"source": "numbers"})
    for name in ("numbers", "total"):
        run_stage(folder / f"{name}.py", folder / f"{name}.json")
    (folder / "config.json").write_text(json.dumps(CONFIG))
    (folder / "rows.csv").write_text("user,clicked,hit\n" + "".join(f"{n},{n % 2},h{n}\n" for n in range(9)))
    (folder / "recipe.json").write_text(json.dumps(RECIPE))
    _write_raw(folder, frame)
    (folder / "experiment.json").write_text(json.dumps(EXPERIMENT))
    tasks = [make_task(folder / "numbers.json", kind="run", script=folder / "numbers.py", out=folder / "queued")]
    open_queue(f"sqlite:///{folder}/queue.db", is_new=True).add(tasks)
    write_list(folder / "list.sha256", checksum([folder / "other"], use_cache=False).digests)


def _append_twice(folder: Path, frame: pd.DataFrame) -> None:
    """A live table of two versions; `live.json` names the rows of a third."""
    for number in range(3):
        rows = frame[["time", "user", "price"]].assign(time=frame["time"] + pd.Timedelta(hours=2 * number))
        rows.to_csv(folder / f"live_{number}.csv", index=False)
    recipe = {"source": "live_2.csv", "columns": {"time": "time", "user": "id", "price": "number"}, "batch_size": 20}
    (folder / "live.json").write_text(json.dumps(recipe))
    for number in range(2):
        changes = [{"source": f"live_{number}.csv"}]
        brew_recipe(folder / "live.json", folder / "live", overrides=changes, append=True, progress=False)


def _train_offline(folder: Path, table: Table) -> None:
    """With a state after the best evaluation, beside that of the end."""
    evaluate = {"valid": {"table": table, "keys": ["hit"], "targets": ["clicked"]}}
    samovar.train(
        folder / "model.py", table, targets=["clicked"], evaluate=evaluate, model_dir=folder / "offline",
        pipeline="offline", epoch_count=2, **QUIET,
    )  # fmt: skip
    assert (folder / "offline/best").is_dir()


def _write_raw(folder: Path, frame: pd.DataFrame) -> None:
    """The same rows in each format, with a recipe for it."""
    plain = frame[["time", "user", "price", "clicked", "hit"]]
    frame = frame.drop(columns="vector")  # which has no length in a format without types
    table = pa.Table.from_pandas(frame, preserve_index=False)
    pq.write_table(table, folder / "raw.parquet")
    with pa.OSFile(str(folder / "raw.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    frame.to_json(folder / "raw.jsonl", orient="records", lines=True, date_format="iso")
    plain.to_csv(folder / "raw.csv", index=False)
    for name in ("raw.parquet", "raw.arrow", "raw.jsonl", "raw.csv"):
        known = plain if name == "raw.csv" else frame
        columns = {each: role for each, role in COLUMNS.items() if each in known}
        recipe = {"source": name, "time_field": "time", "columns": columns, "batch_size": 20}
        (folder / f"{name}.json").write_text(json.dumps(recipe))


def _leave_unfinished(folder: Path) -> None:
    """A stopped run with two snapshots, which has the state of the model, a log of two segments and a sealed list."""
    tree = open_directory(folder / "model").load_model().tree
    directory = ResultDirectory(LocalStore(folder / "unfinished"))
    plan = ResultPlan("model", {"model_dir": "unfinished", "lr": 0.5}, b"script")
    with patch.object(inventory, "MAX_RECENT", 0), begin(directory, plan, heartbeat_seconds=None) as result:
        result.restore()
        for number in range(2):
            for line in train_lines([1.0 / (number + 1)]):
                result.append(METRICS_LOG, line)
            result.save({"model": tree, "next": (1, {2: None}), "at": number}, {"hour": number})
