"""Times as texts in a format such as `%m/%d/%Y %H:%M`: read by it, and the format learned from texts. Strict, the same
on every machine, and in English: the C library's own parser is none of these. Knows no files.

    %Y %y %m %d   2016, 16, 4, 20          %H %I %M %S   hours of 24 or 12, minutes, seconds
    %B %b         April or Apr             %f %p %z      fraction of a second, AM or PM, +03:00 or Z
    %A %a         Monday or Mon, ignored   %%            a percent sign
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from samovar.brewing.arrays import as_numpy
from samovar.errors import BadInput, ConfigError

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = (
    "jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|"
    "nov(?:ember)?|dec(?:ember)?"
)
_WEEKDAY = "mon(?:day)?|tue(?:s|sday)?|wed(?:nesday)?|thu(?:rs?|rsday)?|fri(?:day)?|sat(?:urday)?|sun(?:day)?"
_PARTS = {
    "Y": r"(?P<year>\d{4})",
    "y": r"(?P<short_year>\d{2})",
    "m": r"(?P<month>\d{1,2})",
    "B": f"(?P<month_name>{_MONTH})",
    "b": f"(?P<month_name>{_MONTH})",
    "d": r"(?P<day>\d{1,2})",
    "H": r"(?P<hour>\d{1,2})",
    "I": r"(?P<hour12>\d{1,2})",
    "M": r"(?P<minute>\d{1,2})",
    "S": r"(?P<second>\d{1,2})",
    "f": r"(?P<fraction>\d{1,9})",
    "p": r"(?P<half>[ap]\.?m\.?)",
    "z": r"(?P<zone>Z|[+-]\d{2}:?\d{2})",
    "A": f"(?:{_WEEKDAY})",
    "a": f"(?:{_WEEKDAY})",
    "%": "%",
}
_FIRST_YEAR_OF_CENTURY = 69  # as in POSIX: 69 is 1969, 68 is 2068

_DATES = (
    "%m/%d/%Y", "%d/%m/%Y", "%m/%d/%y", "%d/%m/%y", "%m-%d-%Y", "%d-%m-%Y", "%d.%m.%Y", "%d.%m.%y", "%Y.%m.%d",
    "%B %d, %Y", "%B %d %Y", "%d %B %Y", "%d-%B-%Y", "%d-%B-%y", "%A, %B %d, %Y", "%A, %d %B %Y",
)  # fmt: skip
_TIMES = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p", ", %H:%M", ", %I:%M %p")
KNOWN = (
    *(date + time for date, time in product(_DATES, _TIMES)),
    "%a %b %d %H:%M:%S %z %Y",
    "%a %b %d %H:%M:%S %Y",
    "%a, %d %b %Y %H:%M:%S %z",
    "%d/%b/%Y:%H:%M:%S %z",
)
"""The formats that are tried if a recipe names none."""


@dataclass(frozen=True)
class TimeFormat:
    """A format, checked."""

    text: str

    def __post_init__(self) -> None:
        names = re.findall(r"\?P<(\w+)>", self._pattern)
        for name in names:
            if names.count(name) > 1:
                raise ConfigError(f"time_format {self.text!r} has two places for the {name.replace('_', ' ')}")
        has_year, has_month = {"year", "short_year"} & set(names), {"month", "month_name"} & set(names)
        if len(has_year) != 1 or len(has_month) != 1 or "day" not in names:
            raise ConfigError(
                f"time_format must have a year, a month and a day, such as '%m/%d/%Y %H:%M', got {self.text!r}"
            )
        if ("hour12" in names) != ("half" in names) or {"hour", "hour12"} <= set(names):
            raise ConfigError(f"time_format needs %I together with %p, or %H without them, got {self.text!r}")

    @cached_property
    def _pattern(self) -> str:
        pieces = []
        for found in re.finditer(r"%(.?)|\s+|[^%\s]+", self.text, re.DOTALL):
            if found[1] is not None and found[1] not in _PARTS:
                known = ", ".join(f"%{each}" for each in _PARTS)
                raise ConfigError(f"time_format {self.text!r}: {found[0]!r} is unknown. Available: {known}")
            if found[1] is not None:
                pieces.append(_PARTS[found[1]])
            else:
                pieces.append(r"\s+" if found[0].isspace() else re.escape(found[0]))
        return rf"(?i)^\s*{''.join(pieces)}\s*$"

    @property
    def has_zone(self) -> bool:
        return "(?P<zone>" in self._pattern

    def parse(self, texts: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Seconds since 1970 of each text, in its own zone or in none, and which texts are such times."""
        found = pc.extract_regex(texts, self._pattern)
        is_time = as_numpy(found.is_valid()).astype(bool)
        parts: dict[str, Any] = {field.name: found.field(i).filter(is_time) for i, field in enumerate(found.type)}
        seconds = np.zeros(len(texts), np.int64)
        values, is_valid = _moments(parts, int(is_time.sum()))
        seconds[is_time] = values
        is_time[is_time] = is_valid
        return seconds, is_time


def _moments(parts: dict[str, Any], num_texts: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Seconds, and whether there is such a moment: February has no 30th."""

    def number(name: str, default: int = 0) -> NDArray[np.int64]:
        if name not in parts:
            return np.full(num_texts, default, np.int64)
        values: NDArray[np.int64] = as_numpy(parts[name].cast(pa.int64()))
        return values

    if "short_year" in parts:
        short = number("short_year")
        year = np.where(short < _FIRST_YEAR_OF_CENTURY, 2000, 1900) + short
    else:
        year = number("year")
    if "month_name" in parts:
        letters = pc.utf8_slice_codeunits(pc.utf8_lower(parts["month_name"]), 0, 3)
        month = as_numpy(pc.index_in(letters, value_set=pa.array(_MONTHS))).astype(np.int64) + 1
    else:
        month = number("month")
    hour = number("hour")
    is_valid = (year > 0) & (month >= 1) & (month <= 12)
    if "hour12" in parts:
        hour12 = number("hour12")
        is_valid &= (hour12 >= 1) & (hour12 <= 12)
        hour = hour12 % 12 + 12 * as_numpy(pc.starts_with(parts["half"], "p", ignore_case=True)).astype(np.int64)
    minute, second, day = number("minute"), number("second"), number("day")
    is_valid &= (hour < 24) & (minute < 60) & (second < 60) & (day >= 1)
    months = ((year - 1970) * 12 + np.where(is_valid, month, 1) - 1).astype("datetime64[M]")
    days = months.astype("datetime64[D]").astype(np.int64) + day - 1
    is_valid &= days < (months + 1).astype("datetime64[D]").astype(np.int64)
    return days * 86400 + hour * 3600 + minute * 60 + second - _offset(parts, num_texts), is_valid


def _offset(parts: dict[str, Any], num_texts: int) -> NDArray[np.int64]:
    """Seconds east of Greenwich."""
    if "zone" not in parts:
        return np.zeros(num_texts, np.int64)
    digits = pc.replace_substring_regex(parts["zone"], "^[Zz]$", "+0000")
    digits = pc.replace_substring(digits, ":", "")
    sign = np.where(as_numpy(pc.starts_with(digits, "-")), -1, 1)
    hours, minutes = (as_numpy(pc.utf8_slice_codeunits(digits, i, i + 2).cast(pa.int64())) for i in (1, 3))
    offset: NDArray[np.int64] = sign * (hours * 3600 + minutes * 60)
    return offset


@cache
def find_time_format(text: str) -> TimeFormat:
    return TimeFormat(text)


def possible_formats(batches: Iterable[pa.Array]) -> list[str]:
    """The formats that read all texts, looking only as far as several are possible."""
    possible, has_texts = list(KNOWN), False
    for texts in batches:
        distinct = texts.drop_null().unique()
        if len(distinct) == 0:
            continue
        has_texts = True
        possible = [text for text in possible if find_time_format(text).parse(distinct)[1].all()]
        if len(possible) < 2:
            break
    return possible if has_texts else []


def learn_time_format(batches: Iterable[pa.Array], where: str) -> str | None:
    """The one format that reads all texts. None: none reads them.

    Raises:
        BadInput: Several formats read every text, such as day and month in either order.
    """
    possible = possible_formats(batches)
    if len(possible) > 1:
        shown = " and ".join(map(repr, possible[:2]))
        raise BadInput(f"{where}: both formats {shown} read every value; set time_format to the one that is meant")
    return possible[0] if possible else None
