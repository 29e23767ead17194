"""A shared reader decodes each minibatch once, and no consumer sees what another does to its tensors."""

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
NUM_MINIBATCHES = 60
PLENTY = 1 << 20


class Watched:
    """A shared reader that notes what it reads."""

    def __init__(self, table: Table, max_kept_bytes: int = PLENTY) -> None:
        self.parsed: list[int] = []
        self.alone: list[tuple[int, int]] = []
        made = table.share(COLUMNS)
        self._open_blocks, self._read_alone = made._open_blocks, made._read_alone
        self.reader = SharedReader(COLUMNS, self._watch, self._note_alone, max_kept_bytes)

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
    return make_table(LocalStore(tmp_path), NUM_MINIBATCHES)


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
def test_a_consumer_hours_ahead_reads_for_those_behind_it(table: Table, hour: int, shifts: list[int]) -> None:
    watched = Watched(table)
    training = watched.reader.read(0, NUM_MINIBATCHES)
    evaluations = {shift: watched.reader.read(shift * hour, NUM_MINIBATCHES) for shift in shifts}
    for first in range(0, NUM_MINIBATCHES - hour * (max(shifts) + 1), hour):
        check(take(training, hour), table, first, first + hour)
        for shift, evaluation in evaluations.items():
            begin = first + shift * hour
            check(take(evaluation, hour), table, begin, begin + hour)
    assert watched.parsed == list(range(len(watched.parsed)))
    assert sum(stop - start for start, stop in watched.alone) < 8 * len(shifts)  # the rest of a block


def test_no_consumer_sees_what_another_does_to_its_tensors(table: Table) -> None:
    watched = Watched(table)
    training, evaluation = watched.reader.read(0, NUM_MINIBATCHES), watched.reader.read(8, NUM_MINIBATCHES)
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


def test_a_consumer_reads_alone_what_is_no_longer_kept_and_shares_the_rest(table: Table) -> None:
    one_block = sum(next(table._blocks(0, NUM_MINIBATCHES, [1, 3, 5], PLENTY)).sizes)
    watched = Watched(table, 2 * one_block)
    training, evaluation = watched.reader.read(0, NUM_MINIBATCHES), watched.reader.read(16, NUM_MINIBATCHES)
    check(take(training, 16), table, 0, 16)
    check(take(evaluation, 32), table, 16, 48)
    check(take(training, 32), table, 16, 48)
    assert len(watched.alone) == 1
    start, stop = watched.alone[0]
    assert start == 16
    assert 24 <= stop <= 48
    assert watched.parsed == list(range(48))


def test_a_consumer_too_far_ahead_reads_alone(table: Table) -> None:
    watched = Watched(table, 1000)
    training, evaluation = watched.reader.read(0, NUM_MINIBATCHES), watched.reader.read(50, NUM_MINIBATCHES)
    take(training, 1)
    check(evaluation, table, 50, NUM_MINIBATCHES)
    check(training, table, 1, NUM_MINIBATCHES)
    assert watched.alone == [(50, NUM_MINIBATCHES)]


def test_a_consumer_at_its_end_keeps_nothing_in_memory(table: Table) -> None:
    watched = Watched(table)
    training, evaluation = watched.reader.read(0, NUM_MINIBATCHES), watched.reader.read(8, 16)
    take(training, 8)
    check(take(evaluation, 8), table, 8, 16)  # neither resumed nor closed
    check(take(training, NUM_MINIBATCHES - 8), table, 8, NUM_MINIBATCHES)
    assert not watched.reader._kept
    assert watched.alone == []


def test_closing_in_the_middle_leaves_no_thread_and_no_block(table: Table) -> None:
    before = threading.active_count()
    watched = Watched(table)
    training, evaluation = watched.reader.read(0, NUM_MINIBATCHES), watched.reader.read(8, NUM_MINIBATCHES)
    take(training, 8)
    take(evaluation, 8)
    training.close()
    evaluation.close()
    assert not watched.reader._kept
    wait_until(lambda: threading.active_count() == before, "their threads have ended")
    check(watched.reader.read(3, 30), table, 3, 30)  # and it can start again
