"""Columns into values of a minibatch, against the worked example and a slow reference in plain Python."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samovar.brewing.columns import Factors, find_converters
from samovar.brewing.converters import (
    CategoricalConverter,
    HashedConverter,
    KeyConverter,
    RealConverter,
    TextConverter,
    UnravelledConverter,
)
from samovar.errors import BadInput
from samovar.native import hash_bytes
from samovar.tables.schema import ColumnSchema, Ids, Value

INTS, NESTED = pa.list_(pa.int64()), pa.list_(pa.list_(pa.int64()))
REALS, NESTED_REALS = pa.list_(pa.float64()), pa.list_(pa.list_(pa.float64()))


def bags_of(value: Value) -> tuple[list[int], Any]:
    assert isinstance(value, Ids)
    assert value.data.dtype == np.uint64
    assert value.lengths.dtype == np.int32
    assert value.lengths.sum() == len(value.data)
    return value.data.tolist(), value.lengths.tolist()


def categorical(values: list[Any], kind: pa.DataType) -> tuple[list[int], Any]:
    return bags_of(CategoricalConverter("x", kind).convert(pa.array(values, kind)))


def unravelled(values: list[Any], kind: pa.DataType) -> tuple[list[int], Any]:
    return bags_of(UnravelledConverter("x", kind).convert(pa.array(values, kind)))


def real(values: list[Any], kind: pa.DataType, shape: tuple[int, ...] | None = None) -> Any:
    tensor = RealConverter("x", kind, shape).convert(pa.array(values, kind))
    assert tensor.dtype == np.float32
    return tensor.tolist()


def test_the_worked_example_of_the_documentation() -> None:
    texts = [[67, 1937, 478], [76, 197], [93, 2, 5, 6, 7, 1]]
    table = pa.table(
        {
            "BannerID": pa.array([124, 456, None]),
            "BannerText": texts,
            "BannerTextUnravelled": texts,
            "SearchQueryHistory": [[[689, 1567, 398], [2176], [19, 79]], [[], [1, 2, 3, 4, 5, 6], [81, 9387]], None],
            "SearchQueryFeatures": [[[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]], [[1.1, 1.2], [1.3, 1.4], [1.5, 1.6]], None],
        }
    )
    factors = Factors(
        categorical_factors=["BannerID", "BannerText", "SearchQueryHistory"],
        realvalue_factors=["SearchQueryFeatures"],
        unravelled_categorical_factors=["BannerTextUnravelled"],
    )
    converters = find_converters(table.schema, factors, "example")
    values = {name: each.convert(table.column(name).combine_chunks()) for name, each in converters.items()}
    text_ids = [67, 1937, 478, 76, 197, 93, 2, 5, 6, 7, 1]
    assert bags_of(values["BannerID"]) == ([124, 456], [1, 1, 0])
    assert bags_of(values["BannerText"]) == (text_ids, [3, 2, 6])
    assert bags_of(values["BannerTextUnravelled"]) == (
        text_ids,
        [[1, 1, 1, 0, 0, 0], [1, 1, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1]],
    )
    assert bags_of(values["SearchQueryHistory"]) == (
        [689, 1567, 398, 2176, 19, 79, 1, 2, 3, 4, 5, 6, 81, 9387],
        [[3, 1, 2], [0, 6, 2], [0, 0, 0]],
    )
    features = values["SearchQueryFeatures"]
    assert isinstance(features, np.ndarray)
    expected = [[[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]], [[1.1, 1.2], [1.3, 1.4], [1.5, 1.6]], [[0.0, 0.0]] * 3]
    np.testing.assert_array_equal(features, np.array(expected, np.float32))
    assert {name: each.rank for name, each in converters.items()} == {
        "BannerID": 1,
        "BannerText": 1,
        "SearchQueryHistory": 2,
        "SearchQueryFeatures": 3,
        "BannerTextUnravelled": 2,
    }


def test_ids_are_the_whole_64_bits_and_negative_numbers_keep_theirs() -> None:
    assert categorical([2**64 - 1, 0, None], pa.uint64()) == ([2**64 - 1, 0], [1, 1, 0])
    assert categorical([-1, 5], pa.int64()) == ([2**64 - 1, 5], [1, 1])
    assert categorical([-1, 5], pa.int8()) == ([2**64 - 1, 5], [1, 1])
    assert categorical([True, None, False], pa.bool_()) == ([1, 0], [1, 0, 1])
    assert categorical([None, None], pa.null()) == ([], [0, 0])


def test_a_null_id_is_left_out_of_its_bag_and_leaves_a_gap_in_its_sequence() -> None:
    assert categorical([[1, None, 2], [None], None, []], INTS) == ([1, 2], [2, 0, 0, 0])
    assert categorical([[[1, None], None], [[None]]], NESTED) == ([1], [[1, 0], [0, 0]])
    assert unravelled([[1, None, 2], None], INTS) == ([1, 2], [[1, 0, 1], [0, 0, 0]])
    assert unravelled([[[1], None, [None, 3]], None], NESTED) == ([1, 3], [[[1, 0], [0, 0], [0, 1]], [[0, 0]] * 3])


def test_lists_without_any_items_have_no_width() -> None:
    assert unravelled([None, []], INTS) == ([], [[], []])
    assert unravelled([None], pa.null()) == ([], [[]])
    assert categorical([None, []], NESTED) == ([], [[], []])
    assert real([None, None], REALS) == [[], []]


def test_hidden_values_below_a_null_list_do_not_count() -> None:
    values = pa.array([1, 2, 3, 4, 5])
    hidden = pa.ListArray.from_arrays(pa.array([0, 2, 4, 5], pa.int32()), values, mask=pa.array([False, True, False]))
    assert bags_of(CategoricalConverter("x", INTS).convert(hidden)) == ([1, 2, 5], [2, 0, 1])
    assert bags_of(CategoricalConverter("x", INTS).convert(hidden.slice(1))) == ([5], [0, 1])


def test_real_values_of_every_type_become_float32() -> None:
    assert real([1, None, -3], pa.int64()) == [1.0, 0.0, -3.0]
    assert real([True, None], pa.bool_()) == [1.0, 0.0]
    assert real([None], pa.null()) == [0.0]
    assert np.isnan(real([float("nan")], pa.float64())).all()
    assert real([1e300], pa.float64()) == [float("inf")]
    assert real([[1.5, None], None], REALS) == [[1.5, 0.0], [0.0, 0.0]]
    assert real([[[1], None], None], NESTED) == [[[1.0], [0.0]], [[0.0], [0.0]]]


def test_a_known_shape_gives_rows_without_values_their_zeros() -> None:
    assert real([None, None], REALS, (3,)) == [[0.0] * 3] * 2
    assert real([None, [None, None]], NESTED_REALS, (2, 2)) == [[[0.0, 0.0]] * 2] * 2


@pytest.mark.parametrize(
    ("values", "kind", "message"),
    [
        ([[1.0], None, [1.0, 2.0]], REALS, r"row 2: column 'x' has a list of length 2, but other rows have 1 numbers"),
        ([[1.0], []], REALS, r"row 1: column 'x' has a list of length 0, but other rows have 1 numbers"),
        (
            [[[1.0, 2.0]], None, [[3.0]]],
            NESTED_REALS,
            r"row 2: column 'x' has lists of lengths \[1\], but other rows have 1 lists of 2",
        ),
        (
            [[[1.0], [2.0]], [[3.0]]],
            NESTED_REALS,
            r"row 1: column 'x' has a list of length 1, but other rows have 2 lists of 1",
        ),
    ],
)
def test_ragged_real_values_are_refused_with_row_and_lengths(values: Any, kind: pa.DataType, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        real(values, kind)


def test_a_string_is_the_id_of_its_hash() -> None:
    kind = pa.list_(pa.string())
    found = bags_of(HashedConverter("x", pa.string()).convert(pa.array(["a", None, "", "я"])))
    assert found == ([hash_bytes(b"a"), hash_bytes(b""), hash_bytes("я".encode())], [1, 0, 1, 1])
    found = bags_of(HashedConverter("x", kind).convert(pa.array([["a", None], None, []], kind)))
    assert found == ([hash_bytes(b"a")], [1, 0, 0])
    assert bags_of(HashedConverter("x", pa.null()).convert(pa.nulls(2))) == ([], [0, 0])


def test_a_text_is_the_bag_of_its_words() -> None:
    array = pa.array(["a b a", None, ""])
    data, lengths = bags_of(TextConverter("x", pa.string(), words=1).convert(array))
    assert (lengths, len(data), data[0] == data[2]) == ([3, 0, 0], 3, True)
    assert bags_of(TextConverter("x", pa.null(), words=1).convert(pa.nulls(1))) == ([], [0])


def test_a_key_is_unchanged_and_has_its_own_name_beside_a_factor() -> None:
    array = pa.array(["a", None])
    key = KeyConverter("x", pa.string(), is_factor_too=True)
    assert key.convert(array) is array
    assert key.schema == ColumnSchema("key:x", "key", 1, "string", {"role": "key"})
    assert KeyConverter("x", pa.string()).name == "x"


IDS = st.none() | st.integers(0, 2**64 - 1)
LISTS = st.none() | st.lists(IDS, max_size=4)
LISTS_OF_LISTS = st.none() | st.lists(LISTS, max_size=3)


def present(values: Any) -> list[Any]:
    return [value for value in values or [] if value is not None]


def padded(rows: list[list[Any]], filler: Any) -> list[list[Any]]:
    width = max(map(len, rows), default=0)
    return [row + [filler] * (width - len(row)) for row in rows]


@given(st.lists(LISTS, max_size=8), st.integers(0, 3))
def test_lists_are_as_in_plain_python(rows: list[Any], first: int) -> None:
    array = pa.array(rows, pa.list_(pa.uint64())).slice(first)
    rows = rows[first:]
    ids = [number for row in rows for number in present(row)]
    lengths = [len(present(row)) for row in rows]
    assert bags_of(CategoricalConverter("x", array.type).convert(array)) == (ids, lengths)
    sequence = padded([[int(number is not None) for number in row or []] for row in rows], 0)
    assert bags_of(UnravelledConverter("x", array.type).convert(array)) == (ids, sequence)


@given(st.lists(LISTS_OF_LISTS, max_size=6), st.integers(0, 3))
def test_lists_of_lists_are_as_in_plain_python(rows: list[Any], first: int) -> None:
    array = pa.array(rows, pa.list_(pa.list_(pa.uint64()))).slice(first)
    rows = rows[first:]
    ids = [number for row in rows for bag in present(row) for number in present(bag)]
    lengths = padded([[len(present(bag)) for bag in row or []] for row in rows], 0)
    assert bags_of(CategoricalConverter("x", array.type).convert(array)) == (ids, lengths)
    found, shape = UnravelledConverter("x", array.type).convert(array), (len(rows), len(lengths[0]) if rows else 0)
    assert found.data.tolist() == ids
    assert found.lengths.shape[:2] == shape
    np.testing.assert_array_equal(found.lengths.sum(axis=2), np.array(lengths, np.int32).reshape(shape))
    for row, bags in enumerate(rows):
        for place, bag in enumerate(bags or []):
            ones = [int(number is not None) for number in bag or []]
            assert found.lengths[row, place, : len(ones)].tolist() == ones
