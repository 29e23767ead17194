"""Replay: which rows of earlier hours join a minibatch."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.training.toys import FIRST, HOUR, SCHEMA, make_hours, make_minibatch, write_table

from samovar.runner import Columns, MinibatchRecord, TableStream
from samovar.runner.replay import Replay, ReplayStream
from samovar.tables import ColumnSchema, TableSchema, open_table
from samovar.tables.schema import GROUP_START, Minibatch

BATCHES = [2, 1, 0, 2, 1, 1, 2]
COLUMNS = Columns(["ad", "words", "price"], ["clicked"], ["hit"])


def make_stream(path: Path, replay: Replay, start: int = FIRST, columns: Columns = COLUMNS) -> ReplayStream:
    table = open_table(path)
    numbers = table.minibatches_between(start, FIRST + 100 * HOUR)
    return ReplayStream(TableStream(table, numbers, columns), table, numbers.start, start, columns, replay)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_table(tmp_path / "clicks", make_hours(BATCHES))


def hits(record: MinibatchRecord) -> list[int]:
    keys: Any = record.keys["hit"]
    return list(keys.to_pylist())


def hour_of_hit(hit: int) -> int:
    return FIRST + HOUR * int(np.repeat(np.arange(len(BATCHES)), BATCHES)[hit // 1000])


@pytest.mark.parametrize(("rows", "hours"), [(4, 24), (1, 2), (3, 1)])
def test_rows_come_from_hours_of_the_window_before_the_minibatch(path: Path, rows: int, hours: int) -> None:
    stream = make_stream(path, Replay(rows, hours * HOUR))
    plain = list(stream.stream.open(0))
    for record, fresh in zip(stream.open(0), plain, strict=True):
        assert (record.num_examples, record.hour) == (32, fresh.hour)
        assert hits(record)[:32] == hits(fresh)
        replayed = hits(record)[32:]
        assert len(replayed) == record.num_replayed == len(set(replayed)) <= 32 * rows
        assert fresh.hour is not None
        assert all(fresh.hour - hours * HOUR <= hour_of_hit(hit) < fresh.hour for hit in replayed)


def test_all_columns_of_a_row_stay_together(path: Path) -> None:
    rows = {}
    record: Any
    for record in open_table(path).read():
        words = record["words"].data.split(record["words"].data_len.tolist())
        for row, hit in enumerate(record["hit"].to_pylist()):
            rows[hit] = (record["ad"].data[row].item(), words[row].tolist(), record["price"][row].item())
    last: Any = list(make_stream(path, Replay(4, 24 * HOUR)).open(0))[-1]
    assert last.num_replayed > 90
    words = last.inputs["words"].data.split(last.inputs["words"].data_len.tolist())
    for row, hit in enumerate(hits(last)):
        assert rows[hit] == (
            last.inputs["ad"].data[row].item(), words[row].tolist(), last.inputs["price"][row].item()
        )  # fmt: skip


def test_the_first_hour_has_nothing_to_replay_and_rows_before_the_start_are_not_drawn(path: Path) -> None:
    records = list(make_stream(path, Replay(4, 24 * HOUR)).open(0))
    assert [record.num_replayed for record in records[:2]] == [0, 0]
    late = list(make_stream(path, Replay(4, 24 * HOUR), start=FIRST + 3 * HOUR).open(0))
    assert [record.num_replayed > 0 for record in late] == [False, False, True, True, True, True]
    assert min(hour_of_hit(hit) for record in late for hit in hits(record)) == FIRST + 3 * HOUR


def test_a_stream_that_is_opened_in_the_middle_draws_the_same_rows(path: Path) -> None:
    stream = make_stream(path, Replay(2, 24 * HOUR, seed=7))
    whole = [hits(record) for record in stream.open(0)]
    for first in range(len(whole)):
        assert [hits(record) for record in stream.open(first)] == whole[first:]
    other = [hits(record) for record in make_stream(path, Replay(2, 24 * HOUR, seed=8)).open(0)]
    assert other != whole


def test_later_hours_and_versions_change_no_draw(path: Path, tmp_path: Path) -> None:
    replay = Replay(2, 24 * HOUR)
    whole = [hits(record) for record in make_stream(path, replay).open(0)]
    live = tmp_path / "live"
    write_table(live, make_hours(BATCHES[:4]), complete_until=FIRST + 4 * HOUR)
    assert [hits(record) for record in make_stream(live, replay).open(0)] == whole[:5]
    rest = make_hours(BATCHES[4:], FIRST + 4 * HOUR, 5)
    write_table(live, rest, complete_until=FIRST + 7 * HOUR)
    assert [hits(record) for record in make_stream(live, replay).open(0)] == whole


def test_rows_are_drawn_evenly(tmp_path: Path) -> None:
    sizes = [32, 8, 4]
    minibatches = [make_minibatch(number, FIRST + number * HOUR, size) for number, size in enumerate(sizes)]
    minibatches += [make_minibatch(3 + number, FIRST + (3 + number) * HOUR, 4) for number in range(400)]
    path = write_table(tmp_path / "uneven", minibatches)
    records = list(make_stream(path, Replay(1, 1000 * HOUR)).open(0))[3:200]
    drawn = np.bincount([hit // 1000 for record in records for hit in hits(record)[4:]], minlength=3)
    per_row = drawn[:3] / np.array(sizes)
    assert per_row.max() < 1.5 * per_row.min()


def test_groups_are_replayed_as_a_whole(tmp_path: Path) -> None:
    sizes = [3, 5, 1, 7, 4, 12]
    starts = np.concatenate([np.eye(1, size, dtype=np.float32)[0] for size in sizes])
    schema = TableSchema((*SCHEMA.columns, ColumnSchema(GROUP_START, "real", 1, "bool")), SCHEMA.sort_key)
    minibatches = [
        Minibatch(each.hour, each.num_examples, {**each.values, GROUP_START: starts}) for each in make_hours([1] * 6)
    ]
    path = write_table(tmp_path / "groups", minibatches, schema)
    columns = Columns(["ad"], ["clicked", GROUP_START], ["hit"])
    for record in make_stream(path, Replay(2, 24 * HOUR), columns=columns).open(1):
        assert 0 < record.num_replayed <= 64 + 4 * max(sizes)
        marks = record.targets[GROUP_START]
        assert isinstance(marks, torch.Tensor)
        places = [hit % 1000 for hit in hits(record)]
        assert marks.tolist() == starts[places].tolist()
        begins = [*np.flatnonzero(marks.numpy()).tolist(), len(marks)]
        for begin, end in itertools.pairwise(begins):
            assert end - begin == sizes[int(starts[: places[begin] + 1].sum()) - 1]
