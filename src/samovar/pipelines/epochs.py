"""Offline URIs: epochs over a fixed table, cut every `uri_granularity` minibatches. Opens no files."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from samovar.runner import Uri, Uris
from samovar.runner.stream import ReadOptions, Stream, TableStream
from samovar.seeds import numpy_generator
from samovar.tables import Table


@dataclass(frozen=True)
class EpochUris(Uris):
    table: Table
    epoch_count: int
    max_iter: int | None = None
    uri_granularity: int = 4000
    shuffle_seed: int | None = None
    """Draws the order of each epoch; None keeps the table's."""
    options: ReadOptions = ReadOptions()  # noqa: RUF009  # it is frozen

    @property
    def num_batches(self) -> int:
        """Of the whole run."""
        whole = self.epoch_count * self.table.num_rows
        return whole if self.max_iter is None else min(self.max_iter, whole)

    @property
    def per_epoch(self) -> int:
        return -(-self.table.num_rows // self.uri_granularity)

    @property
    def count(self) -> int:
        epochs, rest = divmod(self.num_batches, self.table.num_rows)
        return epochs * self.per_epoch + -(-rest // self.uri_granularity)

    def starting_at(self, number: int) -> Iterator[Uri]:
        stream: Stream | None = None
        for each in range(number, self.count):
            epoch, piece = divmod(each, self.per_epoch)
            if stream is None or piece == 0:
                stream = TableStream(self.table, self._order(epoch), self.options)
            yield self._uri(each, epoch, piece, stream)

    def _uri(self, number: int, epoch: int, piece: int, stream: Stream) -> Uri:
        rows = self.table.num_rows
        first = piece * self.uri_granularity
        last = min(first + self.uri_granularity, rows, self.num_batches - epoch * rows)
        name = f"epoch {epoch}" if self.per_epoch == 1 else f"epoch {epoch}, minibatches {first} to {last - 1}"
        return Uri(number, name, stream, first, last - first, epoch, is_epoch_end=last == rows)

    def _order(self, epoch: int) -> Sequence[int]:
        if self.shuffle_seed is None:
            return range(self.table.num_rows)
        order: list[int] = (
            numpy_generator(self.shuffle_seed, "shuffle", epoch).permutation(self.table.num_rows).tolist()
        )
        return order
