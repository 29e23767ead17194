"""Periods: where each begins, and how it is called."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samovar.errors import ConfigError
from samovar.hours import Period, file_hour, show_hour

PERIODS = [Period.parse("hour"), Period.parse("day"), Period.parse("week"), Period.parse(15), Period.parse(90)]
TIMES = st.integers(-(10**10), 10**10)


def test_weeks_begin_on_monday() -> None:
    wednesday = int(datetime(2026, 11, 18, 9, 30, tzinfo=UTC).timestamp())
    assert show_hour(Period.parse("week").floor(wednesday)) == "2026-11-16T00:00"
    assert show_hour(Period.parse("week").floor(-1)) == "1969-12-29T00:00"


@given(TIMES, st.sampled_from(PERIODS))
def test_a_time_is_inside_its_period(time: int, period: Period) -> None:
    start = period.floor(time)
    assert start <= time < start + period.seconds
    assert period.floor(start) == start
    assert period.floor(np.array([time]))[0] == start


ZONES = ["Europe/Berlin", "America/New_York", "Asia/Kolkata", "America/Havana", "Asia/Beirut", "Australia/Lord_Howe"]
"""Among them one with half hours, one whose clocks go back at midnight, one that skips it, one that moves by half an
hour."""
LOCAL = [Period.parse(uri, zone) for uri in ("day", "week") for zone in ZONES]
SINCE_1972 = st.integers(63_072_000, 4_000_000_000)  # before, offsets were not always quarters of an hour


@given(SINCE_1972, st.sampled_from(LOCAL), st.integers(-500, 500))
def test_days_of_a_time_zone_follow_its_calendar(time: int, period: Period, count: int) -> None:
    assert period.zone is not None
    start, zone = period.floor(time), ZoneInfo(period.zone)
    days = period.seconds // 86_400
    assert start <= time < period.shift(start, 1)
    assert period.floor(start) == start
    assert period.floor(start - 1) == period.shift(start, -1)
    first, later = (datetime.fromtimestamp(each, zone).date() for each in (start, period.shift(start, count)))
    assert (later - first).days == count * days
    assert days == 1 or first.weekday() == 0
    assert period.count(start, period.shift(start, count)) == count
    assert period.show(start)[:10] == first.isoformat()
    times = np.array([time, start, start - 1, time + 3600, time + 90_000, time - 10**7])
    assert period.floor(times).tolist() == [period.floor(each) for each in times.tolist()]
    granule = time - time % period.granule_span
    assert period.floor(granule) == period.floor(granule + period.granule_span - 1)


def test_a_day_has_23_or_25_hours_when_clocks_change() -> None:
    period = Period.parse("day", "Europe/Berlin")
    march = period.floor(int(datetime(2024, 3, 31, 12, tzinfo=UTC).timestamp()))
    october = period.floor(int(datetime(2024, 10, 27, 12, tzinfo=UTC).timestamp()))
    assert [period.shift(day, 1) - day for day in (march, october)] == [23 * 3600, 25 * 3600]
    assert [period.show(day) for day in (march, october)] == ["2024-03-31T00:00", "2024-10-27T00:00"]
    assert list(period.starts(march, period.shift(march, 2))) == [march, march + 23 * 3600]
    assert file_hour(october, period) == "20241027T00"


def test_only_days_and_weeks_have_a_time_zone() -> None:
    assert Period.parse("hour", "Asia/Tokyo") == Period()
    assert Period.parse("day", "UTC") == Period.parse("day")
    assert Period.parse("week", "Asia/Tokyo").full_name == "week of Asia/Tokyo"
    with pytest.raises(ConfigError, match="unknown timezone 'Europe'"):
        Period.parse("day", "Europe")  # a folder of zones


def test_the_ends_of_the_calendar_are_shown_too() -> None:
    assert Period.parse("day", "Asia/Tokyo").show(253_402_297_200) == "9999-12-31T23:00"  # UTC
    assert Period.parse("day", "America/New_York").show(-62_135_596_800).endswith("01-01T00:00")


@given(TIMES, st.sampled_from(PERIODS))
def test_no_span_of_granules_crosses_the_end_of_an_hour_or_of_a_period(time: int, period: Period) -> None:
    first = time - time % period.granule_span
    last = first + period.granule_span - 1
    assert period.floor(first) == period.floor(last)
    assert Period().floor(first) == Period().floor(last)


def test_names_are_those_of_the_recipe() -> None:
    assert [period.name for period in PERIODS] == ["hour", "day", "week", "15 minutes", "90 minutes"]
    assert [period.plural for period in PERIODS[1:4]] == ["days", "weeks", "periods of 15 minutes"]
    assert Period.parse(60) == Period.parse("hour")
    assert [file_hour(900, period) for period in PERIODS[::3]] == ["19700101T00", "19700101T0015"]


@pytest.mark.parametrize("minutes", [0, -5, 7, 1441])
def test_minutes_must_divide_a_day(minutes: int) -> None:
    with pytest.raises(ConfigError, match=rf"minutes must divide a day, such as 15 or 360, got {minutes}"):
        Period.parse(minutes)


@pytest.mark.parametrize(
    ("uri", "expected"),
    [("hour", "a whole hour"), ("day", "midnight UTC"), ("week", "midnight UTC of a Monday")],
)
def test_a_date_inside_a_period_is_refused(uri: str, expected: str) -> None:
    with pytest.raises(ConfigError, match=f"start_date must be {expected}, .* by the {uri}, got 1970-01-01T00:01"):
        Period.parse(uri).require_start("start_date", 60)


def test_a_date_of_another_time_zone_is_refused_with_the_cure() -> None:
    with pytest.raises(
        ConfigError, match=r"midnight in Asia/Tokyo, .* 1970-01-01T09:00\. Set \"timezone\": \"Asia/Tokyo\""
    ):
        Period.parse("day", "Asia/Tokyo").require_start("start_date", 0)
