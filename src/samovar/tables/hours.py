"""Hours as people write them."""

from datetime import UTC, datetime


def show_hour(hour: int) -> str:
    """Seconds since 1970 as a time in UTC."""
    return datetime.fromtimestamp(hour, UTC).strftime("%Y-%m-%dT%H:%M")
