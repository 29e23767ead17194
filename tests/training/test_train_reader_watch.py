"""A source that hangs is reported repeatedly, and nothing is stopped."""

import threading
from dataclasses import dataclass, field
from pathlib import Path

from tests.training.toys import make_hours, write_table

from samovar.runner import Columns, Loader, TableStream, Uri
from samovar.runner.stream import Minibatches
from samovar.tables import open_table
from samovar.training.session import ReaderWatch


@dataclass(frozen=True, eq=False)
class StuckStream(TableStream):
    """Yields one minibatch, then blocks until it is freed."""

    is_free: threading.Event = field(default_factory=threading.Event)

    def open(self, first: int) -> Minibatches:
        minibatches = super().open(first)
        yield next(minibatches)
        self.is_free.wait()
        yield from minibatches


def test_a_minibatch_that_does_not_arrive_is_reported_with_its_file(tmp_path: Path) -> None:
    table = open_table(write_table(tmp_path / "clicks", make_hours([3])))
    stream = StuckStream(table, range(3), Columns(["ad"]))
    reports: list[str] = []

    def report(text: str) -> None:
        reports.append(text)
        if len(reports) == 2:
            stream.is_free.set()

    uri = Uri(0, "2021-01-01T00:00", stream, 0, 3, 0)
    with Loader() as loader, ReaderWatch(lambda: [loader], report, patience_seconds=0.02):
        assert [record.number for record in loader.read(uri)] == [0, 1, 2]
        assert loader.waiting_for is None
    assert len(reports) >= 2
    assert reports[0].startswith("2021-01-01T00:00: waiting for minibatch 1 for 0 s, minibatch 1 of")
    assert table.file_of(1) in reports[0]
    assert (tmp_path / "clicks" / table.file_of(1)).is_file()
