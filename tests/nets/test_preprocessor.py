"""Rows of every kind become numbers and codes, unknown columns are refused, and the state is exact."""

import datetime
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch

import samovar
from samovar.errors import BadInput, NotAResult, UnknownColumn
from samovar.nets import TablePreprocessor
from samovar.results.state import save_tree
from samovar.seeds import numpy_generator
from samovar.tables import Bag

NUM_ROWS = 400


def make_frame() -> pd.DataFrame:
    """A column of each kind."""
    rng = numpy_generator(0, "frame")
    age = rng.normal(40, 10, NUM_ROWS)
    age[::7] = np.nan
    city = rng.choice(["Oslo", "Rome", "Kyiv"], NUM_ROWS).astype(object)
    city[:6] = None
    city[6:8] = "Lima"
    return pd.DataFrame(
        {
            "age": age,
            "rooms": rng.integers(1, 6, NUM_ROWS),
            "is_new": rng.random(NUM_ROWS) < 0.3,
            "city": city,
            "grade": pd.Categorical(rng.choice(["low", "fair", "high"], NUM_ROWS)),
            "sold": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 500 * 24, NUM_ROWS), "h"),
            "waited": pd.to_timedelta(rng.integers(0, 90, NUM_ROWS), "m"),
            "one": 7,
            "nothing": [None] * NUM_ROWS,
        }
    )


def same(one: tuple[Any, Any], other: tuple[Any, Any]) -> bool:
    return all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_columns_of_every_kind_are_taken_as_they_are() -> None:
    frame = make_frame()
    preprocessor = TablePreprocessor().fit(frame)
    numbers, categories = preprocessor.transform(frame)
    assert preprocessor.columns == list(frame.columns)
    assert preprocessor.number_names == [
        "age", "age missing", "rooms", "is_new",
        "sold", "sold month", "sold day", "sold weekday", "sold hour", "waited",
    ]  # fmt: skip
    assert preprocessor.category_names == ["city", "grade"]
    assert numbers.dtype == np.float32
    assert categories.dtype == np.int64
    assert np.isfinite(numbers).all()
    assert preprocessor.inputs.category_sizes == (5, 4)  # unknown, missing and three cities; unknown and three grades


def test_codes_are_unknown_for_rare_and_unseen_values_and_missing_is_a_value() -> None:
    frame = make_frame()[["city"]]
    preprocessor = TablePreprocessor().fit(frame)
    _, codes = preprocessor.transform({"city": ["Lima", "Paris", None, "Kyiv", "Oslo", "Rome"]})
    assert codes[:, 0].tolist() == [0, 0, 1, 2, 3, 4]


def test_parts_of_dates_tell_days_and_hours_apart() -> None:
    frame = make_frame()[["sold"]]
    preprocessor = TablePreprocessor().fit(frame)
    numbers, _ = preprocessor.transform({"sold": pd.to_datetime(["2024-03-04 09:00", "2024-03-11 21:00"])})
    by_name = dict(zip(preprocessor.number_names, numbers.T, strict=True))
    assert by_name["sold weekday"][0] == by_name["sold weekday"][1]
    assert by_name["sold month"][0] == by_name["sold month"][1]
    assert by_name["sold"][0] < by_name["sold"][1]
    assert by_name["sold hour"][0] < by_name["sold hour"][1]


@pytest.mark.parametrize(
    "dates",
    [
        pd.date_range("2024-01-01", periods=90, freq="D"),
        [datetime.date(2024, 1, 1) + datetime.timedelta(days) for days in range(90)],
        pd.date_range("2024-01-01", periods=90, freq="D").strftime("%Y-%m-%d").to_numpy(object),
        pl.Series(pd.date_range("2024-01-01", periods=90, freq="D")),
    ],
)
def test_dates_may_come_as_timestamps_days_or_text(dates: Any) -> None:
    preprocessor = TablePreprocessor().fit({"day": dates})
    assert preprocessor.number_names == ["day", "day month", "day day", "day weekday"]
    later = preprocessor.transform({"day": ["2024-02-29"]})
    assert same(later, preprocessor.transform({"day": np.array(["2024-02-29"], "datetime64[s]")}))


def test_times_of_another_zone_are_the_same_times_and_naive_ones_are_refused() -> None:
    times = pd.date_range("2024-03-30", periods=100, freq="h", tz="Europe/Oslo")
    preprocessor = TablePreprocessor().fit({"at": times})
    assert same(preprocessor.transform({"at": times}), preprocessor.transform({"at": times.tz_convert("Asia/Tokyo")}))
    with pytest.raises(BadInput, match=r"column 'at' must hold dates in the time zone Europe/Oslo.*got timestamp"):
        preprocessor.transform({"at": times.tz_localize(None)})


def test_pandas_polars_arrow_and_columns_by_name_give_the_same_bits() -> None:
    frame = make_frame()
    preprocessor = TablePreprocessor().fit(frame)
    expected = preprocessor.transform(frame)
    table = pa.Table.from_pandas(frame)
    others: list[Any] = [table, pl.from_arrow(table), {name: table.column(name) for name in frame}]
    for rows in others:
        assert same(expected, preprocessor.transform(rows))
        assert same(expected, TablePreprocessor().fit(rows).transform(frame))


def test_columns_are_known_by_name() -> None:
    frame = make_frame()
    preprocessor = TablePreprocessor().fit(frame)
    assert same(preprocessor.transform(frame), preprocessor.transform(frame[frame.columns[::-1]]))


def test_the_order_of_rows_does_not_matter() -> None:
    frame = make_frame()
    shuffled = frame.sample(frac=1, random_state=1)
    expected = TablePreprocessor().fit(frame).transform(frame)
    assert same(expected, TablePreprocessor().fit(shuffled).transform(frame))


def test_one_row_gets_the_inputs_that_it_gets_among_others() -> None:
    frame = make_frame()
    preprocessor = TablePreprocessor().fit(frame)
    numbers, categories = preprocessor.transform(frame)
    for row in (0, 5, 7, NUM_ROWS - 1):
        assert same((numbers[[row]], categories[[row]]), preprocessor.transform(frame.iloc[[row]]))


@pytest.mark.parametrize("make", [np.asarray, torch.from_numpy, lambda array: array.tolist()])
def test_columns_of_arrays_are_known_by_position(make: Any) -> None:
    array = numpy_generator(0, "array").normal(size=(50, 3))
    preprocessor = TablePreprocessor().fit(make(array))
    assert preprocessor.columns == ["x0", "x1", "x2"]
    assert preprocessor.transform(make(array))[0].shape == (50, 3)
    with pytest.raises(UnknownColumn, match=r"the rows have no column 'x2', which fit saw"):
        preprocessor.transform(make(array[:, :2]))


def test_an_array_of_objects_may_hold_text_and_numbers() -> None:
    array = np.array([[1.5, "a"], [2.5, "b"]] * 10, object)
    preprocessor = TablePreprocessor().fit(array)
    assert (preprocessor.number_names, preprocessor.category_names) == (["x0"], ["x1"])


def test_a_frame_with_numbers_as_names_is_taken() -> None:
    frame = pd.DataFrame(numpy_generator(0, "array").normal(size=(50, 2)))
    assert TablePreprocessor().fit(frame).columns == ["0", "1"]


def test_bags_with_one_id_per_row_are_categories() -> None:
    ids = Bag(torch.tensor([7, -9] * 10), torch.ones(20, dtype=torch.int32))
    preprocessor = TablePreprocessor().fit({"ad": ids})
    one_empty = Bag(torch.tensor([-9, 5]), torch.tensor([1, 0, 1], dtype=torch.int32))
    assert preprocessor.transform({"ad": one_empty})[1][:, 0].tolist() == [1, 0, 0]
    with pytest.raises(BadInput, match="several ids in a row"):
        preprocessor.transform({"ad": Bag(torch.tensor([7, 7]), torch.tensor([2], dtype=torch.int32))})


def test_a_tensor_table_is_read_like_its_minibatches(tmp_path: Path) -> None:
    frame = make_frame()[["rooms", "grade"]]
    columns = {"rooms": "number", "grade": "hash"}
    table = samovar.brew(frame, tmp_path / "table", columns=columns, batch_size=64)
    preprocessor = TablePreprocessor().fit(table)
    assert (preprocessor.number_names, preprocessor.category_names) == (["rooms"], ["grade"])
    numbers, codes = (np.concatenate(each) for each in zip(*map(preprocessor.transform, table), strict=True))
    assert np.array_equal(numbers, TablePreprocessor().fit(frame).transform(frame)[0])
    by_code = {int(code): set(frame["grade"][codes[:, 0] == code]) for code in np.unique(codes)}
    assert sorted(map(len, by_code.values())) == [1, 1, 1]
    with table.read() as records:
        assert TablePreprocessor().fit(list(records)).columns == ["rooms", "grade"]


def test_integer_categories_that_came_back_as_floats_are_the_same() -> None:
    preprocessor = TablePreprocessor().fit({"grade": pd.Categorical([3, 5] * 10)})
    assert preprocessor.transform({"grade": np.array([5.0, np.nan, 3.0])})[1][:, 0].tolist() == [2, 0, 1]


def test_columns_that_fit_did_not_see_and_those_that_lack_are_refused() -> None:
    frame = make_frame()
    preprocessor = TablePreprocessor().fit(frame)
    with pytest.raises(UnknownColumn, match=r"fit saw no column 'aged'; drop it\. Did you mean 'age'"):
        preprocessor.transform(frame.assign(aged=1))
    with pytest.raises(UnknownColumn, match=r"the rows have no column 'rooms', which fit saw"):
        preprocessor.transform(frame.drop(columns="rooms"))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"x": [1.0, np.inf]}, r"column 'x', row 1: the value is inf; numbers must be finite or missing"),
        ({"x": []}, "there are no rows to learn from"),
        ({}, "the rows have no columns"),
        ({"x": [[1], [2]]}, r"column 'x' has values of type list<.*>; convert it"),
        ({"x": [1, "a"]}, r"column 'x' has values of several types"),
        ({"x": [1, 2], "y": [1]}, r"columns must have the same number of rows, got x 2, y 1"),
        (np.zeros(3), r"two axes, rows and columns, got the shape \[3\]"),
        (np.zeros((3, 2, 2)), r"two axes, rows and columns, got the shape \[3, 2, 2\]"),
        ("clicks.csv", "rows must be a frame, an array or columns by name"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "several columns are named 'a'"),
    ],
)
def test_rows_that_no_net_can_take_are_refused(rows: Any, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        TablePreprocessor().fit(rows)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"age": ["old"]}, r"column 'age' must hold numbers, as it did in fit; got string"),
        ({"sold": [3]}, r"column 'sold' must hold dates, as it did in fit; got int64"),
        ({"sold": ["soon"]}, r"column 'sold' must hold dates, as it did in fit; got string"),
        ({"rooms": [-np.inf]}, r"column 'rooms', row 0: the value is -inf"),
    ],
)
def test_values_of_another_kind_than_in_fit_are_refused(values: dict[str, Any], message: str) -> None:
    frame = make_frame()
    preprocessor = TablePreprocessor().fit(frame)
    with pytest.raises(BadInput, match=message):
        preprocessor.transform({**frame.iloc[:1].to_dict("list"), **values})


def test_a_preprocessor_that_learned_nothing_says_so() -> None:
    with pytest.raises(BadInput, match="learned nothing yet"):
        TablePreprocessor().transform(make_frame())
    with pytest.raises(BadInput, match="no column can be used"):
        _ = TablePreprocessor().fit({"x": [1, 1]}).inputs


def test_a_column_that_is_not_used_is_named(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        TablePreprocessor().fit({"x": [1, 2] * 5, "name": [f"row {row}" for row in range(10)]})
    assert "column 'name' is not used" in caplog.text


def test_the_state_is_saved_exactly(tmp_path: Path) -> None:
    frame = make_frame()
    preprocessor = TablePreprocessor(num_bins=20, min_count=3).fit(frame)
    preprocessor.save(tmp_path / "columns")
    loaded = TablePreprocessor.load(tmp_path / "columns")
    assert same(preprocessor.transform(frame), loaded.transform(frame))
    assert [list(each) for each in loaded.inputs.edges] == [list(each) for each in preprocessor.inputs.edges]
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "columns").read_bytes()


def test_the_same_rows_give_the_same_file(tmp_path: Path) -> None:
    for name in ("one", "two"):
        TablePreprocessor().fit(make_frame()).save(tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    save_tree(tmp_path / "other", {"kind": "PytorchTrainer"})
    with pytest.raises(NotAResult, match="not a TablePreprocessor"):
        TablePreprocessor.load(tmp_path / "other")
    with pytest.raises(NotAResult, match="no such file"):
        TablePreprocessor.load(tmp_path / "none")


@pytest.mark.parametrize("arguments", [{"num_bins": 0}, {"min_count": 0}])
def test_arguments_below_one_are_refused(arguments: dict[str, int]) -> None:
    with pytest.raises(BadInput, match="must be at least 1, got 0"):
        TablePreprocessor(**arguments)
