"""Offline URIs: epochs over a fixed table, cut every `uri_granularity` minibatches. Opens no files.

Online URIs: one an hour, also of hours without rows; waiting for those that are not there yet. Trains nothing.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from samovar.errors import BadInput
from samovar.hours import HOUR_SECONDS, show_hour
from samovar.runner import Uri, Uris
from samovar.runner.stream import Columns, Stream, TableStream
from samovar.seeds import numpy_generator
from samovar.tables import Table
from samovar.tables.merge import check_hour
from samovar.tables.reader import ReadOptions
from samovar.training.inputs import DataSource


@dataclass(frozen=True)
class EpochUris(Uris):
    table: Table
    columns: Columns
    epoch_count: int
    max_iter: int | None = None
    uri_granularity: int = 4000
    shuffle_seed: int | None = None
    """Draws the order of each epoch; None keeps the table's."""
    options: ReadOptions = ReadOptions()  # it is frozen

    @property
    def num_batches(self) -> int:
        """Of the whole run."""
        whole = self.epoch_count * self.table.num_minibatches
        return whole if self.max_iter is None else min(self.max_iter, whole)

    @property
    def per_epoch(self) -> int:
        return -(-self.table.num_minibatches // self.uri_granularity)

    @property
    def count(self) -> int:
        epochs, rest = divmod(self.num_batches, self.table.num_minibatches)
        return epochs * self.per_epoch + -(-rest // self.uri_granularity)

    def starting_at(self, number: int) -> Iterator[Uri]:
        stream: Stream | None = None
        for each in range(number, self.count):
            epoch, piece = divmod(each, self.per_epoch)
            if stream is None or piece == 0:
                stream = TableStream(self.table, self._order(epoch), self.columns, self.options)
            yield self._uri(each, epoch, piece, stream)

    def _uri(self, number: int, epoch: int, piece: int, stream: Stream) -> Uri:
        rows = self.table.num_minibatches
        first = piece * self.uri_granularity
        last = min(first + self.uri_granularity, rows, self.num_batches - epoch * rows)
        name = f"epoch {epoch}" if self.per_epoch == 1 else f"epoch {epoch}, minibatches {first} to {last - 1}"
        return Uri(number, name, stream, first, last - first, epoch, is_epoch_end=last == rows)

    def _order(self, epoch: int) -> Sequence[int]:
        if self.shuffle_seed is None:
            return range(self.table.num_minibatches)
        order: list[int] = (
            numpy_generator(self.shuffle_seed, "shuffle", epoch).permutation(self.table.num_minibatches).tolist()
        )
        return order


class HourSource:
    """The hours of a table, or of merged ones, from `start` on. Of a live table the newest version, when asked."""

    def __init__(
        self, data: DataSource, start: int | None = None, stop: int | None = None, is_following: bool = False
    ) -> None:
        self._start, self._stop = start, stop
        self._is_following = is_following
        if is_following and data.complete_until is None:
            raise BadInput(
                f"{data.section}: {data.name} is finished and never grows; `follow` expects a live table: brew it with "
                "--append, or leave `follow` out"
            )
        self._open(data)

    def _open(self, data: DataSource) -> None:
        hours = [hour for hour in data.hours if hour is not None]
        first = hours[0] if self._start is None else self._start
        last = hours[-1] + HOUR_SECONDS
        last = max(first, last if self._stop is None else min(last, self._stop))
        self.data = data
        self._stream = data.stream(first, last)
        self._first_row = data.inputs[0].table.minibatches_between(first, last).start

    def is_complete(self, hour: int) -> bool:
        """Whether all rows of an hour are there; looks for a new version if not."""
        if not self._is_following:
            return True
        if self._has(hour):
            return True
        newer = self.data.reopened()
        if newer.complete_until != self.data.complete_until:
            self._open(newer)
        return self._has(hour)

    def _has(self, hour: int) -> bool:
        return self.data.complete_until is not None and hour < self.data.complete_until

    def uri(self, hour: int, number: int = 0) -> Uri:
        check_hour([each.table for each in self.data.inputs], hour)
        rows = self.data.hours.get(hour, range(0))
        first = rows.start - self._first_row if rows else 0
        return Uri(number, show_hour(hour), self._stream, first, len(rows), number, hour=hour)


@dataclass(frozen=True)
class HourUris(Uris):
    source: HourSource
    start: int
    stop: int | None
    """None: for ever."""
    is_ready: Callable[[int], bool] = lambda hour: True
    """Whether all that an hour's end needs is there: the hours that it is evaluated on."""
    wait: Callable[[], None] = lambda: None
    """Called again and again until the next hour is there; may raise `Stopped`."""

    @property
    def count(self) -> int | None:
        return None if self.stop is None else (self.stop - self.start) // HOUR_SECONDS

    def starting_at(self, number: int) -> Iterator[Uri]:
        while self.count is None or number < self.count:
            hour = self.start + number * HOUR_SECONDS
            while not (self.source.is_complete(hour) and self.is_ready(hour)):
                self.wait()
            yield self.source.uri(hour, number)
            number += 1
