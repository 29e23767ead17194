"""The time of a row: a column of times as seconds since 1970 UTC, and as granules of their hour. Knows no files and
no engine."""

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import types

from samovar.brewing.arrays import as_numpy
from samovar.brewing.time_format import find_time_format, learn_time_format
from samovar.errors import BadInput, ConfigError
from samovar.hours import HOURLY, Period

Unit = Literal["seconds", "milliseconds", "timestamp"]

_MILLISECONDS_FROM = 10**11  # as seconds the year 5138, as milliseconds March 1973
_END_OF_TIME = 253402300800  # the year 10000
_ZONE = r"[T ]\d[\d:.]*[ ]?(Z|[+-]\d\d(:?\d\d)?)$"  # after a time: the end of a bare date looks like a zone
_FIRST_YEAR, _LAST_YEAR = 1800, 2200
_NANOSECONDS = r"(:\d\d\.\d{6})\d{1,3}"
_SLASHES = r"^(\d{4})/(\d{2})/(\d{2})"  # the year first, so that day and month cannot be confused
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


@dataclass(frozen=True)
class Clock:
    """How the time of a row is read, and which rows are taken."""

    field: str
    unit: Unit | None = None
    """None: numbers below 10**11 are seconds, larger ones milliseconds; dates and ISO texts are timestamps."""
    timezone: str | None = None
    """For timestamps and texts without a zone; None means UTC. An hour that a clock shows twice is the earlier one."""
    granularity: int = 300
    """Seconds."""
    start: int | None = None
    """First second that is taken."""
    stop: int | None = None
    """First second after `start` that is not taken."""
    format: str | None = None
    """Of texts, and of numbers such as 20210120; see `TimeFormat`. None: ISO."""
    period: Period = HOURLY
    """What the table is split by."""

    def __post_init__(self) -> None:
        if self.format is not None:
            find_time_format(self.format)
        if self.unit is not None and self.unit not in get_args(Unit):
            raise ConfigError(f"time_unit must be one of {', '.join(get_args(Unit))}, got {self.unit!r}")
        if self.granularity < 1:
            raise ConfigError(f"granularity must be at least 1 second, got {self.granularity}")

    def seconds(self, times: pa.Array, locate: Callable[[int], str] | None = None) -> pa.Array:
        """Whole seconds, rounded down; null stays null. `locate` names a row in errors."""
        times = times.combine_chunks() if isinstance(times, pa.ChunkedArray) else times
        kind = times.type
        if types.is_null(kind):
            return pa.nulls(len(times), pa.int64())
        try:
            return self._seconds(times)
        except _BadTime as error:
            place = "" if locate is None or error.row is None else f"{locate(error.row)}: "
            raise BadInput(f"{place}{error}") from None

    def learn_format(self, batches: Iterable[pa.Array], where: str) -> "Clock":
        """The same clock, with the format that the texts have, if they are not ISO. `batches` are the first rows of a
        table, as many as it takes."""
        read = []
        for times in batches:
            read.append(times)
            if self.format is not None or self.unit is not None or not types.is_string(times.type):
                return self
            if times.null_count < len(times):
                break
        if not read or all(_is_time(text) for text in read[-1].drop_null()[:1]):
            return self
        found = learn_time_format(itertools.chain(read[-1:], batches), f"{where}: time_field: column {self.field!r}")
        return self if found is None else replace(self, format=found)

    def _seconds(self, times: pa.Array) -> pa.Array:
        kind = times.type
        if self.format is not None and not types.is_temporal(kind):
            return self._from_format(times)
        if types.is_timestamp(kind) or types.is_date(kind) or types.is_string(kind):
            if self.unit not in (None, "timestamp"):
                raise self._error(f"is {kind}, which does not match time_unit {self.unit!r}")
            return self._from_timestamps(times)
        if not (types.is_integer(kind) or types.is_floating(kind)) or self.unit == "timestamp":
            if self.unit is None:
                raise self._error(f"is {kind}; a time is a number, a timestamp or an ISO string")
            raise self._error(f"is {kind}, which does not match time_unit {self.unit!r}")
        return self._from_numbers(times)

    def granules(self, seconds: pa.Array) -> pa.Array:
        """Seconds rounded down to a multiple of the granularity, counted from the start of the hour, or from the start
        of a shorter period."""
        numbers, span = as_numpy(seconds.fill_null(0)), self.period.granule_span
        in_span = numbers % span
        granule = min(self.granularity, span)
        return pa.array(numbers - in_span + in_span // granule * granule, mask=_nulls(seconds))

    def in_range(self, seconds: pa.Array) -> pa.Array:
        """Which rows are taken; those without a time are."""
        keep = pa.array(np.ones(len(seconds), bool))
        if self.start is not None:
            keep = pc.and_(keep, pc.greater_equal(seconds, self.start).fill_null(True))
        if self.stop is not None:
            keep = pc.and_(keep, pc.less(seconds, self.stop).fill_null(True))
        return keep

    def refuse_years(self, times: pa.Array) -> None:
        """Refuse numbers that all look like years: as seconds they would be in the first hour of 1970. `times` are the
        first rows of a table: few later ones in a row may be anything."""
        if self.unit is not None or not (types.is_integer(times.type) or types.is_floating(times.type)):
            return
        numbers = as_numpy(times.drop_null())
        if len(numbers) > 0 and ((numbers >= _FIRST_YEAR) & (numbers < _LAST_YEAR)).all():
            raise self._error(
                f"has {numbers[0]}, which looks like a year; a time is seconds since 1970, milliseconds or an ISO "
                f"string such as {int(numbers[0])}-01-01. Set time_unit if these are seconds"
            )

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
        try:
            naive, zoned = _parse_texts(times)
        except pa.ArrowInvalid:
            row = next(row for row, text in enumerate(times) if not _is_time(text))
            problem = f"has the text {times[row].as_py()!r}, which is not an ISO time such as 2021-01-20T17:00:00"
            raise self._error(f"{problem}. Set time_format if the times have another form", row) from None
        return pc.coalesce(self._from_timestamps(naive), self._from_timestamps(zoned))

    def _from_format(self, times: pa.Array) -> pa.Array:
        assert self.format is not None
        if types.is_integer(times.type):
            times = times.cast(pa.string())
        if not types.is_string(times.type):
            raise self._error(f"is {times.type}, but time_format is for text")
        form = find_time_format(self.format)
        seconds, is_time = form.parse(times)
        is_wrong = ~is_time & as_numpy(times.is_valid())
        if is_wrong.any():
            row = int(is_wrong.argmax())
            raise self._error(f"has the text {times[row].as_py()!r}, which does not match {self.format!r}", row)
        moments = pa.array(seconds, mask=_nulls(times)).cast(pa.timestamp("s", "UTC" if form.has_zone else None))
        return self._from_timestamps(moments)

    def _refuse_infinite(self, numbers: NDArray[Any]) -> None:
        is_finite = np.isfinite(numbers)
        if not is_finite.all():
            row = int(is_finite.argmin())
            raise self._error(f"has {numbers[row]}, which is not a time", row)

    def _refuse_far(self, seconds: NDArray[Any], numbers: NDArray[Any]) -> None:
        far = np.abs(seconds.astype(np.float64)) >= _END_OF_TIME
        if far.any():
            unit = self.unit or "seconds or milliseconds"
            row = int(far.argmax())
            raise self._error(f"has {numbers[row]}, which is after the year 9999 in {unit}", row)

    def _error(self, problem: str, row: int | None = None) -> "_BadTime":
        return _BadTime(f"time_field: column {self.field!r} {problem}", row)


class _BadTime(BadInput):
    def __init__(self, problem: str, row: int | None) -> None:
        super().__init__(problem)
        self.row = row


def _parse_texts(times: pa.Array) -> tuple[pa.Array, pa.Array]:
    """The times without a zone, and those with one; null elsewhere."""
    times = pc.replace_substring_regex(times, _SLASHES, r"\1-\2-\3")
    times = pc.replace_substring_regex(times, _NANOSECONDS, r"\1")  # as pandas writes them; seconds are rounded down
    has_zone = pc.match_substring_regex(times, _ZONE)
    nothing = pa.scalar(None, times.type)
    naive = pc.if_else(has_zone, nothing, times).cast(pa.timestamp("us"))
    return naive, pc.if_else(has_zone, times, nothing).cast(pa.timestamp("us", "UTC"))


def _is_time(text: pa.Scalar) -> bool:
    try:
        _parse_texts(pa.array([text.as_py()], text.type))
    except pa.ArrowInvalid:
        return False
    return True


def _nulls(array: pa.Array) -> NDArray[np.bool_] | None:
    return as_numpy(array.is_null()) if array.null_count > 0 else None
