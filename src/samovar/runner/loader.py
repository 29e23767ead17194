"""From a URI to its minibatches. Neighbouring URIs of a stream are read as one, so that reading never pauses between
them: while callbacks run, later minibatches are on their way, but none is handed out. Knows no models.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import torch

from samovar.errors import CorruptData
from samovar.runner.stream import Records, Stream
from samovar.runner.uri import Uri
from samovar.tables.record import MinibatchRecord, Record, RecordValue

_ALIGNMENT = 64  # bytes: what torch allocates has it


@dataclass
class _Reading:
    stream: Stream
    next: int
    records: Records


@dataclass
class Loader:
    """Reads the columns that a model needs. Close it, or use it in a `with` block."""

    features: Sequence[str]
    targets: Sequence[str]
    keys: Sequence[str] = ()
    waiting_for: tuple[Uri, int] | None = field(default=None, init=False)
    """The minibatch of a URI that is not there yet; None while nobody waits."""
    _open: _Reading | None = field(default=None, init=False, repr=False)

    @property
    def columns(self) -> list[str]:
        return list(dict.fromkeys([*self.features, *self.targets, *self.keys]))

    def read(self, uri: Uri) -> Iterator[MinibatchRecord]:
        """The minibatches of one URI."""
        if uri.num_batches == 0:
            return
        reading = self._reading_at(uri.stream, uri.first)
        for number in range(uri.num_batches):
            self.waiting_for = (uri, number)
            record = next(reading.records, None)
            self.waiting_for = None
            if record is None:
                raise CorruptData(
                    f"{uri.name}: its minibatches end at number {reading.next - uri.first}; expected "
                    f"{uri.num_batches}: the table changed while it was read; restore it, and start again"
                )
            reading.next += 1
            yield self._minibatch(record)

    def _reading_at(self, stream: Stream, first: int) -> _Reading:
        if self._open is None or self._open.stream is not stream or self._open.next != first:
            self.close()
            self._open = _Reading(stream, first, stream.open(first, self.columns))
        return self._open

    def _minibatch(self, record: Record | MinibatchRecord) -> MinibatchRecord:
        if isinstance(record, MinibatchRecord):  # a stream of the facades has no columns to choose from
            return record
        # Who collects targets, hour after hour, must not keep the whole blocks that they lay in.
        values = {name: _aligned(record[name], record.is_private and name not in self.targets) for name in self.columns}
        return MinibatchRecord(
            {name: values[name] for name in self.features},
            {name: values[name] for name in self.targets},
            {name: values[name] for name in self.keys},
            record.num_examples,
            record.number,
            record.hour,
        )

    def close(self) -> None:
        if self._open is not None:
            self._open.records.close()
            self._open = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _aligned(value: RecordValue, may_stay: bool) -> RecordValue:
    """A tensor in memory of its own, or where it lies if that is aligned as torch's own are: where it lies in the
    reader's block depends on where reading began, and a matrix product may give other bits for another alignment."""
    if not isinstance(value, torch.Tensor) or (may_stay and value.data_ptr() % _ALIGNMENT == 0):
        return value
    return value.clone()
