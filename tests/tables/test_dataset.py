"""A table as a data set of torch: the same records, a place that is exact, and nothing left running."""

import gc
import json
import subprocess
import sys
import threading
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.tables.making import add_version, make_minibatch, make_table
from tests.tables.test_reader import plain
from tests.waiting import wait_until
from torch.distributed.checkpoint.stateful import Stateful
from torch.utils.data import DataLoader, IterableDataset

from samovar import open_table
from samovar.errors import BadInput, Conflict, UnknownColumn
from samovar.store import LocalStore
from samovar.tables import Record, Table

COLUMNS = ["words", "price", "hit"]
NUM_MINIBATCHES = 20


@pytest.fixture(params=["zstd", "none"])
def table(tmp_path: Path, request: pytest.FixtureRequest) -> Table:
    return make_table(LocalStore(tmp_path), NUM_MINIBATCHES, request.param)


def load(table: Table, **options: Any) -> "DataLoader[Record]":
    return DataLoader(table, batch_size=None, **options)


def contents(records: Any) -> list[Any]:
    return [(each.number, each.hour, each.num_examples, {n: plain(v) for n, v in each.items()}) for each in records]


def test_a_data_loader_hands_out_the_records_of_the_table(table: Table) -> None:
    loader = load(table)
    assert isinstance(table, IterableDataset)
    assert isinstance(table, Stateful)  # what torch and torchdata look for
    assert len(loader) == NUM_MINIBATCHES
    records = list(loader)
    assert all(isinstance(record, Record) for record in records)
    assert contents(records) == contents(table.read())


def test_a_loop_resumed_after_any_record_hands_out_the_rest(table: Table) -> None:
    straight = contents(load(table))
    for k in range(NUM_MINIBATCHES + 1):
        stopped = open_table(table.store).select(table.columns)
        assert contents(islice(load(stopped), k)) == straight[:k]
        state = json.loads(json.dumps(stopped.state_dict()))
        resumed = open_table(table.store)
        resumed.load_state_dict(state)
        assert resumed.state_dict() == state
        loader = load(resumed)
        assert contents(loader) == straight[k:]
        assert contents(loader) == straight  # the next epoch


def test_a_state_taken_after_an_epoch_resumes_with_the_next_one(table: Table) -> None:
    loader = load(table)
    for _ in loader:
        pass
    resumed = open_table(table.store)
    resumed.load_state_dict(table.state_dict())
    assert [record.number for record in load(resumed)] == list(range(NUM_MINIBATCHES))
    list(islice(loader, 3))  # in the second epoch
    resumed.load_state_dict(table.state_dict())
    assert next(iter(load(resumed))).number == 3


RESUME = """
import json, sys
from torch.utils.data import DataLoader
from samovar import open_table
table = open_table(sys.argv[1])
table.load_state_dict(json.loads(sys.argv[2]))
for record in DataLoader(table, batch_size=None):
    print(record.number, record["price"].double().sum().item())
"""


def test_another_process_resumes_exactly(table: Table, tmp_path: Path) -> None:
    def line(record: Record) -> str:
        price = record["price"]
        assert isinstance(price, torch.Tensor)
        return f"{record.number} {price.double().sum().item()}"

    expected = [line(record) for record in load(table)]
    list(islice(load(table), 7))
    command = [sys.executable, "-c", RESUME, str(tmp_path), json.dumps(table.state_dict())]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout.splitlines() == expected[7:]


def test_a_state_is_valid_for_a_longer_version_of_the_same_table_only(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "a")
    old = make_table(store, 5)
    list(islice(load(old), 3))
    state = old.state_dict()
    new = add_version(store, [make_minibatch(number, hour=3600 * 9) for number in (5, 6)])
    new.load_state_dict(state)
    assert [record.number for record in load(new)] == [3, 4, 5, 6]
    with pytest.raises(Conflict, match="of version 2, this is 1"):
        old.load_state_dict(new.state_dict())
    with pytest.raises(Conflict, match=r"with columns banner, .*, not price"):
        new.select(["price"]).load_state_dict(state)
    with pytest.raises(Conflict, match="of table other, this is a table"):
        new.load_state_dict({**state, "table_id": "other"})
    with pytest.raises(BadInput, match="state must be what state_dict returned, got the keys minibatch"):
        new.load_state_dict({"minibatch": 3})
    with pytest.raises(BadInput, match="got int"):
        new.load_state_dict(3)  # type: ignore[arg-type]  # that is the mistake


def test_a_selection_reads_only_its_columns_and_has_a_place_of_its_own(table: Table) -> None:
    selected = table.select(COLUMNS)
    assert (selected.columns, [each.name for each in selected.schema.columns]) == (COLUMNS, COLUMNS)
    assert list(selected.column_bytes()) == COLUMNS
    assert contents(load(selected)) == contents(table.read(COLUMNS))
    list(islice(load(selected), 2))
    assert (selected.state_dict()["minibatch"], table.state_dict()["minibatch"]) == (2, 0)
    with pytest.raises(UnknownColumn, match=r"no column 'prise'. Did you mean 'price'\? Available: words, price, hit"):
        selected.select(["prise"])
    with pytest.raises(UnknownColumn, match="no column 'banner'"):
        selected.read(["banner"])


def test_workers_are_refused_with_the_reason(table: Table) -> None:
    with pytest.raises(BadInput, match=r"num_workers must be 0, got 1\. Each worker would hand out the whole table"):
        next(iter(load(table, num_workers=1)))


def test_a_loop_that_is_dropped_leaves_no_thread(table: Table) -> None:
    gc.collect()  # loops of other tests
    before = set(threading.enumerate())
    records = iter(load(table))
    next(records)
    started = set(threading.enumerate()) - before
    assert started
    del records
    gc.collect()
    wait_until(lambda: not any(each.is_alive() for each in started), "its threads have ended")
    assert table.state_dict()["minibatch"] == 1


def test_columns_of_ones_own_stay_in_the_copy_of_a_record(table: Table) -> None:
    record = next(iter(load(table)))
    record["double"] = record["price"] * 2
    del record["banner"]
    assert list(record) == ["words", "history", "price", "factors", "hit", "double"]
    assert list(next(table.read())) == table.columns


def test_an_empty_table_is_a_table(tmp_path: Path) -> None:
    table = make_table(LocalStore(tmp_path), 0)
    assert table
    assert list(load(table)) == []
