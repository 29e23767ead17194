"""Rows that several read one ahead of the other are decoded once, and what one does to them no other sees."""

import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
import torch
from tests.tables.making import make_table
from tests.waiting import wait_until

from samovar.store import LocalStore
from samovar.tables import Bag, Record, Table
from samovar.tables.reader import BlockReader, SharedReader, TableReader
from samovar.tables.record import RecordValue

COLUMNS = ["words", "price", "hit"]
NUM_ROWS = 60
PLENTY = 1 << 20


class Watched:
    """A table's shared rows, and what they read."""

    def __init__(self, table: Table, max_kept_bytes: int = PLENTY) -> None:
        self.parsed: list[int] = []
        self.alone: list[tuple[int, int]] = []
        made = table.share(COLUMNS)
        self._open_blocks, self._read_alone = made._open_blocks, made._read_alone
        self.rows = SharedReader(COLUMNS, self._watch, self._note_alone, max_kept_bytes)

    def _watch(self, start: int) -> BlockReader:
        reader = self._open_blocks(start)
        inner = reader._parsed

        def watched() -> Iterator[object]:
            for parsed in inner:
                self.parsed += range(parsed.block.first, parsed.end)
                yield parsed
            inner.close()

        reader._parsed = watched()  # type: ignore[assignment]  # a generator too
        return reader

    def _note_alone(self, start: int, stop: int) -> TableReader:
        self.alone.append((start, stop))
        return self._read_alone(start, stop)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return make_table(LocalStore(tmp_path), NUM_ROWS)


def take(records: Iterator[Record], count: int) -> list[Record]:
    return [next(records) for _ in range(count)]


def check(found: Iterable[Record], table: Table, start: int, stop: int) -> None:
    for record, expected in zip(found, table.read(COLUMNS, start, stop), strict=True):
        assert (record.number, record.hour, record.num_examples) == (
            expected.number,
            expected.hour,
            expected.num_examples,
        )
        assert {name: plain(value) for name, value in record.items()} == {
            name: plain(value) for name, value in expected.items()
        }


def plain(value: RecordValue) -> object:
    if isinstance(value, Bag):
        return value.data.tolist(), value.data_len.tolist()
    return value.tolist() if isinstance(value, torch.Tensor) else value.to_pylist()


@pytest.mark.parametrize("hour", [8, 5, 13])  # with the blocks, and across them
@pytest.mark.parametrize("shifts", [[1], [2], [1, 3]])
def test_who_is_hours_ahead_reads_for_who_comes_later(table: Table, hour: int, shifts: list[int]) -> None:
    watched = Watched(table)
    training = watched.rows.read(0, NUM_ROWS)
    evaluations = {shift: watched.rows.read(shift * hour, NUM_ROWS) for shift in shifts}
    for first in range(0, NUM_ROWS - hour * (max(shifts) + 1), hour):
        check(take(training, hour), table, first, first + hour)
        for shift, evaluation in evaluations.items():
            begin = first + shift * hour
            check(take(evaluation, hour), table, begin, begin + hour)
    assert watched.parsed == list(range(len(watched.parsed)))
    assert sum(stop - start for start, stop in watched.alone) < 8 * len(shifts)  # the rest of a block


def test_what_one_does_to_its_tensors_no_other_sees(table: Table) -> None:
    watched = Watched(table)
    training, evaluation = watched.rows.read(0, NUM_ROWS), watched.rows.read(8, NUM_ROWS)
    take(training, 8)
    for record in take(evaluation, 16):
        for value in record.values():
            for tensor in (value.data, value.data_len) if isinstance(value, Bag) else (value,):
                if isinstance(tensor, torch.Tensor):
                    tensor.fill_(1)
        bag = record["words"]
        assert isinstance(bag, Bag)
        for part in (bag.unique, bag.inverse):
            if part is not None:
                part.zero_()
    check(take(training, 16), table, 8, 24)
    assert watched.alone == []


def test_who_finds_too_little_kept_reads_for_himself_and_then_what_is_kept(table: Table) -> None:
    one_block = sum(next(table._blocks(0, NUM_ROWS, [1, 3, 5], PLENTY)).sizes)
    watched = Watched(table, 2 * one_block)
    training, evaluation = watched.rows.read(0, NUM_ROWS), watched.rows.read(16, NUM_ROWS)
    check(take(training, 16), table, 0, 16)
    check(take(evaluation, 32), table, 16, 48)
    check(take(training, 32), table, 16, 48)
    assert len(watched.alone) == 1
    start, stop = watched.alone[0]
    assert start == 16
    assert 24 <= stop <= 48
    assert watched.parsed == list(range(48))


def test_who_is_too_far_ahead_reads_for_himself(table: Table) -> None:
    watched = Watched(table, 1000)
    training, evaluation = watched.rows.read(0, NUM_ROWS), watched.rows.read(50, NUM_ROWS)
    take(training, 1)
    check(evaluation, table, 50, NUM_ROWS)
    check(training, table, 1, NUM_ROWS)
    assert watched.alone == [(50, NUM_ROWS)]


def test_who_has_come_to_his_end_keeps_nothing(table: Table) -> None:
    watched = Watched(table)
    training, evaluation = watched.rows.read(0, NUM_ROWS), watched.rows.read(8, 16)
    take(training, 8)
    check(take(evaluation, 8), table, 8, 16)  # it is not asked to go on, nor closed
    check(take(training, NUM_ROWS - 8), table, 8, NUM_ROWS)
    assert not watched.rows._kept
    assert watched.alone == []


def test_closed_in_the_middle_no_thread_and_no_block_stays(table: Table) -> None:
    before = threading.active_count()
    watched = Watched(table)
    training, evaluation = watched.rows.read(0, NUM_ROWS), watched.rows.read(8, NUM_ROWS)
    take(training, 8)
    take(evaluation, 8)
    training.close()
    evaluation.close()
    assert not watched.rows._kept
    wait_until(lambda: threading.active_count() == before, "their threads have ended")
    check(watched.rows.read(3, 30), table, 3, 30)  # and it begins again
