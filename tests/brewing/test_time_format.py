"""Times in formats of their own: read strictly, and learned from the first rows."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samovar.brewing import brew_recipe
from samovar.brewing.clock import Clock
from samovar.brewing.time_format import KNOWN, TimeFormat, find_time_format, learn_time_format
from samovar.errors import BadInput, ConfigError
from samovar.tables import open_table

MOMENTS = st.datetimes(datetime(1970, 1, 1), datetime(2068, 12, 31)).map(lambda each: each.replace(tzinfo=UTC))


@settings(max_examples=5)
@given(moments=st.lists(MOMENTS, min_size=1))
def test_every_known_format_reads_what_python_writes(moments: list[datetime]) -> None:
    for form in KNOWN:
        texts = [moment.strftime(form) for moment in moments]
        seconds, is_time = find_time_format(form).parse(pa.array([*texts, None]))
        assert is_time.tolist() == [True] * len(texts) + [False]
        expected = [datetime.strptime(text, form).replace(tzinfo=UTC).timestamp() for text in texts]
        assert seconds.tolist() == [*map(int, expected), 0]


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("%m/%d/%Y", "2/30/2021"),
        ("%m/%d/%Y", "13/1/2021"),
        ("%m/%d/%Y", "1/1/21"),
        ("%m/%d/%Y", "1/1/2021 10:00"),
        ("%d.%m.%Y %H:%M", "1.1.2021 24:00"),
        ("%d.%m.%Y %I:%M %p", "1.1.2021 13:00 PM"),
        ("%d %B %Y", "1 Smarch 2021"),
        ("%d/%m/%Y", ""),
    ],
)
def test_what_is_no_such_time_is_not_read(form: str, text: str) -> None:
    assert not TimeFormat(form).parse(pa.array([text]))[1][0]


def test_zones_halves_and_short_years() -> None:
    def read(form: str, text: str) -> str:
        seconds = int(TimeFormat(form).parse(pa.array([text]))[0][0])
        return datetime.fromtimestamp(seconds, UTC).isoformat()

    assert read("%d/%b/%Y:%H:%M:%S %z", "10/Oct/2000:13:55:36 -0730") == "2000-10-10T21:25:36+00:00"
    assert read("%Y%m%d %H:%M:%S.%f%z", "20210120 10:00:00.75+03:00") == "2021-01-20T07:00:00+00:00"
    assert read("%m/%d/%y %I:%M %p", "1/20/21 12:05 a.m.") == "2021-01-20T00:05:00+00:00"
    assert [read("%d.%m.%y", f"1.1.{year}")[:4] for year in ("68", "69")] == ["2068", "1969"]


def test_a_time_without_a_zone_is_in_the_zone_of_the_recipe() -> None:
    clock = Clock("t", timezone="Europe/Moscow", format="%Y%m%d")
    assert clock.seconds(pa.array([20210120, None])).to_pylist() == [1611090000, None]
    with pytest.raises(BadInput, match="column 't' is double, but time_format is for text"):
        clock.seconds(pa.array([1.5]))


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ("%m/%d", "must have a year, a month and a day"),
        ("%Y %q", "'%q' is unknown. Available: %Y, %y"),
        ("%Y-%m-%d %", "'%' is unknown"),
        ("%Y-%m-%d %d", "two places for the day"),
        ("%Y-%m-%d %I:%M", "needs %I together with %p"),
    ],
)
def test_a_wrong_format_is_refused(form: str, message: str) -> None:
    with pytest.raises(ConfigError, match=f"time_format .*{message}"):
        find_time_format(form)


def test_a_format_is_learned_from_as_many_rows_as_it_takes() -> None:
    read: list[int] = []

    def batches() -> Any:
        for number, texts in enumerate([["1/2/2021"], [None], ["3/4/2021", "12/31/2021"], ["unread"]]):
            read.append(number)
            yield pa.array(texts, pa.string())

    assert learn_time_format(batches(), "rows.csv") == "%m/%d/%Y"
    assert read == [0, 1, 2]
    assert learn_time_format([pa.array(["noon"])], "rows.csv") is None
    with pytest.raises(BadInput, match=r"rows.csv: both formats '%m/%d/%Y' and '%d/%m/%Y' read every value; set"):
        learn_time_format([pa.array(["1/2/2021"])], "rows.csv")


def test_dates_in_words_brew_with_a_note(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text('day,x\n"April 20, 2016",1\n"December 3, 2015",2\n')
    recipe = {"source": str(tmp_path / "rows.csv"), "columns": {"day": ["time", "key"], "x": "id"}}
    done = brew_recipe(recipe, tmp_path / "learned", progress=False)
    assert any("times are read in the format '%B %d, %Y', learned from the first rows" in note for note in done.notes)
    given = brew_recipe({**recipe, "time_format": "%B %d, %Y"}, tmp_path / "given", progress=False)
    assert not any("format" in note for note in given.notes)
    for each in (done, given):
        records: list[Any] = list(open_table(each.directory).read())
        assert [record["day"].to_pylist() for record in records] == [["December 3, 2015"], ["April 20, 2016"]]
        assert [record.hour for record in records] == [1449100800, 1461110400]


def test_a_text_of_another_format_is_named_with_its_row(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("day,x\n04/20/2016,1\n20.4.2016,2\n")
    recipe = {"source": str(tmp_path / "rows.csv"), "columns": {"day": "time", "x": "id"}, "time_format": "%m/%d/%Y"}
    with pytest.raises(
        BadInput, match=r"rows.csv row 1: time_field: column 'day' has the text '20.4.2016', which does not"
    ):
        brew_recipe(recipe, tmp_path / "table", progress=False)
