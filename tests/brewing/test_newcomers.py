"""Files as people have them: missing values in words, dates with slashes, years."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import samovar
from samovar.errors import BadInput


def brew(folder: Path, text: str, **arguments: Any) -> samovar.tables.Table:
    (folder / "log.csv").write_text(text)
    return samovar.brew(folder / "log.csv", folder / "table", progress=False, **arguments)


def make_folder(path: Path) -> Path:
    path.mkdir()
    return path


def test_words_for_missing_values_are_missing_numbers_and_plain_texts(tmp_path: Path) -> None:
    text = "a,b,c,name\nNA,1.5,NA,NA\n2,n/a,null,x\n,3,7,NA\n"
    table = brew(tmp_path, text, columns={"a": "id", "b": "number", "c": "id", "name": "hash"})
    record: Any = next(table.read())
    assert record["a"].data_len.tolist() == [0, 1, 0]
    assert record["b"].tolist() == [1.5, 0, 3]
    assert record["c"].data.tolist() == [7]
    assert record["name"].data_len.tolist() == [1, 1, 1]
    assert {column.name: column.source_type for column in table.schema.columns} == {
        "a": "int64", "b": "double", "c": "int64", "name": "string",
    }  # fmt: skip


def test_a_text_among_numbers_is_named_with_its_row(tmp_path: Path) -> None:
    numbers = "".join(f"{number}\n" for number in range(3000))
    with pytest.raises(BadInput, match=r"log.csv row 3000 has 'yes'. Correct it, or leave it empty") as caught:
        brew(tmp_path, f"price\n{numbers}yes\n4\n", columns={"price": "number"})
    assert "hash" not in str(caught.value)
    with pytest.raises(BadInput, match="use 'hash'"):
        brew(tmp_path, "name\nx\ny\n", columns={"name": "number"})


def test_dates_with_slashes_are_dates_if_the_year_is_first(tmp_path: Path) -> None:
    table = brew(tmp_path, "t,x\n2012/01/02,1\n2012/01/02 05:30,2\n", time="t", columns={"x": "number"})
    assert list(table.hours) == list(np.array([1325462400, 1325462400 + 5 * 3600]))
    with pytest.raises(BadInput, match=r"column 't': both formats '%m/%d/%Y' and '%d/%m/%Y' read"):
        brew(make_folder(tmp_path / "other"), "t,x\n02/01/2012,1\n", time="t", columns={"x": "number"})


def test_years_are_no_seconds(tmp_path: Path) -> None:
    text = "year,x\n1952,1\n2007,2\n"
    with pytest.raises(BadInput, match=r"column 'year' has 1952, which looks like a year.*such as 1952-01-01"):
        brew(tmp_path, text, time="year", columns={"x": "number"})
    table = brew(tmp_path, text, time="year", time_unit="seconds", columns={"x": "number"})
    assert list(table.hours) == [0]


def test_seconds_between_others_may_be_anything(tmp_path: Path) -> None:
    """The rows of one batch of the sort may all lie where years do."""
    times = [3 * 3600 + 1, *[1800] * 20_000]
    text = "t,x\n" + "".join(f"{time},1\n" for time in times)
    assert list(brew(tmp_path, text, time="t", columns={"x": "number"}).hours) == [0, 3 * 3600]
