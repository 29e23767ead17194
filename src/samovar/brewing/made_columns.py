"""Columns that are made from other columns of the same row, in brewing and whenever a row is scored. Each names the raw
columns that it takes. Knows no files and no tables.

    missing      PRICE_missing   float32 [B]       1 where the column is missing
    cross        USER_x_AD       Ids, lengths [B]  one id per combination of values
    time_cycle   TIME_hour       float32 [B, 2]    sine and cosine of the time of day or week
    time_id      TIME_hour       Ids, lengths [B]  the hour 0 to 23, or the weekday 0 (Monday) to 6
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from samovar.brewing.arrays import as_numpy, is_missing, is_text
from samovar.brewing.clock import Clock, Unit
from samovar.brewing.converters import (
    CategoricalConverter,
    Converter,
    HashedConverter,
    Locate,
    RealConverter,
    to_ids,
)
from samovar.errors import BadInput
from samovar.native import hash_array
from samovar.tables.schema import Ids, parse_type

TimeFeature = Literal["hour", "weekday"]
TimeForm = Literal["cycle", "id"]
_MINUTES: Mapping[TimeFeature, int] = {"hour": 24 * 60, "weekday": 7 * 24 * 60}
_MINUTES_OF_MONDAY = 4 * 24 * 60  # 1970 began on a Thursday
_READERS: Mapping[str, type[Converter]] = {
    "numbers": RealConverter,
    "integers": CategoricalConverter,
    "strings": HashedConverter,
}


def missing_name(column: str) -> str:
    return f"{column}_missing"


def cross_name(columns: Sequence[str]) -> str:
    return "_x_".join(columns)


def time_name(time: str, feature: str) -> str:
    return f"{time}_{feature}"


@dataclass(frozen=True)
class MissingConverter(Converter):
    """Whether another column is missing. Its own name is `column`."""

    kind = "real"
    role = "missing"
    rank = 1
    of: str = ""
    taken_as: str = "numbers"
    """What that column takes."""

    @property
    def options(self) -> dict[str, Any]:
        return {"of": self.of, "taken_as": self.taken_as}

    @property
    def parts(self) -> Sequence[Converter]:
        return (_READERS[self.taken_as](self.of, self.source_type),)

    def convert(self, array: pa.Array, locate: Locate = lambda row: f"row {row}") -> NDArray[np.float32]:
        return is_missing(array).astype(np.float32)


@dataclass(frozen=True)
class CrossConverter(Converter):
    """One id per combination of values: XXH64 with seed 0 of the ids of all parts, each as 8 bytes, little-endian, end
    to end. A row that lacks one of them has none."""

    kind = "categorical"
    role = "cross"
    rank = 1
    of: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    """Of the columns, as Arrow prints them."""

    @property
    def options(self) -> dict[str, Any]:
        return {"of": list(self.of), "types": list(self.types)}

    @property
    def parts(self) -> Sequence[Converter]:
        kinds = map(parse_type, self.types)
        return [
            (HashedConverter if is_text(kind) else CategoricalConverter)(column, kind)
            for column, kind in zip(self.of, kinds, strict=True)
        ]

    def convert(self, array: pa.Array, locate: Locate = lambda row: f"row {row}") -> Ids:
        columns = [array.field(number) for number in range(len(self.of))]
        is_known = ~np.any([as_numpy(column.is_null()) for column in columns], axis=0)
        words = np.empty((int(is_known.sum()), len(columns)), "<u8")
        for number, (part, column) in enumerate(zip(self.parts, columns, strict=True)):
            known = column.filter(pa.array(is_known))
            is_hashed = isinstance(part, HashedConverter) and not pa.types.is_null(known.type)
            words[:, number] = to_ids(hash_array(known) if is_hashed else known)
        offsets = np.arange(len(words) + 1, dtype=np.int32) * np.int32(8 * len(columns))
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(words))]
        return Ids(
            to_ids(hash_array(pa.Array.from_buffers(pa.binary(), len(words), buffers))), is_known.astype(np.int32)
        )


@dataclass(frozen=True)
class _TimeConverter(Converter):
    takes = "times"
    time: str = ""
    """The column with the time."""
    feature: TimeFeature = "hour"
    unit: Unit | None = None
    timezone: str | None = None
    format: str | None = None

    @property
    def options(self) -> dict[str, Any]:
        names = ("time", "feature", "unit", "timezone", "format")
        return {name: getattr(self, name) for name in names}

    @property
    def parts(self) -> Sequence[Converter]:
        return (_TimeReader(self.time, self.source_type),)

    def _minutes(self, array: pa.Array, locate: Locate) -> NDArray[np.int64]:
        """Minutes since the start of the day or of the week, by the clock of the recipe's time zone."""
        seconds = Clock(self.time, self.unit, self.timezone, format=self.format).seconds(array, locate)
        if seconds.null_count > 0:
            row = int(as_numpy(seconds.is_null()).argmax())
            raise BadInput(f"{locate(row)}: column {self.time!r} has no value, but the model reads this time. Fill it")
        shown = seconds.cast(pa.timestamp("s", "UTC"))
        if self.timezone is not None:
            shown = shown.cast(pa.timestamp("s", self.timezone))
        local = as_numpy(pc.local_timestamp(shown).cast(pa.int64()))
        start = _MINUTES_OF_MONDAY if self.feature == "weekday" else 0
        minutes: NDArray[np.int64] = (local // 60 - start) % _MINUTES[self.feature]
        return minutes


@dataclass(frozen=True)
class TimeCycleConverter(_TimeConverter):
    kind = "real"
    role = "time_cycle"
    rank = 2

    def convert(self, array: pa.Array, locate: Locate = lambda row: f"row {row}") -> NDArray[np.float32]:
        return _circle(_MINUTES[self.feature])[self._minutes(array, locate)]


@dataclass(frozen=True)
class TimeIdConverter(_TimeConverter):
    kind = "categorical"
    role = "time_id"
    rank = 1

    def convert(self, array: pa.Array, locate: Locate = lambda row: f"row {row}") -> Ids:
        per_id = 60 if self.feature == "hour" else 24 * 60
        ids = (self._minutes(array, locate) // per_id).astype(np.uint64)
        return Ids(ids, np.ones(len(ids), np.int32))


@dataclass(frozen=True)
class _TimeReader(Converter):
    """A column of times as it is."""

    kind = "key"
    takes = "times"
    rank = 1

    def convert(self, array: pa.Array, locate: Locate = lambda row: f"row {row}") -> pa.Array:
        return array


@cache
def _circle(num_minutes: int) -> NDArray[np.float32]:
    """Sine and cosine of each minute. A table, because numpy's functions may differ in the last bit with the length of
    an array, and a row must have the same bits alone as in a minibatch."""
    angles = [2 * math.pi * minute / num_minutes for minute in range(num_minutes)]
    return np.array([(math.sin(angle), math.cos(angle)) for angle in angles], np.float32)


TIME_CONVERTERS: Mapping[TimeForm, Callable[..., _TimeConverter]] = {"cycle": TimeCycleConverter, "id": TimeIdConverter}
