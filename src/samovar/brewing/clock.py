"""The time of a row: a column of times as seconds since 1970 UTC, and as granules of their hour. Knows no files and
no engine."""

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import types

from samovar.brewing.arrays import as_numpy
from samovar.errors import BadInput, ConfigError
from samovar.hours import HOUR_SECONDS

Unit = Literal["seconds", "milliseconds", "timestamp"]

_MILLISECONDS_FROM = 10**11  # as seconds the year 5138, as milliseconds March 1973
_END_OF_TIME = 253402300800  # the year 10000
_ZONE = r"[T ]\d[\d:.]*[ ]?(Z|[+-]\d\d(:?\d\d)?)$"  # after a time: the end of a bare date looks like a zone
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

    def __post_init__(self) -> None:
        if self.unit is not None and self.unit not in get_args(Unit):
            raise ConfigError(f"time_unit must be one of {', '.join(get_args(Unit))}, got {self.unit!r}")
        if self.granularity < 1:
            raise ConfigError(f"granularity must be at least 1 second, got {self.granularity}")

    def seconds(self, times: pa.Array) -> pa.Array:
        """Whole seconds, rounded down; null stays null."""
        times = times.combine_chunks() if isinstance(times, pa.ChunkedArray) else times
        kind = times.type
        if types.is_null(kind):
            return pa.nulls(len(times), pa.int64())
        if types.is_timestamp(kind) or types.is_date(kind) or types.is_string(kind):
            if self.unit not in (None, "timestamp"):
                raise self._error(f"is {kind}, which does not go with time_unit {self.unit!r}")
            return self._from_timestamps(times)
        if not (types.is_integer(kind) or types.is_floating(kind)) or self.unit == "timestamp":
            if self.unit is None:
                raise self._error(f"is {kind}; a time is a number, a timestamp or an ISO text")
            raise self._error(f"is {kind}, which does not go with time_unit {self.unit!r}")
        return self._from_numbers(times)

    def granules(self, seconds: pa.Array) -> pa.Array:
        """Seconds rounded down to a multiple of the granularity, counted from the start of the hour."""
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
            raise self._error(f"has a text that is not an ISO time ({error})") from None
        return pc.coalesce(self._from_timestamps(naive), self._from_timestamps(zoned))

    def _refuse_infinite(self, numbers: NDArray[Any]) -> None:
        is_finite = np.isfinite(numbers)
        if not is_finite.all():
            raise self._error(f"has {numbers[int(is_finite.argmin())]}, which is not a time")

    def _refuse_far(self, seconds: NDArray[Any], numbers: NDArray[Any]) -> None:
        far = np.abs(seconds.astype(np.float64)) >= _END_OF_TIME
        if far.any():
            unit = self.unit or "seconds or milliseconds"
            raise self._error(f"has {numbers[int(far.argmax())]}, which is after the year 9999 in {unit}")

    def _error(self, problem: str) -> BadInput:
        return BadInput(f"time_field: column {self.field!r} {problem}")


def _nulls(array: pa.Array) -> NDArray[np.bool_] | None:
    return as_numpy(array.is_null()) if array.null_count > 0 else None
