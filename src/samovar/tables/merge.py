"""Several tables read as one: the k-th minibatch of an hour in one table is joined to the k-th of that hour in the
others, after checking that their keys are equal. Knows no training.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import zip_longest

import pyarrow as pa
import torch

from samovar.errors import BadInput
from samovar.hours import show_hour
from samovar.tables.reader import ReadOptions
from samovar.tables.record import Bag, Record, RecordValue
from samovar.tables.table import Table


@dataclass(frozen=True)
class Part:
    """A table, and the columns to read from it."""

    table: Table
    columns: Sequence[str]


def read_merged(
    parts: Sequence[Part],
    merge_keys: Sequence[str],
    start_hour: int,
    end_hour: int,
    options: ReadOptions = ReadOptions(),
) -> Iterator[Record]:
    """Read the hours [start_hour, end_hour) of several tables as joined records.

    Args:
        parts: The tables and the columns of each; a column comes from one table only.
        merge_keys: Columns that every table has and that must be equal, minibatch by minibatch.
        start_hour: Start of the first hour, in seconds since 1970 UTC.
        end_hour: End of the last hour.
        options: Threads and memory, for all tables together.

    Returns:
        An iterator of `Record` with the columns of all parts.

    Raises:
        BadInput: Keys differ, a minibatch is missing, or two tables give one column. It names the place.

    Example:
        >>> parts = [Part(open_table("shows"), ["user"]), Part(open_table("clicks"), ["clicked"])]
        >>> records = read_merged(parts, ["hit"], start_hour=0, end_hour=86_400)
    """
    _check_columns(parts)
    share = options.divided(len(parts))
    with ExitStack() as stack:
        readers = []
        for part in parts:
            numbers = part.table.minibatches_between(start_hour, end_hour)
            columns = list(dict.fromkeys([*merge_keys, *part.columns]))
            reader = part.table.read(columns, numbers.start, numbers.stop, share)
            readers.append(stack.enter_context(reader))
        hour, number = None, 0
        for records in zip_longest(*readers):
            earliest = min(_hour(record) for record in records if record is not None)
            number = number + 1 if earliest == hour else 0
            hour = earliest
            yield _join(parts, merge_keys, _require_all(parts, records, hour, number), number)


def _check_columns(parts: Sequence[Part]) -> None:
    owners: dict[str, str] = {}
    for part in parts:
        for name in part.columns:
            if owners.setdefault(name, part.table.name) != part.table.name:
                raise BadInput(
                    f"merge_tables: column {name!r} is listed for {owners[name]} and for {part.table.name}. Read it "
                    "from one of them"
                )


def _join(parts: Sequence[Part], merge_keys: Sequence[str], records: Sequence[Record], number: int) -> Record:
    first = records[0]
    values: dict[str, RecordValue] = {}
    for part, record in zip(parts, records, strict=True):
        for key in merge_keys:
            if not _are_equal(first[key], record[key]):
                raise BadInput(
                    f"merge_tables: {part.table.name} and {parts[0].table.name} differ in minibatch {number} of hour "
                    f"{show_hour(_hour(first))}, key {key!r}. Brew both from the same events, with the same "
                    "batch_size, pivot_column and stability_column"
                )
        values.update({name: record[name] for name in part.columns})
    return Record(values, first.number, first.hour, first.num_examples)


def check_hour(tables: Sequence[Table], hour: int) -> None:
    """Check that all tables have the same number of minibatches in an hour. Reads manifests only."""
    counts = [len(table.hours.get(hour, ())) for table in tables]
    if min(counts) != max(counts):
        lacks, has = (tables[counts.index(each)].name for each in (min(counts), max(counts)))
        raise _missing_minibatch(lacks, has, hour, min(counts))


def _require_all(parts: Sequence[Part], records: Sequence[Record | None], hour: int, number: int) -> list[Record]:
    """The records, if every table has a minibatch with this number in this hour."""
    found = [record for record in records if record is not None and record.hour == hour]
    if len(found) == len(parts):
        return found
    is_there = [record is not None and record.hour == hour for record in records]
    has, lacks = parts[is_there.index(True)].table.name, parts[is_there.index(False)].table.name
    raise _missing_minibatch(lacks, has, hour, number)


def _missing_minibatch(lacks: str, has: str, hour: int, number: int) -> BadInput:
    return BadInput(
        f"merge_tables: {lacks} has no minibatch {number} of hour {show_hour(hour)}, but {has} has one. Brew both from "
        "the same events, with the same batch_size and pivot_column"
    )


def _hour(record: Record) -> int:
    assert record.hour is not None
    return record.hour


def _are_equal(left: RecordValue, right: RecordValue) -> bool:
    if isinstance(left, Bag) and isinstance(right, Bag):
        return torch.equal(left.data_len, right.data_len) and torch.equal(left.data, right.data)
    if isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor):
        return torch.equal(left, right)
    return isinstance(left, pa.Array) and isinstance(right, pa.Array) and left.equals(right)
