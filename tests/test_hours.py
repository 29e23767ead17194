"""Periods: where each begins, and how it is called."""

from datetime import UTC, datetime

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
