"""`samovar embeddings`, as a user runs it."""

import os
import subprocess
import sys
from pathlib import Path

import torch

from samovar import Bag, HashEmbedding
from samovar.embeddings import HashAdagrad, final_state
from samovar.results import ResultDirectory, ResultPlan, begin
from samovar.store import LocalStore


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "samovar", *map(str, arguments)]
    return subprocess.run(command, check=False, capture_output=True, text=True, env={**os.environ, "COLUMNS": "200"})


def write_model(path: Path, model: torch.nn.Module | None) -> None:
    with begin(ResultDirectory(LocalStore(path)), ResultPlan("model", config={})) as result:
        result.restore()
        result.finish({"model": final_state(model)} if model else {"weights": [1.0]}, 1)


def lookup(embedding: HashEmbedding, ids: list[int]) -> None:
    embedding({"ad": Bag(torch.tensor(ids), torch.ones(len(ids), dtype=torch.int32))})


def test_tables_sizes_and_ages_are_printed(tmp_path: Path) -> None:
    embedding = HashEmbedding({"ad": 4})
    HashAdagrad(embedding, lr=0.1, ttl=9)
    lookup(embedding, [1, 2, 3])
    for _ in range(3):
        embedding.advance_clock()
    lookup(embedding, [3, 4])
    write_model(tmp_path / "model", torch.nn.Sequential(embedding))
    done = run("embeddings", tmp_path / "model")
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["model/0:", "ad", "adagrad", "4", "9", "4", "176", "B", "4", "0", "0", "0"] in lines
    assert ["0", "2", "█" * 40] in lines
    assert ["2-3", "2", "█" * 40] in lines


def test_a_model_without_hash_tables_is_a_clear_error(tmp_path: Path) -> None:
    write_model(tmp_path / "model", None)
    done = run("embeddings", tmp_path / "model")
    assert done.returncode == 2
    assert "no hash tables" in done.stderr
