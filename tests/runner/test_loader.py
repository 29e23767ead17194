from pathlib import Path

import pytest
import torch
from tests.tables.making import make_table

from samovar.errors import CorruptData
from samovar.runner import ListStream, Loader, Stream, TableStream, Uri
from samovar.store import LocalStore
from samovar.tables import Bag, Record, Table


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return make_table(LocalStore(tmp_path), 12)


class Watched(TableStream):
    opened: list[int]

    def open(self, first, columns):  # type: ignore[no-untyped-def]  # as its base
        self.opened.append(first)
        return super().open(first, columns)


def uri(stream: Stream, first: int, count: int) -> Uri:
    return Uri(0, f"rows {first}", stream, first, count, 0)


def test_neighbouring_uris_are_read_as_one_and_others_anew(table: Table) -> None:
    stream = Watched(table, range(2, 12))
    object.__setattr__(stream, "opened", [])
    with Loader(["price"], ["banner"]) as loader:
        rows = [
            [record.number for record in loader.read(uri(stream, *span))] for span in ((0, 3), (3, 0), (3, 2), (0, 1))
        ]
    assert rows == [[2, 3, 4], [], [5, 6], [2]]
    assert stream.opened == [0, 0]


def test_rows_come_in_any_order(table: Table) -> None:
    order = [7, 0, 11, 3, 4]
    with Loader(["price"], []) as loader:
        records = list(loader.read(uri(TableStream(table, order), 1, 4)))
    assert [record.number for record in records] == order[1:]
    straight = {record.number: record for record in table.read(["price"])}
    for record in records:
        assert torch.equal(record.inputs["price"], straight[record.number]["price"])  # type: ignore[arg-type]  # tensors


def test_tensors_are_aligned_wherever_they_lay(table: Table) -> None:
    with Loader(["price", "factors"], []) as loader:
        for record in loader.read(uri(TableStream(table, range(12)), 0, 12)):
            for value in record.inputs.values():
                assert isinstance(value, torch.Tensor)
                assert value.data_ptr() % 64 == 0


def test_targets_may_be_collected_without_the_blocks_that_they_lay_in(table: Table) -> None:
    with Loader(["price", "factors"], ["price"]) as loader:
        for record in loader.read(uri(TableStream(table, range(12)), 0, 12)):
            price = record.targets["price"]
            assert isinstance(price, torch.Tensor)
            assert price.untyped_storage().nbytes() == price.numel() * price.element_size()


def test_a_record_is_split_into_inputs_targets_and_keys(table: Table) -> None:
    with Loader(["banner", "price"], ["price"], ["hit"]) as loader:
        record = next(loader.read(uri(TableStream(table, range(12)), 0, 1)))
    assert (list(record.inputs), list(record.targets), list(record.keys)) == (["banner", "price"], ["price"], ["hit"])
    assert isinstance(record.inputs["banner"], Bag)
    assert record.hour == 0


def test_a_stream_that_ends_early_is_told() -> None:
    stream = ListStream([Record({"x": torch.zeros(1)}, 0, None, 1)])
    with pytest.raises(CorruptData, match="its minibatches end at number 1; expected 2"):
        list(Loader(["x"], []).read(uri(stream, 0, 2)))
