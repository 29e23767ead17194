"""Hours and spans of hours: parsed from configs, shown to people, written into file names. Times are UTC seconds."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from samovar.errors import ConfigError

HOUR_SECONDS = 3600


def show_hour(hour: int) -> str:
    """Seconds since 1970 as a time in UTC."""
    return datetime.fromtimestamp(hour, UTC).strftime("%Y-%m-%dT%H:%M")


def parse_date(text: str, datetime_format: str | None, zone: ZoneInfo | None) -> int:
    """A whole hour, as seconds since 1970 UTC; a date that names no zone is in `zone`, or UTC."""
    try:
        moment = datetime.strptime(text, datetime_format) if datetime_format else datetime.fromisoformat(text)
    except ValueError:
        expected = f"the format {datetime_format!r}" if datetime_format else "ISO, for example 2021-01-20T17:00"
        raise ConfigError(f"date {text!r}: cannot be read, expected {expected}: mend it") from None
    seconds = (moment if moment.tzinfo else moment.replace(tzinfo=zone or UTC)).timestamp()
    if seconds % HOUR_SECONDS:
        raise ConfigError(f"date {text!r}: is inside an hour, expected a whole hour: tables are cut by the hour")
    return int(seconds)


def parse_range(
    start_date: str | None, end_date: str | None, datetime_format: str | None, timezone: str | None
) -> tuple[int | None, int | None]:
    """The half-open range of hours that a config's dates name; an end that is absent is open."""
    zone = find_zone(timezone)
    dates = (start_date, end_date)
    start, stop = (None if text is None else parse_date(text, datetime_format, zone) for text in dates)
    if start is not None and stop is not None and start >= stop:
        raise ConfigError(f"start_date {start_date} is not before end_date {end_date}: swap or mend them")
    return start, stop


def find_zone(name: str | None) -> ZoneInfo | None:
    if name is None:
        return None
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        raise ConfigError(f"timezone {name!r}: unknown, expected an IANA name such as Europe/Berlin: mend it") from None


def file_hour(hour: int) -> str:
    """An hour as it stands in the names of part files."""
    return datetime.fromtimestamp(hour, UTC).strftime("%Y%m%dT%H")
