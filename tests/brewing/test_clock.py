"""Times of every kind as seconds and granules."""

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samovar.brewing.clock import Clock, Unit
from samovar.errors import BadInput, ConfigError

NOON = 1609502400  # 2021-01-01T12:00:00Z


def seconds(values: list[Any], kind: pa.DataType, unit: Unit | None = None, timezone: str | None = None) -> list[Any]:
    found: list[Any] = Clock("t", unit, timezone).seconds(pa.array(values, kind)).to_pylist()
    return found


def test_numbers_are_seconds_or_by_their_size_milliseconds() -> None:
    assert seconds([NOON, None, NOON * 1000 + 999], pa.int64()) == [NOON, None, NOON]
    assert seconds([NOON], pa.uint32()) == [NOON]
    assert seconds([5000], pa.int64(), "milliseconds") == [5]
    assert seconds([-1, -1001], pa.int64(), "milliseconds") == [-1, -2]
    assert seconds([NOON + 0.9, float("nan"), None], pa.float64()) == [NOON, None, None]


def test_timestamps_dates_and_texts_are_utc_unless_a_zone_is_given() -> None:
    naive = datetime(2021, 1, 1, 12)
    for unit in ("s", "ms", "us", "ns"):
        assert seconds([naive, None], pa.timestamp(unit)) == [NOON, None]
    assert seconds([naive], pa.timestamp("us"), timezone="Europe/Moscow") == [NOON - 3 * 3600]
    assert seconds([naive.replace(tzinfo=UTC)], pa.timestamp("us", "Asia/Tokyo"), timezone="Europe/Moscow") == [NOON]
    assert seconds([naive.date()], pa.date32()) == [NOON - 12 * 3600]
    texts = ["2021-01-01T12:00:00", "2021-01-01 12:00", None, "2021-01-01T15:00:00+03:00", "2021-01-01T12:00:00.5Z"]
    assert seconds(texts, pa.string()) == [NOON, NOON, None, NOON, NOON]
    assert seconds(["2021-01-01", "2021-01-01 15:00+03"], pa.string()) == [NOON - 12 * 3600, NOON]
    assert seconds(["2021-01-01"], pa.string(), timezone="Europe/Moscow") == [NOON - 15 * 3600]
    nanoseconds = ["2021-01-01 12:00:00.999999999", "2021-01-01T15:00:00.292764360+03:00"]
    assert seconds(nanoseconds, pa.string()) == [NOON, NOON]
    shifted = [NOON - 10800, NOON - 10800, None, NOON, NOON]
    assert seconds(texts, pa.string(), timezone="Europe/Moscow") == shifted


def test_an_hour_that_the_clock_shows_twice_or_never_is_the_earlier_one() -> None:
    twice, never = datetime(2021, 10, 31, 2, 30), datetime(2021, 3, 28, 2, 30)
    found = seconds([twice, never], pa.timestamp("us"), timezone="Europe/Berlin")
    assert [datetime.fromtimestamp(each, UTC).isoformat() for each in found] == [
        "2021-10-31T00:30:00+00:00",
        "2021-03-28T00:59:59+00:00",
    ]


@pytest.mark.parametrize(
    ("values", "kind", "unit", "message"),
    [
        ([10**15], pa.int64(), None, "has 1000000000000000, which is after the year 9999 in seconds or milliseconds"),
        ([NOON * 1000], pa.int64(), "seconds", ".*, which is after the year 9999 in seconds$"),
        ([2**64 - 1], pa.uint64(), None, "has 18446744073709551615, which is after"),
        ([float("inf")], pa.float64(), None, "has inf, which is not a time$"),
        ([0, float("-inf")], pa.float32(), "seconds", "has -inf, which is not a time"),
        ([True], pa.bool_(), None, "is bool; a time is a number, a timestamp or an ISO string"),
        ([NOON], pa.int64(), "timestamp", "is int64, which does not match time_unit 'timestamp'"),
        (["2021-01-01"], pa.string(), "seconds", "is string, which does not match time_unit 'seconds'"),
        (
            ["noon"],
            pa.string(),
            None,
            r"has the text 'noon', which is not an ISO time such as 2021-01-20T17:00:00\. Set time_format",
        ),
    ],
)
def test_what_is_not_a_time_is_refused(values: list[Any], kind: pa.DataType, unit: Unit | None, message: str) -> None:
    with pytest.raises(BadInput, match=f"^time_field: column 't' {message}"):
        seconds(values, kind, unit)


def test_a_clock_with_an_unknown_unit_or_no_granules_is_refused() -> None:
    with pytest.raises(ConfigError, match="time_unit must be one of seconds, milliseconds, timestamp, got 'hours'"):
        Clock("t", "hours")  # type: ignore[arg-type]  # what a script may give
    with pytest.raises(ConfigError, match="granularity must be at least 1 second, got 0"):
        Clock("t", granularity=0)


def test_a_granule_of_more_than_an_hour_is_the_hour() -> None:
    assert Clock("t", granularity=10**30).granules(pa.array([NOON + 3599])).to_pylist() == [NOON]


@given(st.integers(-(10**10), 10**10), st.integers(1, 5000))
def test_granules_are_counted_from_the_start_of_the_hour(time: int, granularity: int) -> None:
    found = Clock("t", granularity=granularity).granules(pa.array([time, None])).to_pylist()
    hour = time // 3600 * 3600
    expected = max(start for start in range(hour, hour + 3600, granularity) if start <= time)
    assert found == [expected, None]
