"""Several sorted streams merged row by row. Every key stands in every stream, and exactly once: a join that drops or
doubles rows is a leak of the target.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from samovar.brewing.order import differences
from samovar.brewing.ragged import as_numpy
from samovar.errors import BadInput


@dataclass(frozen=True)
class Stream:
    """One table on its way into a join: its rows, sorted by the key."""

    name: str
    """For messages."""
    rows: Iterator[pa.RecordBatch]


def join(streams: Sequence[Stream], key: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Rows with the columns of all streams; of a column that several have, the first one's."""
    if len(streams) == 1:
        yield from streams[0].rows
        return
    cursors = [_Cursor(stream, key) for stream in streams]
    first = cursors[0]
    while True:
        num_rows = min(cursor.fill() for cursor in cursors)
        _refuse_other_types(cursors, key)
        if num_rows == 0:
            for cursor in cursors[1:]:
                if (cursor.fill() == 0) != (first.fill() == 0):
                    _raise_alone(first, cursor, 0, key)
            return
        heads = [cursor.rows.slice(0, num_rows) for cursor in cursors]
        differing = [_first_difference(heads[0], head, key) for head in heads[1:]]
        if min(differing) < num_rows:
            _raise_alone(first, cursors[1 + int(np.argmin(differing))], min(differing), key)
        yield _beside(heads)
        for cursor in cursors:
            cursor.rows = cursor.rows.slice(num_rows)


class _Cursor:
    """The rows of a stream that were read and not yet joined."""

    def __init__(self, stream: Stream, key: Sequence[str]) -> None:
        self.name = stream.name
        self.rows: pa.RecordBatch = pa.record_batch({})
        self._stream = stream.rows
        self._key = key
        self._last: pa.RecordBatch | None = None

    def fill(self) -> int:
        """Read on if nothing is left; how many rows there are, 0 at the end."""
        while self.rows.num_rows == 0:
            batch = next(self._stream, None)
            if batch is None:
                return 0
            if batch.num_rows > 0:
                self._refuse_doubled(batch)
                self.rows, self._last = batch, batch.slice(batch.num_rows - 1)
        return int(self.rows.num_rows)

    def _refuse_doubled(self, batch: pa.RecordBatch) -> None:
        is_new = differences(batch, self._last, self._key)
        if self._last is None:
            is_new[0] = True
        if not is_new.all():
            row = int((~is_new).argmax())
            raise BadInput(
                f"{self.name}: two rows with {_describe(_key_at(batch, row, self._key))}; expected each key once: a "
                "join is one to one: make the rows unique, or add a stability_column that tells them apart"
            )


def _refuse_other_types(cursors: Sequence[_Cursor], key: Sequence[str]) -> None:
    first, *others = [cursor for cursor in cursors if cursor.rows.num_rows > 0] or [cursors[0]]
    for cursor in others:
        for column in key:
            ours, theirs = first.rows.column(column).type, cursor.rows.column(column).type
            if ours != theirs:
                raise BadInput(
                    f"{cursor.name}: column {column!r} is {theirs}, in {first.name} it is {ours}; expected one type: "
                    "cast it in one of the tables"
                )


def _first_difference(left: pa.RecordBatch, right: pa.RecordBatch, key: Sequence[str]) -> int:
    """The first row in which the keys differ, or the number of rows."""
    differs = np.zeros(left.num_rows + 1, np.bool_)
    differs[-1] = True
    for column in key:
        differs[:-1] |= as_numpy(pc.not_equal(left.column(column), right.column(column)))
    return int(differs.argmax())


def _raise_alone(first: _Cursor, other: _Cursor, position: int, key: Sequence[str]) -> NoReturn:
    """Say which of the two streams has the key that the other has not."""
    ours = _key_at(first.rows, position, key) if first.fill() else None
    theirs = _key_at(other.rows, position, key) if other.fill() else None
    is_extra = ours is None or (theirs is not None and _values(theirs) < _values(ours))
    lone = theirs if is_extra else ours
    assert lone is not None
    kind = "an extra row" if is_extra else "no row"
    whose = f"which {first.name} has not" if is_extra else f"which {first.name} has"
    raise BadInput(
        f"{other.name}: {kind} with {_describe(lone)}, {whose}; expected the same keys in both: a join is one to one: "
        "join the features to the events before brewing"
    )


def _key_at(rows: pa.RecordBatch, row: int, key: Sequence[str]) -> dict[str, Any]:
    return {column: rows.column(column)[row].as_py() for column in key}


def _values(key: dict[str, Any]) -> tuple[Any, ...]:
    # Text sorts by its UTF-8 bytes, as in the engines.
    return tuple(value.encode() if isinstance(value, str) else value for value in key.values())


def _describe(key: dict[str, Any]) -> str:
    return ", ".join(f"{column} = {value!r}" for column, value in key.items())


def _beside(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    columns: dict[str, pa.Array] = {}
    for batch in batches:
        for name, array in zip(batch.schema.names, batch.columns, strict=True):
            columns.setdefault(name, array)
    return pa.RecordBatch.from_pydict(columns)
