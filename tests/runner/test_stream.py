from pathlib import Path

import pytest
import torch
from tests.tables.making import make_table

from samovar.runner import Columns, MinibatchRecord, TableStream
from samovar.store import LocalStore
from samovar.tables import Bag, Table


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return make_table(LocalStore(tmp_path), 12)


def read(table: Table, columns: Columns) -> list[MinibatchRecord]:
    return list(TableStream(table, range(12), columns).open(0))


def test_minibatches_come_in_any_order(table: Table) -> None:
    order = [7, 0, 11, 3, 4]
    records = list(TableStream(table, order, Columns(["price"])).open(1))
    assert [record.number for record in records] == order[1:]
    straight = {record.number: record for record in table.read(["price"])}
    for record in records:
        assert torch.equal(record.inputs["price"], straight[record.number]["price"])  # type: ignore[arg-type]  # tensors


def test_tensors_are_aligned_wherever_they_were_in_the_table(table: Table) -> None:
    for record in read(table, Columns(["price", "factors"])):
        for value in record.inputs.values():
            assert isinstance(value, torch.Tensor)
            assert value.data_ptr() % 64 == 0


def test_a_kept_target_does_not_keep_the_block_it_was_read_from(table: Table) -> None:
    for record in read(table, Columns(["price", "factors"], ["price"])):
        price = record.targets["price"]
        assert isinstance(price, torch.Tensor)
        assert price.untyped_storage().nbytes() == price.numel() * price.element_size()


def test_columns_are_split_into_inputs_targets_and_keys(table: Table) -> None:
    record = read(table, Columns(["banner", "price"], ["price"], ["hit"]))[0]
    assert (list(record.inputs), list(record.targets), list(record.keys)) == (["banner", "price"], ["price"], ["hit"])
    assert isinstance(record.inputs["banner"], Bag)
    assert record.hour == 0
