"""The examples in docstrings of public names run, except those that tests of a room run. All share one folder with a
log, tables, models and stages."""

import copy
import doctest
import inspect
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from tests.cli.mistakes import COLUMNS, SCRIPT, make_log
from tests.docs.public import documented
from tests.stages.toys import make_chain, write_stage

import samovar

OF_ROOMS = (
    "callbacks", "data", "functional", "losses", "nets", "policies", "runner", "runs", "trainer", "embeddings.model",
    "embeddings.state", "provenance.auditing", "provenance.graph", "provenance.reasons", "queue.jobs", "queue.rebuild",
    "queue.task", "queue.worker", "scoring.quality", "stages.stage", "tables.reader", "tables.record", "tables.table",
)  # fmt: skip
"""Modules whose examples run in tests/<room>."""
ROOMS_RUN = ("HashAdagrad", "HashAdam", "HashEmbedding", "HashRowwiseAdagrad", "HashSGD")
CONFIG = {
    "pipeline": "offline",
    "model_dir": "models/click",
    "seed": 1,
    "num_threads": 1,
    "progress": False,
    "train_data": {"table": "clicks", "targets": ["clicked"]},
}
HASHED = """
import torch, samovar
from samovar.embeddings import HashSGD

class Net(samovar.BaseEmbeddingModel):
    def __init__(self):
        super().__init__({"user": 4})

    def get_required_features_list(self):
        return ["user"]

    def forward(self, inputs):
        return self.embed(inputs)["user"].sum(1)

def loss(output, targets):
    return torch.nn.functional.binary_cross_entropy_with_logits(output, targets["clicked"])

def build(params):
    model = Net()
    return samovar.Learner(model, HashSGD(model.hash_embeddings(), lr=0.1), loss)
"""
EXPERIMENT = {
    "base": {"count": 1},
    "kind": "run",
    "script": "count.py",
    "grid": {"count": [1, 2]},
    "metrics": ["loss"],
}
COMMON = {"samovar": samovar, "np": np, "pa": pa, "pd": pd, "torch": torch, "Path": Path, "copy": copy}
COUNT = """
def main(params, out):
    out.log(loss=1 / params.count)
"""


def is_here(found: Any) -> bool:
    module = found.__module__.removeprefix("samovar.")
    return not module.startswith(OF_ROOMS) and found.__name__ not in ROOMS_RUN


EXAMPLES = {name: found for name, found in documented() if is_here(found) and ">>>" in (inspect.getdoc(found) or "")}


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with TemporaryDirectory(prefix="samovar-test-") as name, pytest.MonkeyPatch.context() as patch:
        patch.chdir(name)
        make_world(Path(name))
        yield Path(name)


def make_world(folder: Path) -> None:
    log = make_log()
    log.to_csv("clicks.csv", index=False)
    table = samovar.brew(log, "clicks", columns=COLUMNS, batch_size=64, progress=False)
    log.to_parquet("clicks.parquet")
    log.to_parquet("sorted.parquet")
    Path("model.py").write_text(SCRIPT)
    Path("hashed.py").write_text(HASHED)
    Path("click.json").write_text(json.dumps(CONFIG))
    samovar.train("model.py", config="click.json")
    samovar.train("hashed.py", table, targets=["clicked"], model_dir="models/hashed", num_threads=1, progress=False)
    (folder / "stages").mkdir()
    make_chain(folder / "stages")
    write_stage(folder, "count", COUNT, {})
    Path("counts.json").write_text(json.dumps(EXPERIMENT))


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    found = EXAMPLES[name]
    room = sys.modules[".".join(found.__module__.split(".")[:2])]
    public = {each: getattr(room, each) for each in getattr(room, "__all__", ())}  # a room may import them lazily
    names = {**public, **vars(sys.modules[found.__module__]), **COMMON}
    example = doctest.DocTestParser().get_doctest(inspect.getdoc(found) or "", names, name, None, None)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    printed: list[str] = []
    assert runner.run(example, out=printed.append).failed == 0, "".join(printed)
