"""Where minibatches come from: a table, merged tables, or a list. Knows no URIs and no models.

table ──▶ Record: every column that was read ──Columns.pick──▶ MinibatchRecord: inputs, targets, keys
"""

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import torch

from samovar.config.values import suggest
from samovar.errors import UnknownColumn
from samovar.hours import show_hour
from samovar.tables import ReadOptions, Record, Table
from samovar.tables.merge import Part, read_merged
from samovar.tables.reader import SharedReader
from samovar.tables.record import MinibatchRecord, RecordValue

Minibatches: TypeAlias = Generator[MinibatchRecord, None, None]

_ALIGNMENT = 64  # bytes; torch aligns its own allocations this way


class Stream(ABC):
    """Minibatches in a fixed order that can be read from any position."""

    @property
    @abstractmethod
    def num_batches(self) -> int: ...

    @abstractmethod
    def open(self, first: int) -> Minibatches:
        """The minibatches from number `first` on. Closing the generator stops all reading ahead."""

    def place_of(self, number: int) -> str:
        """Where a minibatch comes from, in words."""
        return f"minibatch {number}"


class InputValues(dict[str, RecordValue]):
    """What a model gets. A name that is missing is one sentence, not the traceback of a KeyError."""

    def __missing__(self, name: str) -> RecordValue:
        raise UnknownColumn(f"the model reads {name!r}, which is not one of its features{suggest(name, self)}")


class TargetValues(dict[str, RecordValue]):
    """What a loss gets. A name that is missing is one sentence, not the traceback of a KeyError."""

    def __missing__(self, name: str) -> RecordValue:
        raise UnknownColumn(f"the loss reads {name!r}, which is not in `targets`: list it there{suggest(name, self)}")


@dataclass(frozen=True)
class Columns:
    """Which columns of a table become a model's inputs, the targets of its loss, and the keys of its predictions."""

    features: Sequence[str]
    targets: Sequence[str] = ()
    keys: Sequence[str] = ()

    @cached_property
    def names(self) -> list[str]:
        """All of them, each once: what has to be read."""
        return list(dict.fromkeys([*self.features, *self.targets, *self.keys]))

    def pick(self, record: Record) -> MinibatchRecord:
        # A target is copied even if nobody else uses its block: predictions collect targets for hours, and a view
        # would keep the whole block in memory.
        values = {name: _align(record[name], record.is_private and name not in self.targets) for name in self.names}
        return MinibatchRecord(
            InputValues((name, values[name]) for name in self.features),
            TargetValues((name, values[name]) for name in self.targets),
            {name: values[name] for name in self.keys},
            record.num_examples,
            record.number,
            record.hour,
        )


def _align(value: RecordValue, may_stay: bool) -> RecordValue:
    """Copy a tensor, unless it may stay in the reader's block and is aligned there.

    Its alignment in the block depends on where reading started, and a matrix product may give other bits for another
    alignment.
    """
    if not isinstance(value, torch.Tensor) or (may_stay and value.data_ptr() % _ALIGNMENT == 0):
        return value
    return value.clone()


@dataclass(frozen=True, eq=False)
class TableStream(Stream):
    """Minibatches of one table, in any order."""

    table: Table
    numbers: Sequence[int]
    """A range, or a shuffled order."""
    columns: Columns
    options: ReadOptions = ReadOptions()

    @property
    def num_batches(self) -> int:
        return len(self.numbers)

    def open(self, first: int) -> Minibatches:
        with self.table.read_minibatches(self.numbers[first:], self.columns.names, self.options) as reader:
            yield from map(self.columns.pick, reader)

    def place_of(self, number: int) -> str:
        return _place_in_table(self.table, self.numbers[number])


@dataclass(frozen=True, eq=False)
class SharedStream(Stream):
    """Neighbouring minibatches of a table that other streams read too; each is decoded once."""

    table: Table
    numbers: range
    columns: Columns
    shared: SharedReader
    """Reads the columns of all these streams."""

    @property
    def num_batches(self) -> int:
        return len(self.numbers)

    def open(self, first: int) -> Minibatches:
        with closing(self.shared.read(self.numbers.start + first, self.numbers.stop)) as records:
            yield from map(self.columns.pick, records)

    def place_of(self, number: int) -> str:
        return _place_in_table(self.table, self.numbers[number])


@dataclass(frozen=True, eq=False)
class MergedStream(Stream):
    """The hours [start, stop) of several tables read as one."""

    parts: Sequence[Part]
    """Each table with the columns that it provides."""
    merge_keys: Sequence[str]
    start: int
    stop: int
    columns: Columns
    options: ReadOptions = ReadOptions()

    @property
    def num_batches(self) -> int:
        return len(self.parts[0].table.minibatches_between(self.start, self.stop))

    def open(self, first: int) -> Minibatches:
        hour, skipped = self._hour_of(first)
        records = read_merged(
            [Part(part.table, [name for name in part.columns if name in self.columns.names]) for part in self.parts],
            self.merge_keys,
            hour,
            self.stop,
            self.options,
        )
        for number, record in enumerate(records):
            if number >= skipped:
                yield self.columns.pick(record)

    def place_of(self, number: int) -> str:
        hour, number_in_hour = self._hour_of(number)
        names = ", ".join(part.table.name for part in self.parts)
        return f"minibatch {number_in_hour} of {show_hour(hour)} in each of {names}"

    def _hour_of(self, number: int) -> tuple[int, int]:
        """The hour of a minibatch, and its number in that hour."""
        table = self.parts[0].table
        row = table.minibatches_between(self.start, self.stop).start + number
        hours = [(rows.start, hour) for hour, rows in table.hours.items() if hour is not None]
        found = bisect_right(hours, row, key=lambda entry: entry[0]) - 1
        start, hour = hours[found]
        return max(hour, self.start), row - start


@dataclass(frozen=True, eq=False)
class ListStream(Stream):
    """Minibatches in memory."""

    minibatches: Sequence[MinibatchRecord]

    @property
    def num_batches(self) -> int:
        return len(self.minibatches)

    def open(self, first: int) -> Minibatches:
        yield from self.minibatches[first:]


def _place_in_table(table: Table, number: int) -> str:
    return f"minibatch {number} of {table.name}, in its file {table.file_of(number)}"
