"""The order that brewing promises: which columns it sorts by, and that a stream of rows keeps to it.

    online, with a pivot    (granular date, pivot, stability)     the hour comes first: it is part of the granular date
    online, without         (granular date, date, stability)
    offline, with a pivot   (pivot, stability), or shuffled       (hash of the pivot, pivot, stability)
    offline, without        the source's own order, or shuffled   (hash of file and row number)

Ties are broken by source file, in order of paths, and row number.

A column of times as seconds since 1970 UTC, and as granules of their hour. Knows no files and no engine.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import types

from samovar.brewing.ragged import as_numpy
from samovar.brewing.sources import Source
from samovar.errors import BadInput, ConfigError
from samovar.hours import HOUR_SECONDS

Unit = Literal["seconds", "milliseconds", "timestamp"]

_MILLISECONDS_FROM = 10**11  # as seconds the year 5138, as milliseconds March 1973
_END_OF_TIME = 253402300800  # the year 10000
_ZONE = r"[T ]\d[\d:.]*[ ]?(Z|[+-]\d\d(:?\d\d)?)$"  # after a time: the day of a bare date looks like one
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


@dataclass(frozen=True)
class Clock:
    """How the time of a row is read, and which hours are taken."""

    field: str
    unit: Unit | None = None
    """None: a number below 10**11 is in seconds, else in milliseconds; dates and ISO texts are timestamps."""
    timezone: str | None = None
    """Of timestamps and texts that name no zone; UTC when absent. Of two times with one name the earlier counts."""
    granularity: int = 300
    start: int | None = None
    """Rows from this second on, and before `stop`."""
    stop: int | None = None

    def __post_init__(self) -> None:
        if self.unit is not None and self.unit not in get_args(Unit):
            raise ConfigError(f"time_unit: found {self.unit!r}; expected one of {', '.join(get_args(Unit))}: mend it")
        if self.granularity < 1:
            raise ConfigError(f"granularity: found {self.granularity}; expected 1 second or more: mend it")

    def seconds(self, times: pa.Array) -> pa.Array:
        """Whole seconds, rounded down; null stays null."""
        times = times.combine_chunks() if isinstance(times, pa.ChunkedArray) else times
        kind = times.type
        if types.is_null(kind):
            return pa.nulls(len(times), pa.int64())
        if types.is_timestamp(kind) or types.is_date(kind) or types.is_string(kind):
            if self.unit not in (None, "timestamp"):
                raise self._wrong(f"has the type {kind}", f"numbers of {self.unit}", "leave time_unit out")
            return self._from_timestamps(times)
        if not (types.is_integer(kind) or types.is_floating(kind)) or self.unit == "timestamp":
            cure = "cast it" if self.unit is None else "mend time_unit"
            raise self._wrong(f"has the type {kind}", self.unit or "numbers, timestamps or ISO texts", cure)
        return self._from_numbers(times)

    def granules(self, seconds: pa.Array) -> pa.Array:
        """Rounded down to a multiple of the granularity, counted from the start of the hour."""
        numbers = as_numpy(seconds.fill_null(0))
        in_hour = numbers % HOUR_SECONDS
        granule = min(self.granularity, HOUR_SECONDS)
        return pa.array(numbers - in_hour + in_hour // granule * granule, mask=_nulls(seconds))

    def _from_numbers(self, times: pa.Array) -> pa.Array:
        is_null = as_numpy(pc.is_null(times, nan_is_null=True))
        numbers = as_numpy(times.fill_null(0))
        if numbers.dtype.kind == "f":
            numbers = np.where(is_null, 0, numbers)
        self._refuse_infinite(numbers)
        far = np.abs(numbers.astype(np.float64)) >= _MILLISECONDS_FROM
        if self.unit is None:
            seconds = np.where(far, numbers // 1000, numbers // 1)
        else:
            seconds = numbers // (1000 if self.unit == "milliseconds" else 1)
        self._refuse_far(seconds, numbers)
        return pa.array(seconds.astype(np.int64), mask=is_null)

    def _from_timestamps(self, times: pa.Array) -> pa.Array:
        if types.is_string(times.type):
            return self._from_texts(times)
        if types.is_date(times.type):
            times = times.cast(pa.timestamp("s"))
        if times.type.tz is None and self.timezone is not None:
            times = pc.assume_timezone(times, self.timezone, ambiguous="earliest", nonexistent="earliest")
        numbers = as_numpy(times.cast(pa.int64()).fill_null(0))
        return pa.array(numbers // _PER_SECOND[times.type.unit], mask=_nulls(times))

    def _from_texts(self, times: pa.Array) -> pa.Array:
        has_zone = pc.match_substring_regex(times, _ZONE)
        nothing = pa.scalar(None, times.type)
        try:
            naive = pc.if_else(has_zone, nothing, times).cast(pa.timestamp("us"))
            zoned = pc.if_else(has_zone, times, nothing).cast(pa.timestamp("us", "UTC"))
        except pa.ArrowInvalid as error:
            raise self._wrong(f"has a text that is no time ({error})", "ISO texts", "mend the rows") from None
        return pc.coalesce(self._from_timestamps(naive), self._from_timestamps(zoned))

    def _refuse_infinite(self, numbers: NDArray[Any]) -> None:
        is_finite = np.isfinite(numbers)
        if not is_finite.all():
            found = f"has {numbers[int(is_finite.argmin())]}, which is no time"
            raise self._wrong(found, "finite numbers", "mend the rows, or leave them out")

    def _refuse_far(self, seconds: NDArray[Any], numbers: NDArray[Any]) -> None:
        far = np.abs(seconds.astype(np.float64)) >= _END_OF_TIME
        if far.any():
            unit = self.unit or "seconds or milliseconds"
            found = f"has {numbers[int(far.argmax())]}, which is after the year 9999 in {unit}"
            raise self._wrong(found, f"{unit} since 1970", "give time_unit, or divide the column")

    def _wrong(self, found: str, expected: str, cure: str) -> BadInput:
        return BadInput(f"time_field: column {self.field!r} {found}; expected {expected}: {cure}")


def _nulls(array: pa.Array) -> NDArray[np.bool_] | None:
    return as_numpy(array.is_null()) if array.null_count > 0 else None


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
