"""Every value comes back from Spark's types bit by bit, and sorts there as it does here. Needs no Spark."""

import datetime
import decimal
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from samovar.brewing.engines.spark_columns import can_sort, pack, packed_type, spark_type, unpack
from samovar.errors import BadInput

MOMENT = datetime.datetime(2021, 1, 1, 12)
VALUES: list[tuple[pa.DataType, list[Any], str]] = [
    (pa.uint8(), [0, 255, 128, 127], "tinyint"),
    (pa.uint16(), [0, 2**16 - 1, 2**15], "smallint"),
    (pa.uint32(), [0, 2**32 - 1, 2**31], "int"),
    (pa.uint64(), [0, 2**64 - 1, 2**63, 2**63 - 1], "bigint"),
    (pa.int8(), [-128, 127, 0], "tinyint"),
    (pa.int64(), [-(2**63), 2**63 - 1, 0], "bigint"),
    (pa.bool_(), [True, False], "boolean"),
    (pa.string(), ["b", "", "я", "a", "\U0001f600", "\uffee"], "binary"),
    (pa.binary(), [b"\x00\xff", b"", b"\xff"], "binary"),
    (pa.binary(3), [b"abc", b"\xff\x00a"], "binary"),
    (pa.timestamp("ns", "Europe/Berlin"), [MOMENT, MOMENT + datetime.timedelta(1)], "bigint"),
    (pa.timestamp("s"), [MOMENT], "bigint"),
    (pa.date32(), [MOMENT.date()], "int"),
    (pa.time64("us"), [MOMENT.time()], "bigint"),
    (pa.float64(), [1.5, -0.0, math.inf], "bigint"),
    (pa.float32(), [1.5, -0.0], "int"),
    (pa.decimal128(20, 2), [decimal.Decimal("-1.25"), decimal.Decimal("99.00")], "binary"),
    (pa.null(), [], "tinyint"),
    (pa.list_(pa.uint64()), [[2**64 - 1, None], [], [3]], "array<bigint>"),
    (pa.list_(pa.list_(pa.float64())), [[[1.5], None, []], []], "array<array<bigint>>"),
    (pa.list_(pa.null()), [[None], []], "array<tinyint>"),
]


@pytest.mark.parametrize(("kind", "values", "name"), VALUES, ids=[str(kind) for kind, _, _ in VALUES])
def test_values_come_back(kind: pa.DataType, values: list[Any], name: str) -> None:
    array = pa.array([None, *values, None, *values], kind)
    for piece in (array, array.slice(1), array.slice(2, 2), array.slice(0, 0), array.drop_null()):
        packed = pack(piece)
        assert packed.type == packed_type(kind, "c")
        assert spark_type(packed.type) == name
        found = unpack(packed, kind)
        found.validate(full=True)
        assert found.equals(piece)


@pytest.mark.parametrize(
    ("kind", "values"), [(kind, values) for kind, values, _ in VALUES if can_sort(kind) and values]
)
def test_packed_values_sort_alike(kind: pa.DataType, values: list[Any]) -> None:
    array = pa.array(values, kind)
    plain = array.cast(pa.binary()) if pa.types.is_fixed_size_binary(kind) else array
    assert pc.sort_indices(pack(array)).equals(pc.sort_indices(plain))


def test_a_nan_keeps_its_bits() -> None:
    bits = np.array([0x7FF8000000000001, 0xFFF8000000000000, 0x7FF0000000000001], np.uint64)
    found = unpack(pack(pa.array(bits.view(np.float64))), pa.float64())
    assert found.to_numpy().view(np.uint64).tolist() == bits.tolist()


def test_a_struct_is_refused() -> None:
    with pytest.raises(BadInput, match=r"rows\.parquet: column 'c' is struct<x: int64>, which the Spark engine cannot"):
        packed_type(pa.struct([("x", pa.int64())]), "rows.parquet: column 'c'")
