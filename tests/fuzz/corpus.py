"""Real directories of every kind that Samovar reads, made once and then damaged copy by copy."""

import json
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.runs.runs import evaluation_lines, make_run, train_lines
from tests.stages.toys import NUMBERS, TOTAL, write_stage
from tests.training.rows import COLUMNS, SCRIPT, make_frame

import samovar
from samovar.queue import make_task, open_queue
from samovar.results import ResultDirectory, ResultPlan, begin, inventory, open_directory
from samovar.results.artifacts import METRICS_LOG
from samovar.runs import checksum, write_list
from samovar.stages import run_stage
from samovar.store import LocalStore

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
    """`table`, `model`, `unfinished`, `predictions`, `numbers`, `total`, `other`, a queue, a list and configs."""
    frame = make_frame(60, hours=2)
    table = samovar.brew(frame, folder / "table", time="time", columns=COLUMNS, batch_size=20, progress=False)
    (folder / "model.py").write_text(SCRIPT)
    run = samovar.train(
        folder / "model.py", table, targets=["clicked"], evaluate=EVALUATE, model_dir=folder / "model", **QUIET
    )
    samovar.predict(run, table, folder / "predictions", keys=["hit"], targets=["clicked"])
    _leave_unfinished(folder)
    make_run(folder / "other", {"model": {"lr": 0.1}}, [*train_lines([1.0, 0.5]), *evaluation_lines("next", [0.6])])
    write_stage(folder, "numbers", NUMBERS, {"count": 3})
    write_stage(folder, "total", TOTAL, {"source": "numbers"})
    for name in ("numbers", "total"):
        run_stage(folder / f"{name}.py", folder / f"{name}.json")
    (folder / "config.json").write_text(json.dumps(CONFIG))
    (folder / "rows.csv").write_text("user,clicked,hit\n" + "".join(f"{n},{n % 2},h{n}\n" for n in range(9)))
    (folder / "recipe.json").write_text(json.dumps(RECIPE))
    (folder / "experiment.json").write_text(json.dumps(EXPERIMENT))
    tasks = [make_task(folder / "numbers.json", kind="run", script=folder / "numbers.py", out=folder / "queued")]
    open_queue(f"sqlite:///{folder}/queue.db", is_new=True).add(tasks)
    write_list(folder / "list.sha256", checksum([folder / "other"], use_cache=False).digests)


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
