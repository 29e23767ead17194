"""The examples in docstrings run, on the small table that they talk about."""

import doctest
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.tables.making import add_version

import samovar
from samovar import tables
from samovar.store import LocalStore, MemoryStore
from samovar.tables import ColumnSchema, Ids, TableSchema, cell, merge, writer
from samovar.tables.schema import Minibatch

COLUMNS = (ColumnSchema("user", "categorical", 1, "uint64"), ColumnSchema("clicked", "real", 1, "double"))
NAMES = ["Bag", "MinibatchRecord", "ReadOptions", "Record", "Table", "TableReader", "open_table"]
INNER = {"Compression": cell.Compression, "read_merged": merge.read_merged, "write_segment": writer.write_segment}


def make_clicks(folder: Path, columns: tuple[ColumnSchema, ...] = COLUMNS) -> None:
    minibatches = [
        Minibatch(
            None,
            3,
            {
                "user": Ids(np.array(users, np.uint64), np.array([1, 1, 0], np.int32)),
                "clicked": np.array(clicked, np.float32),
            },
        )
        for users, clicked in (([124, 456], [0, 1, 0]), ([124, 789], [1, 1, 0]))
    ]
    add_version(LocalStore(folder), minibatches, TableSchema(columns))


@pytest.mark.parametrize("name", [*NAMES, *INNER])
def test_the_example_of_a_public_name_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("clicks", "shows"):
        make_clicks(tmp_path / folder)
    monkeypatch.chdir(tmp_path)
    public = {each: getattr(tables, each) for each in tables.__all__}
    names = {**public, **INNER, "Minibatch": Minibatch, "Part": merge.Part}
    found = doctest.DocTestFinder().find(names[name], name, globs={
        **names, "MemoryStore": MemoryStore, "np": np, "samovar": samovar, "torch": torch,
    })  # fmt: skip
    examples = [each for each in found if each.examples]
    assert examples
    for each in examples:
        assert doctest.DocTestRunner().run(each).failed == 0
