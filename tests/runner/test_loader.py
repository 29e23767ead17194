from pathlib import Path

import pytest
import torch
from tests.tables.making import make_table

from samovar.errors import CorruptData
from samovar.runner import Columns, ListStream, Loader, MinibatchRecord, Stream, TableStream, Uri
from samovar.runner.stream import Minibatches
from samovar.store import LocalStore


class WatchedStream(TableStream):
    opened: list[int]

    def open(self, first: int) -> Minibatches:
        self.opened.append(first)
        return super().open(first)


def make_uri(stream: Stream, first: int, count: int) -> Uri:
    return Uri(0, f"from {first}", stream, first, count, 0)


def test_neighbouring_uris_are_read_as_one_and_others_open_the_stream_again(tmp_path: Path) -> None:
    stream = WatchedStream(make_table(LocalStore(tmp_path), 12), range(2, 12), Columns(["price"], ["banner"]))
    object.__setattr__(stream, "opened", [])
    spans = ((0, 3), (3, 0), (3, 2), (0, 1))
    with Loader() as loader:
        numbers = [[record.number for record in loader.read(make_uri(stream, *span))] for span in spans]
    assert numbers == [[2, 3, 4], [], [5, 6], [2]]
    assert stream.opened == [0, 0]


def test_closing_the_loader_closes_the_stream() -> None:
    closed: list[str] = []

    class ClosedStream(ListStream):
        def open(self, first: int) -> Minibatches:
            try:
                yield from super().open(first)
            finally:
                closed.append("closed")

    with Loader() as loader:
        next(loader.read(make_uri(ClosedStream([MinibatchRecord({}), MinibatchRecord({})]), 0, 2)))
        assert closed == []
    assert closed == ["closed"]


def test_a_minibatch_reaches_the_loop_as_its_stream_made_it() -> None:
    record = MinibatchRecord({"0": torch.zeros(3)}, num_examples=3)
    assert next(Loader().read(make_uri(ListStream([record]), 0, 1))) is record


def test_a_stream_that_ends_early_is_reported() -> None:
    stream = ListStream([MinibatchRecord({"x": torch.zeros(1)})])
    with pytest.raises(CorruptData, match="from 0: expected 2 minibatches, got 1"):
        list(Loader().read(make_uri(stream, 0, 2)))
