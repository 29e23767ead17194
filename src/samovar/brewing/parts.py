"""How a table is cut into parts, which are made one by one, in any process, and in files of their own.

rows per hour  ██ ███ █ ████████ █ ██ …     an hour, or another unit of the order, is never split
parts          ├────────┼────────┼────      a part ends with the unit that makes it ROWS_PER_PART rows or more

The parts depend on nothing but the number of rows in each unit, so the files of a table are the same bytes whoever
makes them. An offline table that is not shuffled has no units, and is one part.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from samovar.brewing.order import NO_UNIT, Order

ROWS_PER_PART = 1 << 20
OnRows = Callable[[int], object]
"""Called with the number of rows that were written since the last call."""


@dataclass(frozen=True)
class Part:
    """A range of units: those from `first` on and before `stop`; None is open."""

    number: int = 0
    first: int | None = None
    stop: int | None = None
    num_rows: int | None = None
    """None if it is not known."""


def cut_parts(rows_per_unit: Mapping[int, int], rows_per_part: int) -> list[Part]:
    """At least one part. The first and the last are open: rows without a unit, and rows of joined tables that should
    not be there, belong to one of them, where they are found and reported."""
    units = sorted(rows_per_unit)
    starts, sizes = [0], [0]
    for position, unit in enumerate(units):
        if sizes[-1] >= rows_per_part:
            starts.append(position)
            sizes.append(0)
        sizes[-1] += rows_per_unit[unit]
    borders = [None, *(units[start] for start in starts[1:]), None]
    return [Part(number, borders[number], borders[number + 1], size) for number, size in enumerate(sizes)]


class PartSplitter:
    """Hands out a sorted stream of rows part by part."""

    def __init__(self, rows: Generator[pa.RecordBatch], order: Order) -> None:
        self._rows = rows
        self._order = order
        self._rest: pa.RecordBatch | None = None

    def read(self, part: Part) -> Generator[pa.RecordBatch]:
        """The rows up to the end of a part. The part before must have been read to its end."""
        while True:
            batch, self._rest = next(self._rows, None) if self._rest is None else self._rest, None
            if batch is None:
                return
            num_rows = batch.num_rows if part.stop is None else self._count_before(batch, part.stop)
            if num_rows > 0:
                yield batch.slice(0, num_rows)
            if num_rows < batch.num_rows:
                self._rest = batch.slice(num_rows)
                return

    def _count_before(self, batch: pa.RecordBatch, stop: int) -> int:
        assert self._order.unit_column is not None
        is_later = self._order.units(batch.column(self._order.unit_column)) >= stop
        return int(is_later.argmax()) if is_later.any() else batch.num_rows


def find_part_numbers(parts: Sequence[Part], units: NDArray[np.int64]) -> NDArray[np.int32]:
    """The number of the part that each row belongs to, from its unit."""
    borders = np.array([NO_UNIT if part.first is None else part.first for part in parts], np.int64)
    return (np.searchsorted(borders, units, side="right") - 1).astype(np.int32)
