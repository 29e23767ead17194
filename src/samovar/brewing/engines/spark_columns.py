"""Columns as Spark keeps them, bit by bit. Spark has no unsigned integers, no nanoseconds and its own idea of NaN, so
values travel as signed integers, bytes, and lists of these. Knows no session.

    unsigned integers    the same bits with the first one flipped, so that they sort in the same order
    floats               their bits
    times, dates         the number that Arrow keeps
    texts, bytes         bytes, which Spark compares as our engines do
    decimals             their 16 or 32 bytes; these do not sort
"""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import types

from samovar.brewing.arrays import as_numpy, is_list
from samovar.errors import BadInput

_SPARK_NAMES = {"int8": "tinyint", "int16": "smallint", "int32": "int", "int64": "bigint", "bool": "boolean"}


def packed_type(kind: pa.DataType, where: str) -> pa.DataType:
    """What values of a type travel as. `where` is the name of the column in errors."""
    if is_list(kind):
        return pa.list_(packed_type(kind.value_type, where))
    if types.is_null(kind):
        return pa.int8()
    if types.is_boolean(kind):
        return kind
    if _is_bytes(kind) or types.is_decimal(kind) or types.is_fixed_size_binary(kind):
        return pa.binary()
    if types.is_integer(kind) or types.is_floating(kind) or types.is_temporal(kind):
        return _integer(kind.bit_width)
    raise BadInput(f"{where} is {kind}, which the Spark engine cannot carry; brew it with the DuckDB engine")


def can_sort(kind: pa.DataType) -> bool:
    """Whether packed values sort as the values themselves do."""
    return not (is_list(kind) or types.is_floating(kind) or types.is_decimal(kind))


def spark_type(packed: pa.DataType) -> str:
    """The name of a packed type in Spark's schemas."""
    if types.is_list(packed):
        return f"array<{spark_type(packed.value_type)}>"
    return "binary" if types.is_binary(packed) else _SPARK_NAMES[str(packed)]


def pack(array: pa.Array) -> pa.Array:
    """Values in the type that `packed_type` names."""
    kind = array.type
    if is_list(kind):
        return _lists(array, pack(array.flatten()))
    if types.is_null(kind):
        return pa.nulls(len(array), pa.int8())
    if types.is_decimal(kind):
        return array.view(pa.binary(kind.byte_width)).cast(pa.binary())
    if _is_bytes(kind) or types.is_fixed_size_binary(kind):
        return array.cast(pa.binary())
    if types.is_unsigned_integer(kind):
        return _flip(array, _integer(kind.bit_width))
    return array if types.is_boolean(kind) else array.view(_integer(kind.bit_width))


def unpack(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """The values that `pack` was given, in their type."""
    if is_list(kind):
        return _lists(array, unpack(array.flatten(), kind.value_type), kind)
    if types.is_null(kind):
        return pa.nulls(len(array))
    if types.is_decimal(kind):
        return array.cast(pa.binary(kind.byte_width)).view(kind)
    if _is_bytes(kind) or types.is_fixed_size_binary(kind):
        return array.cast(kind)
    if types.is_unsigned_integer(kind):
        return _flip(array, kind)
    return array if types.is_boolean(kind) else array.view(kind)


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(types.is_string(kind) or types.is_binary(kind))


def _integer(bits: int) -> pa.DataType:
    return {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[bits]


def _flip(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """The bits of integers with the first one flipped, as another type of the same width."""
    unsigned = np.dtype(f"u{kind.bit_width // 8}")
    bits: NDArray[np.unsignedinteger] = as_numpy(array.fill_null(0)).view(unsigned)
    flipped = bits ^ unsigned.type(1 << (kind.bit_width - 1))
    mask = as_numpy(array.is_null()) if array.null_count else None
    return pa.array(flipped.view(kind.to_pandas_dtype()), kind, mask=mask)


def _lists(array: pa.Array, values: pa.Array, kind: pa.DataType | None = None) -> pa.Array:
    """The same lists with other values."""
    offsets = np.zeros(len(array) + 1, np.int32)
    np.cumsum(as_numpy(array.value_lengths().fill_null(0)), out=offsets[1:])
    mask = array.is_null() if array.null_count else None
    return pa.ListArray.from_arrays(pa.array(offsets), values, kind, mask=mask)
