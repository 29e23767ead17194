"""Minibatches with rows of earlier hours behind their own, so that a row is trained on more than once.

hour     … 07:00 … 08:00 … 09:00   |  10:00: minibatch 41, 1024 rows
draw       m 5     m 17 m 22 m 31  |  2 · rows minibatches of the window, by (seed, 41)
rows       some of each            |  1024 new rows + rows · 1024 of the drawn ones, in one step

What is drawn depends on the seed and the minibatch alone, and never on rows of its own hour or of later ones. Whole
minibatches are read, because a cell is decoded as a whole.
"""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from samovar.runner.stream import Columns, InputValues, Minibatches, Stream, TargetValues
from samovar.seeds import numpy_generator
from samovar.tables import ReadOptions, Table
from samovar.tables.record import MinibatchRecord, RecordValue
from samovar.tables.schema import GROUP_START
from samovar.tables.selection import gather_rows

_MINIBATCHES_PER_ROW = 2  # the more, the less neighbouring rows look alike; each has to be decoded


@dataclass(frozen=True)
class Replay:
    """How many rows of earlier hours join each new one."""

    rows: int
    """Per new row."""
    window_seconds: int
    """How far back they may be."""
    seed: int = 0


@dataclass(frozen=True, eq=False)
class ReplayStream(Stream):
    """Neighbouring minibatches of a table, each with rows of earlier hours behind its own."""

    stream: Stream
    """The new minibatches."""
    table: Table
    """Where they and the earlier ones come from."""
    first: int
    """The number in the table of the stream's first minibatch."""
    start: int
    """The hour from which on earlier rows are drawn."""
    columns: Columns
    replay: Replay
    options: ReadOptions = ReadOptions()

    @property
    def num_batches(self) -> int:
        return self.stream.num_batches

    def place_of(self, number: int) -> str:
        return self.stream.place_of(number)

    def open(self, first: int) -> Minibatches:
        numbers = range(self.first + first, self.first + self.num_batches)
        drawn = (number for new in numbers for number in self.draw(new))
        names, options = self.columns.names, self.options.divided(2)
        with (
            closing(self.stream.open(first)) as fresh,
            self.table.read_minibatches(drawn, names, options) as earlier,
        ):
            for number, record in zip(numbers, fresh, strict=False):  # the loader reports a stream that ends early
                drawn_now = self.draw(number)
                yield self._join(record, [self.columns.pick(next(earlier)) for _ in drawn_now], drawn_now)

    def draw(self, number: int) -> dict[int, int]:
        """The earlier minibatches that give rows to this one, in order, and how often each was drawn. What is drawn is
        a row, and every row of the window is equally likely; the minibatch is the one that has it."""
        hours = self._hours
        last = int(np.searchsorted(hours.first_minibatch, number, side="right")) - 1
        period = self.table.period
        first = period.shift(int(hours.hour[last]), -self.replay.window_seconds // period.seconds)
        oldest = max(self.start, first)
        low, high = hours.rows_before[np.searchsorted(hours.hour, [oldest, hours.hour[last]])]
        if low >= high:
            return {}
        generator = numpy_generator(self.replay.seed, "replay", number)
        rows = generator.integers(low, high, _MINIBATCHES_PER_ROW * self.replay.rows)
        at = np.searchsorted(hours.rows_before, rows, side="right") - 1
        # An hour's minibatches are equal, apart from the last.
        place = (rows - hours.rows_before[at]) * hours.num_minibatches[at] // hours.num_rows[at]
        found, counts = np.unique(hours.first_minibatch[at] + place, return_counts=True)
        return dict(zip(found.tolist(), counts.tolist(), strict=True))

    @cached_property
    def _hours(self) -> "_Hours":
        return _Hours.of(self.table)

    def _join(
        self, fresh: MinibatchRecord, earlier: Sequence[MinibatchRecord], drawn: Mapping[int, int]
    ) -> MinibatchRecord:
        if not earlier:
            return fresh
        generator = numpy_generator(self.replay.seed, "replay rows", fresh.number)
        num_per_draw = -(-fresh.num_examples // _MINIBATCHES_PER_ROW)
        chosen = [np.arange(fresh.num_examples)]
        first = fresh.num_examples
        for record, count in zip(earlier, drawn.values(), strict=True):
            chosen.append(first + _choose(record, count * num_per_draw, generator))
            first += record.num_examples
        rows = np.concatenate(chosen)
        records = [fresh, *earlier]
        values = {name: gather_rows([_find(record, name) for record in records], rows) for name in self.columns.names}

        def renew(column: Mapping[str, RecordValue]) -> Mapping[str, RecordValue]:
            return {name: values[name] for name in column}

        return replace(
            fresh,
            inputs=InputValues(renew(fresh.inputs)),
            targets=TargetValues(renew(fresh.targets)),
            keys=renew(fresh.keys),
            num_replayed=len(rows) - fresh.num_examples,
        )


def _choose(record: MinibatchRecord, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Different rows of a minibatch, in order. If the loss gets its groups, whole ones, with at least as many rows."""
    if GROUP_START not in record.targets:
        return np.sort(generator.permutation(record.num_examples)[:count])
    starts = record.targets[GROUP_START]
    assert isinstance(starts, torch.Tensor)
    group = np.cumsum(starts.numpy() > 0) - 1
    sizes = np.bincount(group)
    order = generator.permutation(len(sizes))
    is_chosen = np.zeros(len(sizes), np.bool_)
    is_chosen[order[np.cumsum(sizes[order]) - sizes[order] < count]] = True
    return np.flatnonzero(is_chosen[group])


def _find(record: MinibatchRecord, name: str) -> RecordValue:
    return next(part[name] for part in (record.inputs, record.targets, record.keys) if name in part)


@dataclass(frozen=True)
class _Hours:
    """The hours of a table, in order, as arrays. An hour that several versions brought is there several times."""

    hour: NDArray[np.int64]
    first_minibatch: NDArray[np.int64]
    num_minibatches: NDArray[np.int64]
    num_rows: NDArray[np.int64]
    rows_before: NDArray[np.int64]

    @classmethod
    def of(cls, table: Table) -> "_Hours":
        entries = [each for manifest in table.manifests for each in manifest.segment.hours]
        columns = [(each.hour, each.first_minibatch, each.num_minibatches, each.num_examples) for each in entries]
        hour, first, num_minibatches, num_rows = np.array(columns, np.int64).reshape(-1, 4).T
        return cls(hour, first, num_minibatches, num_rows, np.cumsum(num_rows) - num_rows)
