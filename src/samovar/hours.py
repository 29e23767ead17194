"""Hours and ranges of hours: read from configs, shown to people, used in file names. Times are UTC seconds."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from samovar.errors import ConfigError

HOUR_SECONDS = 3600


def show_hour(hour: int) -> str:
    """An hour in UTC for people: `2021-01-20T17:00`."""
    return datetime.fromtimestamp(hour, UTC).strftime("%Y-%m-%dT%H:%M")


def file_hour(hour: int) -> str:
    """An hour in UTC for the names of part files: `20210120T17`."""
    return datetime.fromtimestamp(hour, UTC).strftime("%Y%m%dT%H")


def parse_date(text: str, datetime_format: str | None, zone: ZoneInfo | None) -> int:
    """A whole hour, as seconds since 1970 UTC. A date without a time zone is in `zone`, or UTC."""
    try:
        moment = datetime.strptime(text, datetime_format) if datetime_format else datetime.fromisoformat(text)
    except ValueError:
        expected = f"have the format {datetime_format!r}" if datetime_format else "be ISO, such as 2021-01-20T17:00"
        raise ConfigError(f"date {text!r} must {expected}") from None
    seconds = (moment if moment.tzinfo else moment.replace(tzinfo=zone or UTC)).timestamp()
    if seconds % HOUR_SECONDS:
        raise ConfigError(f"date {text!r} must be a whole hour, because tables are split by the hour")
    return int(seconds)


def parse_range(
    start_date: str | None, end_date: str | None, datetime_format: str | None, timezone: str | None
) -> tuple[int | None, int | None]:
    """The half-open range of hours between two dates of a config; None for a date that is not given."""
    zone = _find_zone(timezone)
    dates = (start_date, end_date)
    start, stop = (None if text is None else parse_date(text, datetime_format, zone) for text in dates)
    if start is not None and stop is not None and start >= stop:
        raise ConfigError(f"start_date must be before end_date, got {start_date} and {end_date}")
    return start, stop


def _find_zone(name: str | None) -> ZoneInfo | None:
    if name is None:
        return None
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        raise ConfigError(f"unknown timezone {name!r}. Use an IANA name such as Europe/Berlin") from None
