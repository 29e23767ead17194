"""Hours and other periods, and ranges of them: read from configs, shown to people, used in file names. Times are UTC
seconds; only where days begin may depend on a time zone."""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from samovar.errors import ConfigError

HOUR_SECONDS = 3600
DAY_SECONDS = 24 * HOUR_SECONDS
_WEEK_SECONDS = 7 * DAY_SECONDS
_FIRST_MONDAY = 4 * DAY_SECONDS  # 1970 began on a Thursday
_ZONE_SECONDS = 900  # clocks of zones differ by quarters of an hour
_SPANS = {"d": DAY_SECONDS, "h": HOUR_SECONDS, "m": 60}
_NAMED_PERIODS = {HOUR_SECONDS: "hour", DAY_SECONDS: "day", _WEEK_SECONDS: "week"}
FIRST_HOUR, LAST_HOUR = -62_135_596_800, 253_402_297_200
"""Those of the calendar that `datetime` knows: years 1 to 9999."""


@dataclass(frozen=True)
class Period:
    """The time that one URI covers: an hour, unless the recipe of the table says otherwise. A week begins on Monday."""

    seconds: int = HOUR_SECONDS
    zone: str | None = None
    """The time zone whose days and weeks these are; None: UTC. A day of a zone may have 23 or 25 hours."""

    @classmethod
    def parse(cls, uri: str | int, timezone: str | None = None) -> "Period":
        """The period of a recipe's `uri`: hour, day, week, or a number of minutes that divides a day. Hours and minutes
        do not depend on the time zone."""
        if isinstance(uri, str):
            seconds = next(seconds for seconds, name in _NAMED_PERIODS.items() if name == uri)
            zone = find_zone(timezone)
            return cls(seconds, None if seconds < DAY_SECONDS or zone is None or zone.key == "UTC" else zone.key)
        if uri < 1 or DAY_SECONDS % (uri * 60):
            raise ConfigError(f"minutes must divide a day, such as 15 or 360, got {uri}")
        return cls(uri * 60)

    @property
    def name(self) -> str:
        """For people: `hour`, `15 minutes`."""
        return _NAMED_PERIODS.get(self.seconds, f"{self.seconds // 60} minutes")

    @property
    def full_name(self) -> str:
        """With its time zone: `day of Europe/Berlin`."""
        return self.name if self.zone is None else f"{self.name} of {self.zone}"

    @property
    def plural(self) -> str:
        """For people: `hours`, `periods of 15 minutes`."""
        return f"{self.name}s" if self.seconds in _NAMED_PERIODS else f"periods of {self.name}"

    def lag(self, shift: int) -> str:
        """A number of periods in short: `1h`, `2d`, `1w`, `30m`."""
        units = {"hour": "h", "day": "d", "week": "w"}
        return f"{shift}{units[self.name]}" if self.name in units else f"{shift * self.seconds // 60}m"

    @property
    def granule_span(self) -> int:
        """Seconds from which on granules are counted again, so that none crosses the end of an hour or of a period."""
        return math.gcd(self.seconds, HOUR_SECONDS if self.zone is None else _ZONE_SECONDS)

    def floor(self, times: Any) -> Any:
        """The start of the period of a time, or of each time of an array."""
        if self.zone is None:
            return times - (times - self._origin) % self.seconds
        if not hasattr(times, "shape"):
            return self._start(self._day(times))
        import numpy as np  # a leaf without arrays starts faster

        days = np.unique(times // DAY_SECONDS) * DAY_SECONDS
        near = [self._start(self._day(time)) for day in days.tolist() for time in (day, day + DAY_SECONDS - 1)]
        starts = np.unique(np.array([each for start in near for each in (start, self.shift(start, 1))], np.int64))
        return starts[np.searchsorted(starts, times, side="right") - 1]

    @property
    def _origin(self) -> int:
        return _FIRST_MONDAY if self.seconds == _WEEK_SECONDS else 0

    def shift(self, start: int, count: int) -> int:
        """The start of the period that is `count` periods later."""
        if self.zone is None:
            return start + count * self.seconds
        return self._start(self._day(start) + timedelta(seconds=count * self.seconds))

    def count(self, start: int, stop: int) -> int:
        """How many periods there are from one start to another."""
        if self.zone is None:
            return (stop - start) // self.seconds
        return (self._day(stop) - self._day(start)) // timedelta(seconds=self.seconds)

    def starts(self, start: int, stop: int) -> Iterator[int]:
        """The starts of all periods from one start up to another."""
        return (self.shift(start, number) for number in range(self.count(start, stop)))

    def _day(self, time: int) -> date:
        """The first day of a time's period."""
        day = self._local(time).date()
        return day - timedelta(days=day.weekday()) if self.seconds == _WEEK_SECONDS else day

    def _start(self, day: date) -> int:
        """The first moment of a day: not always midnight, because clocks may skip it."""
        return int(datetime(day.year, day.month, day.day, tzinfo=find_zone(self.zone)).timestamp())

    def _local(self, time: int) -> datetime:
        moment = datetime.fromtimestamp(time, UTC)
        if self.zone is None:
            return moment
        try:
            return moment.astimezone(find_zone(self.zone))
        except OverflowError:  # at the ends of the calendar
            return moment

    def show(self, time: int, form: str = "%Y-%m-%dT%H:%M") -> str:
        """The start of a period for people, by the clock that it follows: `2021-01-20T17:00`."""
        return self._local(time).strftime(form)

    def require_start(self, key: str, time: int | None, table: str = "tables") -> None:
        """Refuse a date that is not the start of a period."""
        if time is None or self.floor(time) == time:
            return
        zone = f"in {self.zone}" if self.zone else "UTC"
        starts = {"hour": "a whole hour", "day": f"midnight {zone}", "week": f"midnight {zone} of a Monday"}
        expected = starts.get(self.name, f"a multiple of {self.name}")
        verb = "are" if table == "tables" else "is"
        hint = f'. Set "timezone": "{self.zone}"' if self.zone else ""
        raise ConfigError(
            f"{key} must be {expected}, because {table} {verb} split by the {self.name}, got {self.show(time)}{hint}"
        )


HOURLY = Period()


def show_hour(hour: int) -> str:
    """A time in UTC for people: `2021-01-20T17:00`."""
    return HOURLY.show(hour)


def file_hour(hour: int, period: Period = HOURLY) -> str:
    """The start of a period for the names of part files: `20210120T17`, and `20210120T1715` if periods are no whole
    hours."""
    form = "%Y%m%dT%H%M" if period.seconds % HOUR_SECONDS else "%Y%m%dT%H"
    return period.show(hour, form)


def _parse_date(key: str, text: str, datetime_format: str | None, zone: ZoneInfo | None) -> int:
    """A whole minute, as seconds since 1970 UTC. A date without a time zone is in `zone`, or UTC."""
    try:
        moment = datetime.strptime(text, datetime_format) if datetime_format else datetime.fromisoformat(text)
    except ValueError:
        expected = f"have the format {datetime_format!r}" if datetime_format else "be ISO, such as 2021-01-20T17:00"
        raise ConfigError(f"{key} must {expected}, got {text!r}") from None
    seconds = (moment if moment.tzinfo else moment.replace(tzinfo=zone or UTC)).timestamp()
    if seconds % 60:
        raise ConfigError(f"{key} must be a whole minute, got {text!r}")
    return int(seconds)


def parse_range(
    start_date: str | None, end_date: str | None, datetime_format: str | None, timezone: str | None
) -> tuple[int | None, int | None]:
    """The half-open range between two dates of a config; None for a date that is not given."""
    zone = find_zone(timezone)
    dates = {"start_date": start_date, "end_date": end_date}
    start, stop = (
        None if text is None else _parse_date(key, text, datetime_format, zone) for key, text in dates.items()
    )
    if start is not None and stop is not None and start >= stop:
        raise ConfigError(f"start_date must be before end_date, got {start_date} and {end_date}")
    return start, stop


def parse_span(text: str) -> int:
    """The seconds of a span: `30m`, `12h`, `7d`."""
    found = re.fullmatch(r"(\d{1,6})([mhd])", text)
    if found is None or int(found[1]) == 0:
        raise ConfigError(f"must be a number of minutes, hours or days, such as 30m, 12h or 7d, got {text!r}")
    return int(found[1]) * _SPANS[found[2]]


def show_span(seconds: int) -> str:
    """The same span as a text, in the largest unit that divides it."""
    unit = next(unit for unit in "dhm" if seconds % _SPANS[unit] == 0)
    return f"{seconds // _SPANS[unit]}{unit}"


def find_zone(name: str | None) -> ZoneInfo | None:
    """A time zone by its IANA name.

    Raises:
        ConfigError: There is none of that name.
    """
    if name is None:
        return None
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # OSError: a folder of zones, such as Europe
        raise ConfigError(f"unknown timezone {name!r}. Use an IANA name such as Europe/Berlin") from None
