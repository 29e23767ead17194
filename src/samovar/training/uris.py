"""The URIs of a run. Offline: epochs over a table, cut every `uri_granularity` minibatches. Online: one per hour, or
other period of the table, including hours without rows, waiting for hours that a live table does not have yet. Trains
nothing.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from samovar.errors import BadInput
from samovar.runner import Uri, Uris
from samovar.runner.negatives import NegativeSampler, NegativeStream
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
    """Decides the order of each epoch. None: the order of the table."""
    options: ReadOptions = ReadOptions()
    negatives: NegativeSampler | None = None

    @property
    def num_batches(self) -> int:
        """In the whole run."""
        all_epochs = self.epoch_count * self.table.num_minibatches
        return all_epochs if self.max_iter is None else min(self.max_iter, all_epochs)

    @property
    def uris_per_epoch(self) -> int:
        return -(-self.table.num_minibatches // self.uri_granularity)

    @property
    def count(self) -> int:
        epochs, rest = divmod(self.num_batches, self.table.num_minibatches)
        return epochs * self.uris_per_epoch + -(-rest // self.uri_granularity)

    def starting_at(self, number: int) -> Iterator[Uri]:
        stream: Stream | None = None
        for each in range(number, self.count):
            epoch, piece = divmod(each, self.uris_per_epoch)
            if stream is None or piece == 0:
                stream = self._stream(epoch)
            yield self._uri(each, epoch, piece, stream)

    def _stream(self, epoch: int) -> Stream:
        stream = TableStream(self.table, self._order(epoch), self.columns, self.options)
        return stream if self.negatives is None else NegativeStream(stream, self.table, None, self.negatives, epoch)

    def _uri(self, number: int, epoch: int, piece: int, stream: Stream) -> Uri:
        per_epoch = self.table.num_minibatches
        first = piece * self.uri_granularity
        stop = min(first + self.uri_granularity, per_epoch, self.num_batches - epoch * per_epoch)
        name = f"epoch {epoch}" if self.uris_per_epoch == 1 else f"epoch {epoch}, minibatches {first} to {stop - 1}"
        return Uri(number, name, stream, first, stop - first, epoch, is_epoch_end=stop == per_epoch)

    def _order(self, epoch: int) -> Sequence[int]:
        if self.shuffle_seed is None:
            return range(self.table.num_minibatches)
        order: list[int] = (
            numpy_generator(self.shuffle_seed, "shuffle", epoch).permutation(self.table.num_minibatches).tolist()
        )
        return order


@dataclass(frozen=True)
class HourUris(Uris):
    hours: "HourSource"
    start: int
    stop: int | None
    """None: never."""
    is_ready: Callable[[int], bool] = lambda hour: True
    """Whether the data for the end of an hour is complete: the later hours that it is evaluated on."""
    wait: Callable[[], None] = lambda: None
    """Called repeatedly until the next hour is there. May raise `Stopped`."""

    @property
    def count(self) -> int | None:
        return None if self.stop is None else self.hours.period.count(self.start, self.stop)

    def starting_at(self, number: int) -> Iterator[Uri]:
        while self.count is None or number < self.count:
            hour = self.hours.period.shift(self.start, number)
            while not (self.hours.is_complete(hour) and self.is_ready(hour)):
                self.wait()
            yield self.hours.uri(hour, number)
            number += 1


class HourSource:
    """The hours [start, stop) of a data source. A followed live table is reopened when a new version appears."""

    def __init__(
        self, data: DataSource, start: int | None = None, stop: int | None = None, is_following: bool = False
    ) -> None:
        self._start, self._stop = start, stop
        self.period = data.period
        self._is_following = is_following
        if is_following and data.complete_until is None:
            raise BadInput(
                f"{data.section}: {data.name} is finished and never grows, so it cannot be followed. Set "
                '"follow": false, or brew a live table with --append (append=True in Python)'
            )
        self._open(data)

    def _open(self, data: DataSource) -> None:
        hours = [hour for hour in data.hours if hour is not None]
        first = hours[0] if self._start is None else self._start
        last = data.period.shift(hours[-1], 1)
        last = max(first, last if self._stop is None else min(last, self._stop))
        self.data = data
        self._stream = data.stream(first, last)
        self._first_minibatch = data.inputs[0].table.minibatches_between(first, last).start

    def is_complete(self, hour: int) -> bool:
        """Whether every row of an hour is there. Looks for a new version if not."""
        if not self._is_following or self._has(hour):
            return True
        newer = self.data.reopened()
        if newer.complete_until != self.data.complete_until:
            self._open(newer)
        return self._has(hour)

    def _has(self, hour: int) -> bool:
        return self.data.complete_until is not None and hour < self.data.complete_until

    def uri(self, hour: int, number: int = 0) -> Uri:
        check_hour([each.table for each in self.data.inputs], hour)
        minibatches = self.data.hours.get(hour, range(0))
        first = minibatches.start - self._first_minibatch if minibatches else 0
        name = self.period.show(hour)
        return Uri(number, name, self._stream, first, len(minibatches), number, hour=hour, period=self.period)
