"""Where minibatches come from: a seam of two methods, over a table, merged tables, or a list. Knows no URIs.

One minibatch on its way into a model. Knows no tables.
"""

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from samovar.hours import show_hour
from samovar.tables import Part, ReadOptions, Record, Table, read_merged
from samovar.tables.reader import SharedReader
from samovar.tables.record import MinibatchRecord

Records: TypeAlias = Generator[Record | MinibatchRecord, None, None]
"""Records of which the loader takes columns, or minibatches that are complete."""


class Stream(ABC):
    """Minibatches in one order, which can be read from any place on."""

    @property
    @abstractmethod
    def num_batches(self) -> int: ...

    @abstractmethod
    def open(self, first: int, columns: Sequence[str]) -> Records:
        """The minibatches from number `first` on. Closing it ends all reading ahead."""

    def place_of(self, number: int) -> str:
        """Where a minibatch comes from, for people."""
        return f"minibatch {number}"


@dataclass(frozen=True, eq=False)
class TableStream(Stream):
    """Minibatches of one table, in any order."""

    table: Table
    numbers: Sequence[int]
    """A range, or a shuffled order."""
    options: ReadOptions = ReadOptions()

    @property
    def num_batches(self) -> int:
        return len(self.numbers)

    def open(self, first: int, columns: Sequence[str]) -> Records:
        with self.table.read_minibatches(self.numbers[first:], columns, self.options) as reader:
            yield from reader

    def place_of(self, number: int) -> str:
        return place_in_table(self.table, self.numbers[number])


@dataclass(frozen=True, eq=False)
class SharedStream(Stream):
    """Neighbouring minibatches of a table that others read too, before or after."""

    table: Table
    numbers: range
    shared: SharedReader
    """Has the columns of all of them."""

    @property
    def num_batches(self) -> int:
        return len(self.numbers)

    def open(self, first: int, columns: Sequence[str]) -> Records:
        yield from self.shared.read(self.numbers.start + first, self.numbers.stop)

    def place_of(self, number: int) -> str:
        return place_in_table(self.table, self.numbers[number])


@dataclass(frozen=True, eq=False)
class MergedStream(Stream):
    """The hours [start, stop) of several tables read as one."""

    parts: Sequence[Part]
    """Their columns are those that each gives, whatever is asked for."""
    merge_keys: Sequence[str]
    start: int
    stop: int
    options: ReadOptions = ReadOptions()

    @property
    def num_batches(self) -> int:
        return len(self.parts[0].table.minibatches_between(self.start, self.stop))

    def open(self, first: int, columns: Sequence[str]) -> Records:
        hour, skipped = self._hour_of(first)
        records = read_merged(
            [Part(part.table, [name for name in part.columns if name in columns]) for part in self.parts],
            self.merge_keys,
            hour,
            self.stop,
            self.options,
        )
        for number, record in enumerate(records):
            if number >= skipped:
                yield record

    def place_of(self, number: int) -> str:
        hour, number_in_hour = self._hour_of(number)
        names = ", ".join(part.table.name for part in self.parts)
        return f"minibatch {number_in_hour} of {show_hour(hour)} in each of {names}"

    def _hour_of(self, first: int) -> tuple[int, int]:
        """The hour of a minibatch, and its number in the hour."""
        table = self.parts[0].table
        row = table.minibatches_between(self.start, self.stop).start + first
        hours = [(rows.start, hour) for hour, rows in table.hours.items() if hour is not None]
        found = bisect_right(hours, row, key=lambda entry: entry[0]) - 1
        start, hour = hours[found]
        return max(hour, self.start), row - start


@dataclass(frozen=True, eq=False)
class ListStream(Stream):
    """Records that are in memory."""

    records: Sequence[Record]

    @property
    def num_batches(self) -> int:
        return len(self.records)

    def open(self, first: int, columns: Sequence[str]) -> Records:
        yield from _only(self.records[first:], columns)


def place_in_table(table: Table, number: int) -> str:
    return f"minibatch {number} of {table.name}, in its file {table.file_of(number)}"


def _only(records: Iterable[Record], columns: Sequence[str]) -> Records:
    for record in records:
        yield Record({name: record[name] for name in columns}, record.number, record.hour, record.num_examples)
