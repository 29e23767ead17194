"""Appending after a gap: the hours between may only be late."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import samovar
from samovar.errors import BadInput, ConfigError

START = 1_600_002_000  # 2020-09-13T13:00


def append(folder: Path, hours: list[int], **keys: Any) -> samovar.tables.Table:
    rows = pd.DataFrame({"time": [START + 3600 * hour for hour in hours], "user": hours})
    roles = {"user": "id"}
    return samovar.brew(rows, folder / "live", time="time", columns=roles, append=True, progress=False, **keys)


def test_hours_after_a_gap_are_refused_until_it_is_allowed(tmp_path: Path) -> None:
    append(tmp_path, [0, 1])
    with pytest.raises(BadInput) as caught:
        append(tmp_path, [3])
    assert "is complete until 2020-09-13T15:00, but the new rows begin at 2020-09-13T16:00" in str(caught.value)
    assert "If 2020-09-13T15:00 may still come, wait for it" in str(caught.value)
    assert samovar.open_table(tmp_path / "live").version == 1
    with pytest.raises(BadInput, match=r"If 2020-09-13T15:00 to 2020-09-13T17:00 may still come"):
        append(tmp_path, [5])
    table = append(tmp_path, [3], allow_gap=True)
    assert list(table.hours) == [START, START + 3600, START + 3 * 3600]


def test_hours_that_the_recipe_names_are_no_gap(tmp_path: Path) -> None:
    append(tmp_path, [0])
    table = append(tmp_path, [3], start_date="2020-09-13T14:00", end_date="2020-09-13T18:00")
    assert list(table.hours) == [START, START + 3 * 3600]
    with pytest.raises(BadInput, match="the new rows begin at 2020-09-13T19:00"):
        append(tmp_path, [9], start_date="2020-09-13T19:00", end_date="2020-09-13T20:00")


def test_a_gap_is_only_for_append(tmp_path: Path) -> None:
    rows = pd.DataFrame({"time": [START], "user": [1]})
    with pytest.raises(ConfigError, match="allow_gap is only for append"):
        samovar.brew(rows, tmp_path / "t", time="time", columns={"user": "id"}, allow_gap=True, progress=False)
