"""The order that brewing promises: which columns it sorts by, and that a stream of rows keeps to it.

    online, with a pivot    (granular date, pivot, stability)     the hour comes first: it is part of the granular date
    online, without         (granular date, date, stability)
    offline, with a pivot   (pivot, stability), or shuffled       (hash of the pivot, pivot, stability)
    offline, without        the source's own order, or shuffled   (hash of file and row number)

Ties are broken by source file, in order of paths, and row number.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from samovar.brew.ragged import as_numpy
from samovar.brew.sources import Source
from samovar.errors import BadInput

DATE = "_online_learning_date"
GRANULAR = "_online_learning_date_granular"
SHUFFLE = "_samovar_shuffle"
FILE = "_samovar_file"
ROW = "_samovar_row"
ADDED = (DATE, GRANULAR, SHUFFLE, FILE, ROW)


@dataclass(frozen=True)
class Order:
    is_online: bool
    pivot: str | None = None
    stability: str | None = None
    is_shuffled: bool = False

    @property
    def key(self) -> tuple[str, ...]:
        """What rows are sorted by before ties; joined tables must agree on it."""
        first = [GRANULAR] if self.is_online else [SHUFFLE] if self.is_shuffled else []
        second = self.pivot or (DATE if self.is_online else None)
        return tuple(column for column in [*first, second, self.stability] if column is not None)


def starts_of_runs(array: pa.Array) -> NDArray[np.bool_]:
    """Whether each value but the first differs from the one before it."""
    return as_numpy(pc.not_equal(array.slice(1), array.slice(0, len(array) - 1)))


def differences(batch: pa.RecordBatch, previous: pa.RecordBatch | None, columns: Sequence[str]) -> NDArray[np.bool_]:
    """Whether each row differs in `columns` from the row before it; `previous` ends with the row before the first."""
    changed = np.zeros(batch.num_rows, np.bool_)
    for column in columns:
        array = batch.column(column)
        changed[1:] |= starts_of_runs(array)
        if previous is not None:
            changed[0] |= array[0] != previous.column(column)[-1]
    return changed


def checked(batches: Iterator[pa.RecordBatch], key: Sequence[str], source: Source) -> Iterator[pa.RecordBatch]:
    """The same batches, without empty ones; an error at the first row that is out of order or has no key."""
    previous: pa.RecordBatch | None = None
    for batch in batches:
        if batch.num_rows == 0:
            continue
        _refuse_nulls(batch, key, source)
        narrow = batch.select([*key, FILE, ROW])
        rows = narrow if previous is None else pa.concat_batches([previous, narrow])
        wrong = _first_descent(rows.columns[: len(key)])
        if wrong is not None:
            raise BadInput(
                f"{_locate(rows, wrong, source)}: comes before the row above it in the order of {', '.join(key)}; "
                "expected sorted rows: make the table with map_date_field and the same pivot and stability columns"
            )
        yield batch
        previous = narrow.slice(batch.num_rows - 1)


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


def _refuse_nulls(batch: pa.RecordBatch, key: Sequence[str], source: Source) -> None:
    for column in key:
        array = batch.column(column)
        if array.null_count > 0:
            place = _locate(batch, int(as_numpy(array.is_null()).argmax()), source)
            found = "the time" if column in (DATE, GRANULAR) else f"column {column!r}"
            raise BadInput(
                f"{place}: {found} is null; expected a value, because rows are ordered by it: fill it, or leave such "
                "rows out"
            )


def _locate(batch: pa.RecordBatch, row: int, source: Source) -> str:
    return source.locate(batch.column(FILE)[row].as_py(), batch.column(ROW)[row].as_py())
