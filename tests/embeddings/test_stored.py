"""Tables of a state tree, read without a model."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from samovar.embeddings import HashEmbedding, final_state, stored_table
from samovar.embeddings.vectors import as_ids, read_vectors
from samovar.errors import BadInput, UnknownColumn
from samovar.results import ResultDirectory, ResultPlan, begin
from samovar.store import LocalStore
from samovar.tables import Bag


def test_stored_tables_are_read_without_torch() -> None:
    program = "import sys, samovar.embeddings.stored; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_vectors_are_those_of_the_model_and_an_export_can_be_set_again(tmp_path: Path) -> None:
    embedding = HashEmbedding({"user": 3, "ad": 2}, init_scale=1.0)
    ids = torch.arange(-50, 50)
    embedding({"user": Bag(ids, torch.ones(100, dtype=torch.int32))})
    with begin(ResultDirectory(LocalStore(tmp_path / "model")), ResultPlan("model", {})) as result:
        result.restore()
        weights = final_state(torch.nn.Sequential(embedding))
        result.finish({"model": {"weights": weights}}, 1)
    table = stored_table(tmp_path / "model", "user")
    assert (table.path, stored_table(tmp_path / "model", "0.user").num_ids) == ("0.user", 100)
    wanted = [7, -3, 99, 7]
    assert table.weights_of(wanted).tolist() == embedding.weights_of("user", as_ids(wanted)).tolist()
    assert table.has(wanted).tolist() == [True, True, False, True]
    assert table.export(tmp_path / "some.parquet", wanted) == 2
    assert table.export(tmp_path / "all.parquet") == 100
    copy = HashEmbedding({"user": 3})
    for found, vectors in read_vectors(tmp_path / "all.parquet", 3):
        copy.set_weights("user", found, vectors)
    assert copy.weights_of("user", as_ids(wanted)).tolist() == table.weights_of(wanted).tolist()
    with pytest.raises(BadInput, match=r"suffix \.parquet"):
        table.export(tmp_path / "all.csv")
    with pytest.raises(BadInput, match="cannot write"):
        table.export(tmp_path / "no" / "all.parquet")
    with pytest.raises(UnknownColumn, match=r"no hash table 'users'\. Did you mean '0\.user'\?"):
        stored_table(tmp_path / "model", "users")
    with pytest.raises(UnknownColumn, match=r"there are 2 hash tables\. Name one of them: 0\.user, 0\.ad"):
        stored_table(tmp_path / "model")
