"""Sorted tables merged row by row. Every key occurs in every table exactly once: a join that drops or repeats rows
leaks the target."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from samovar.brewing.arrays import as_numpy
from samovar.brewing.order import OrderCheck, find_changes
from samovar.brewing.sources import FILE, ROW, Source
from samovar.errors import BadInput


@dataclass(frozen=True)
class SortedTable:
    """A stream of rows that should be sorted by a key."""

    source: Source
    rows: Generator[pa.RecordBatch]
    """The columns of the key among others, and each row's place in its source (FILE, ROW)."""


def join(tables: Sequence[SortedTable], key: Sequence[str]) -> Generator[pa.RecordBatch]:
    """Check the order of every table and yield rows with the columns of all tables. A column that several tables have
    comes from the first; the places of the rows of table n are in columns of their own, see `locate`."""
    cursors = [_Cursor(table, number, key, is_unique=len(tables) > 1) for number, table in enumerate(tables)]
    first, *others = cursors
    while True:
        num_rows = min(cursor.fill() for cursor in cursors)
        _refuse_other_types(cursors, key)
        _refuse_other_keys(first, others, num_rows, key)
        if num_rows == 0:
            return
        yield _side_by_side([cursor.take(num_rows) for cursor in cursors])


def locate(rows: pa.RecordBatch, table: SortedTable, number: int, row: int) -> str:
    """The place in table `number` from which a joined row comes."""
    file, place = (rows.column(_numbered(name, number))[row].as_py() for name in (FILE, ROW))
    return table.source.locate(file, place)


def _numbered(name: str, number: int) -> str:
    return f"{name}{number}" if name in (FILE, ROW) else name


class _Cursor:
    """The rows of a table that were read, but not joined yet."""

    def __init__(self, table: SortedTable, number: int, key: Sequence[str], is_unique: bool) -> None:
        self.name = table.source.name
        self.rows: pa.RecordBatch = pa.record_batch({})
        self._stream = table.rows
        self._number = number
        self._order = OrderCheck(key, table.source)
        self._key = key
        self._is_unique = is_unique
        self._last: pa.RecordBatch | None = None
        """The last row of the batch before."""

    def fill(self) -> int:
        """Read on if no row is left. Returns the number of rows, 0 at the end."""
        while self.rows.num_rows == 0:
            batch = next(self._stream, None)
            if batch is None:
                return 0
            if batch.num_rows > 0:
                self._order.check(batch)
                if self._is_unique:
                    self._refuse_repeated(batch)
                self.rows = batch.rename_columns([_numbered(name, self._number) for name in batch.schema.names])
        return int(self.rows.num_rows)

    def take(self, num_rows: int) -> pa.RecordBatch:
        taken, self.rows = self.rows.slice(0, num_rows), self.rows.slice(num_rows)
        return taken

    def _refuse_repeated(self, batch: pa.RecordBatch) -> None:
        is_new = find_changes(batch, self._last, self._key)
        if self._last is None:
            is_new[0] = True
        self._last = batch.slice(batch.num_rows - 1)
        if not is_new.all():
            key = _key_at(batch, int((~is_new).argmax()), self._key)
            raise BadInput(
                f"{self.name}: two rows with {_describe(key)}, but tables are joined one to one. Make the rows unique, "
                "or add a stability_column that differs between them"
            )


def _refuse_other_types(cursors: Sequence[_Cursor], key: Sequence[str]) -> None:
    first, *others = [cursor for cursor in cursors if cursor.rows.num_rows > 0] or [cursors[0]]
    for cursor in others:
        for column in key:
            ours, theirs = first.rows.column(column).type, cursor.rows.column(column).type
            if ours != theirs:
                raise BadInput(
                    f"{cursor.name}: column {column!r} is {theirs}, but {ours} in {first.name}; cast one of them"
                )


def _refuse_other_keys(first: _Cursor, others: Sequence[_Cursor], num_rows: int, key: Sequence[str]) -> None:
    """Compare the keys of the next rows and report the first that differs. Where one table ends, all end."""
    if num_rows == 0:
        differing = [(0, cursor) for cursor in others if bool(cursor.rows.num_rows) != bool(first.rows.num_rows)]
    else:
        positions = [(_first_difference(first.rows, cursor.rows, num_rows, key), cursor) for cursor in others]
        differing = [(position, cursor) for position, cursor in positions if position < num_rows]
    if differing:
        position, cursor = min(differing, key=lambda each: each[0])
        _raise_unmatched(first, cursor, position, key)


def _first_difference(left: pa.RecordBatch, right: pa.RecordBatch, num_rows: int, key: Sequence[str]) -> int:
    """The first row whose keys differ, or `num_rows`."""
    differs = np.zeros(num_rows + 1, np.bool_)
    differs[-1] = True
    for column in key:
        ours, theirs = (rows.column(column).slice(0, num_rows) for rows in (left, right))
        differs[:-1] |= as_numpy(pc.not_equal(ours, theirs))
    return int(differs.argmax())


def _raise_unmatched(first: _Cursor, other: _Cursor, position: int, key: Sequence[str]) -> NoReturn:
    """Name the key that only one of the two tables has."""
    ours = _key_at(first.rows, position, key) if first.rows.num_rows else None
    theirs = _key_at(other.rows, position, key) if other.rows.num_rows else None
    is_extra = ours is None or (theirs is not None and _sortable(theirs) < _sortable(ours))
    unmatched = theirs if is_extra else ours
    assert unmatched is not None
    problem = f"a row with {_describe(unmatched)}, which {first.name} does not have"
    if not is_extra:
        problem = f"no row with {_describe(unmatched)}, which {first.name} has"
    raise BadInput(
        f"{other.name}: {problem}. Tables are joined one to one: join the features to the events before brewing"
    )


def _key_at(rows: pa.RecordBatch, row: int, key: Sequence[str]) -> dict[str, Any]:
    return {column: rows.column(column)[row].as_py() for column in key}


def _sortable(key: dict[str, Any]) -> tuple[Any, ...]:
    # Text sorts by its UTF-8 bytes, as in the engines.
    return tuple(value.encode() if isinstance(value, str) else value for value in key.values())


def _describe(key: dict[str, Any]) -> str:
    return ", ".join(f"{column} = {value!r}" for column, value in key.items())


def _side_by_side(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    columns: dict[str, pa.Array] = {}
    for batch in batches:
        for name, array in zip(batch.schema.names, batch.columns, strict=True):
            columns.setdefault(name, array)
    return pa.RecordBatch.from_pydict(columns)
