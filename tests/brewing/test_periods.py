"""Tables that are split by other periods than hours."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import samovar
from samovar.brewing import brew_recipe, format_tensor_table, infer_converters, map_date_field
from samovar.errors import BadInput, ConfigError, Conflict
from samovar.hours import Period, show_hour
from samovar.tables import Table

MONDAY = 1_609_718_400  # 2021-01-04
DAY = 86_400


def rows(step: int, count: int) -> pd.DataFrame:
    return pd.DataFrame({"time": MONDAY + step * np.arange(count), "user": np.arange(count)})


def brew(folder: Path, source: Any, uri: Any, **keys: Any) -> Table:
    table = folder / "table"
    return samovar.brew(source, table, time="time", columns={"user": "id"}, uri=uri, progress=False, **keys)


def sizes(table: Table) -> dict[str, list[int]]:
    """The examples of each minibatch, by the start of its period."""
    found: dict[str, list[int]] = {}
    for record in table.read(["user"]):
        assert record.hour is not None
        found.setdefault(show_hour(record.hour), []).append(record.num_examples)
    return found


@pytest.mark.parametrize(
    ("uri", "step", "num_empty"),
    [("hour", DAY, 23), ({"minutes": 15}, DAY, 95), ("day", DAY, None), ("hour", 3600, None)],
)
def test_daily_rows_in_a_table_of_hours_are_pointed_out(
    tmp_path: Path, uri: Any, step: int, num_empty: int | None
) -> None:
    rows(step, 5).to_csv(tmp_path / "rows.csv", index=False)
    recipe = {"source": "rows.csv", "time_field": "time", "columns": {"user": "id"}, "uri": uri}
    (tmp_path / "recipe.json").write_text(json.dumps(recipe))
    notes = [note for note in brew_recipe(tmp_path / "recipe.json", tmp_path / "table").notes if "empty" in note]
    assert bool(notes) == (num_empty is not None)
    for note in notes:
        assert f"so {num_empty} URIs per day are empty" in note
        assert 'add "uri": "day" to the recipe' in note


def test_daily_rows_that_are_appended_are_pointed_out(tmp_path: Path) -> None:
    recipe = {"source": "rows.csv", "time_field": "time", "columns": {"user": "id"}}
    (tmp_path / "recipe.json").write_text(json.dumps(recipe))
    for day in range(3):
        pd.DataFrame({"time": [MONDAY + day * DAY], "user": [day]}).to_csv(tmp_path / "rows.csv", index=False)
        done = brew_recipe(tmp_path / "recipe.json", tmp_path / "table", append=True, allow_gap=True)
    assert any("23 URIs per day are empty" in note for note in done.notes)


@pytest.mark.parametrize(
    ("uri", "step", "expected"),
    [
        ("day", 8 * 3600, {"2021-01-04T00:00": [2, 1], "2021-01-05T00:00": [2, 1], "2021-01-06T00:00": [1]}),
        ("week", 2 * DAY, {"2021-01-04T00:00": [2, 2], "2021-01-11T00:00": [2, 1]}),
        ({"minutes": 15}, 600, {"2021-01-04T00:00": [2], "2021-01-04T00:15": [1], "2021-01-04T00:30": [2],
                                "2021-01-04T00:45": [1], "2021-01-04T01:00": [1]}),
    ],
)  # fmt: skip
def test_minibatches_are_cut_at_periods(tmp_path: Path, uri: Any, step: int, expected: dict[str, list[int]]) -> None:
    table = brew(tmp_path, rows(step, 7), uri, batch_size=2)
    assert sizes(table) == expected
    assert table.period.name == (uri if isinstance(uri, str) else "15 minutes")


def test_days_are_those_of_the_time_zone(tmp_path: Path) -> None:
    """Dates without a time, over a change of clocks: each is a day of its own, and none is empty."""
    dates = pd.DataFrame({"time": ["2024-03-30", "2024-03-31", "2024-04-01"], "user": [1, 2, 3]})
    table = brew(tmp_path, dates, "day", timezone="Europe/London")
    hours = [hour for hour in table.hours if hour is not None]
    assert [table.period.show(hour) for hour in hours] == ["2024-03-30T00:00", "2024-03-31T00:00", "2024-04-01T00:00"]
    assert np.diff(hours).tolist() == [DAY, DAY - 3600]
    assert table.period == Period.parse("day", "Europe/London")
    assert '"uri_zone": "Europe/London"' in next((tmp_path / "table" / "manifest").iterdir()).read_text()


def test_a_live_table_grows_by_days_of_its_time_zone(tmp_path: Path) -> None:
    def append(date: str) -> Table:
        rows = pd.DataFrame({"time": [f"{date}T00:30", f"{date}T23:30"], "user": [1, 2]})
        return brew(tmp_path, rows, "day", timezone="America/New_York", append=True)

    assert append("2024-03-10").complete_until == 1710129600  # the next midnight, after 23 hours
    with pytest.raises(BadInput, match=r"begin at 2024-03-12T00:00\. If 2024-03-11T00:00 may still come"):
        append("2024-03-12")
    assert len(append("2024-03-11").hours) == 2


def test_no_granule_crosses_a_short_period(tmp_path: Path) -> None:
    """Granules of half an hour would put rows of 00:15 before those of 00:00 with a smaller pivot."""
    source = rows(600, 6).assign(user=[5, 4, 3, 2, 1, 0])
    table = brew(tmp_path, source, {"minutes": 15}, granularity=1800, pivot_column="user")
    assert [sum(each) for each in sizes(table).values()] == [2, 1, 2, 1]


def test_the_hour_is_the_default_and_is_not_written(tmp_path: Path) -> None:
    def manifest(name: str, **keys: Any) -> str:
        samovar.brew(rows(1800, 5), tmp_path / name, time="time", columns={"user": "id"}, progress=False, **keys)
        return next((tmp_path / name / "manifest").iterdir()).read_text()

    assert "uri_seconds" not in manifest("absent")
    assert "uri_seconds" not in manifest("hour", uri="hour")
    assert '"uri_seconds": 86400' in manifest("day", uri="day")


def test_a_live_table_grows_by_days(tmp_path: Path) -> None:
    table = brew(tmp_path, rows(3600, 24), "day", append=True)
    assert table.complete_until == MONDAY + DAY
    with pytest.raises(BadInput, match=r"the new rows begin at 2021-01-06T00:00\. If 2021-01-05T00:00 may still come"):
        brew(tmp_path, rows(3600, 1).assign(time=MONDAY + 2 * DAY + 5), "day", append=True)
    later = brew(tmp_path, rows(3600, 1).assign(time=MONDAY + DAY + 5), "day", append=True)
    assert (later.complete_until, list(later.hours)) == (MONDAY + 2 * DAY, [MONDAY, MONDAY + DAY])
    with pytest.raises(Conflict, match="uri"):
        brew(tmp_path, rows(3600, 1).assign(time=MONDAY + 2 * DAY), "hour", append=True)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"uri": "month"}, "uri"),
        ({"uri": {"minutes": 7}}, "minutes must divide a day, such as 15 or 360, got 7"),
        ({"uri": "day", "start_date": "2021-01-04T05:00"}, "start_date must be midnight UTC, .* got 2021-01-04T05:00"),
        ({"uri": "week", "end_date": "2021-01-12"}, "end_date must be midnight UTC of a Monday"),
        ({"uri": "day", "timezone": "Mars"}, "unknown timezone 'Mars'"),
    ],
)
def test_a_wrong_period_is_refused(tmp_path: Path, keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        brew(tmp_path, rows(1, 1), keys.pop("uri"), **keys)


def test_a_period_needs_a_time(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="uri needs time_field"):
        samovar.brew(rows(1, 1), tmp_path / "table", columns={"user": "id"}, uri="day", progress=False)


def test_separate_steps_make_the_same_table(tmp_path: Path) -> None:
    rows(8 * 3600, 7).to_parquet(tmp_path / "rows.parquet")
    map_date_field(src_table=tmp_path / "rows.parquet", result_table=tmp_path / "sorted.parquet", time_field="time")
    converters = infer_converters(table=tmp_path / "sorted.parquet", categorical_factors=["user"])
    done = format_tensor_table(
        src_table=tmp_path / "sorted.parquet", result_table=tmp_path / "steps", converters=converters, uri="day"
    )
    table = samovar.open_table(done.directory)
    assert [sum(each) for each in sizes(table).values()] == [3, 3, 1]
    assert table.period.seconds == DAY
    with pytest.raises(ConfigError, match="uri must be one of hour, day, week, got 'month'"):
        format_tensor_table(src_table="x", result_table="y", converters=converters, uri="month")  # type: ignore[arg-type]
