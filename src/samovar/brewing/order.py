"""The order that brewing promises: which columns it sorts by, and a check that a stream of rows keeps to it.

    online, with a pivot    (granular date, pivot, stability)     the hour is part of the granular date
    online, without         (granular date, date, stability)
    offline, with a pivot   (pivot, stability), or shuffled       (hash of the pivot, pivot, stability)
    offline, without        the source's own order, or shuffled   (hash of file and row number)

Ties are broken by source file, in order of paths, and row number.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from samovar.brewing.arrays import as_numpy, differs_from_previous
from samovar.brewing.sources import FILE, ROW, Source
from samovar.errors import BadInput
from samovar.hours import HOURLY, Period

DATE = "_online_learning_date"
GRANULAR = "_online_learning_date_granular"
SHUFFLE = "_samovar_shuffle"
ADDED = (DATE, GRANULAR, SHUFFLE, FILE, ROW)
NO_UNIT = -(2**63)
_UNIT_BITS = 16


@dataclass(frozen=True)
class Order:
    is_online: bool
    pivot: str | None = None
    stability: str | None = None
    is_shuffled: bool = False
    period: Period = HOURLY
    """What an online table is split by."""

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that rows are sorted by, without those that break ties. Joined tables agree on it."""
        first = [GRANULAR] if self.is_online else [SHUFFLE] if self.is_shuffled else []
        second = self.pivot or (DATE if self.is_online else None)
        return tuple(column for column in [*first, second, self.stability] if column is not None)

    @property
    def unit_column(self) -> str | None:
        """The column of the key that says which unit a row is in. Units come one after the other, and none is split: an
        hour, or another period, of an online table; a range of hashes of a shuffled one."""
        return GRANULAR if self.is_online else SHUFFLE if self.is_shuffled else None

    def units(self, values: pa.Array) -> NDArray[np.int64]:
        """The units of rows, from the values of `unit_column`; NO_UNIT for null, which sorts first."""
        numbers = as_numpy(values.fill_null(0))
        if self.is_online:
            units: NDArray[np.int64] = self.period.floor(numbers)
        else:
            units = (numbers >> np.uint64(64 - _UNIT_BITS)).astype(np.int64)
        return np.where(as_numpy(values.is_null()), NO_UNIT, units) if values.null_count else units


class OrderCheck:
    """Checks a stream, batch by batch: rows are sorted by the key, and no key is null."""

    def __init__(self, key: Sequence[str], source: Source) -> None:
        self._key = key
        self._source = source
        self._last: pa.RecordBatch | None = None
        """The last row of the batch before."""

    def check(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows == 0:
            return
        self._refuse_nulls(batch)
        narrow = batch.select([*self._key, FILE, ROW])
        rows = narrow if self._last is None else pa.concat_batches([self._last, narrow])
        wrong = _first_descent(rows.columns[: len(self._key)])
        if wrong is not None:
            raise BadInput(
                f"{self._locate(rows, wrong)} is not sorted: it belongs before the row above it in the order of "
                f"{', '.join(self._key)}. Make the table with map_date_field and the same pivot and stability columns"
            )
        self._last = narrow.slice(batch.num_rows - 1)

    def _refuse_nulls(self, batch: pa.RecordBatch) -> None:
        for column in self._key:
            array = batch.column(column)
            if array.null_count > 0:
                place = self._locate(batch, int(as_numpy(array.is_null()).argmax()))
                name = "the time" if column in (DATE, GRANULAR) else f"column {column!r}"
                raise BadInput(f"{place}: {name} is null, but rows are sorted by it")

    def _locate(self, batch: pa.RecordBatch, row: int) -> str:
        return self._source.locate(batch.column(FILE)[row].as_py(), batch.column(ROW)[row].as_py())


def find_changes(batch: pa.RecordBatch, previous: pa.RecordBatch | None, columns: Sequence[str]) -> NDArray[np.bool_]:
    """For each row, whether it differs in `columns` from the row before it. The last row of `previous` comes before
    the first one."""
    changed = np.zeros(batch.num_rows, np.bool_)
    for column in columns:
        array = batch.column(column)
        changed[1:] |= differs_from_previous(array)
        if previous is not None:
            changed[0] |= array[0] != previous.column(column)[-1]
    return changed


def _first_descent(columns: Sequence[pa.Array]) -> int | None:
    """The first row that is less than the one above it, comparing column by column."""
    if not columns or len(columns[0]) < 2:
        return None
    is_equal = np.ones(len(columns[0]) - 1, np.bool_)
    is_less = np.zeros(len(columns[0]) - 1, np.bool_)
    for array in columns:
        below, above = array.slice(1), array.slice(0, len(array) - 1)
        is_less |= is_equal & as_numpy(pc.less(below, above))
        is_equal &= as_numpy(pc.equal(below, above))
    return int(is_less.argmax()) + 1 if is_less.any() else None
