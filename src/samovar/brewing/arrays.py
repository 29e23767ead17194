"""What brewing does with Arrow arrays: nested lists as flat numpy arrays and lengths, one layout per type. Knows no
columns, files or tables."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import types

Lengths = NDArray[np.int64]


@dataclass(frozen=True)
class Ragged:
    """An Arrow array taken apart: `values` end to end, and the number of items in each list, per list level."""

    values: pa.Array
    lengths: tuple[Lengths, ...]
    """Outermost level first, one length per item of the level above. A null list has length 0."""
    nulls: tuple[NDArray[np.bool_] | None, ...]
    """Per level, which lists are null; None when no list is."""

    @property
    def first_lengths(self) -> list[int | None]:
        """Per level, the length of the first list that is not null; None if there is no such list."""
        known = [
            lengths if is_null is None else lengths[~is_null]
            for lengths, is_null in zip(self.lengths, self.nulls, strict=True)
        ]
        return [int(lengths[0]) if len(lengths) else None for lengths in known]


def unnest(array: pa.Array) -> Ragged:
    lengths: list[Lengths] = []
    nulls: list[NDArray[np.bool_] | None] = []
    while is_list(array.type):
        lengths.append(_item_counts(array))
        nulls.append(as_numpy(array.is_null()) if array.null_count > 0 else None)
        array = array.flatten()  # leaves out the values of null lists
    return Ragged(array, tuple(lengths), tuple(nulls))


def as_numpy(array: pa.Array) -> NDArray[Any]:
    return np.asarray(array.to_numpy(zero_copy_only=False))


def is_missing(array: pa.Array) -> NDArray[np.bool_]:
    """Which values are null, or not a number."""
    is_nan = types.is_floating(array.type) and not types.is_float16(array.type)
    return as_numpy(pc.is_null(array, nan_is_null=is_nan)).astype(bool)


def hashable(array: pa.Array) -> pa.Array:
    """The same values as integers or strings, for `hash_array`."""
    if types.is_boolean(array.type):
        return array.cast(pa.uint8())
    return array.cast(pa.int64()) if types.is_temporal(array.type) else array


def count_in_each(flags: NDArray[np.bool_], lengths: Lengths) -> Lengths:
    """The number of flags set in each of the consecutive slices whose lengths are `lengths`."""
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(flags, dtype=np.int64)])
    ends = np.cumsum(lengths)
    counts: Lengths = before[ends] - before[ends - lengths]
    return counts


def spread(values: NDArray[Any], lengths: Lengths, width: int) -> NDArray[Any]:
    """Consecutive slices of `values` as rows, each padded with zeros to `width`."""
    rows = np.zeros((len(lengths), width, *values.shape[1:]), values.dtype)
    rows[np.arange(width) < lengths[:, None]] = values
    return rows


def longest(lengths: Lengths) -> int:
    return int(lengths.max(initial=0))


def differs_from_previous(array: pa.Array) -> NDArray[np.bool_]:
    """For each value but the first, whether it differs from the one before it."""
    return as_numpy(pc.not_equal(array.slice(1), array.slice(0, len(array) - 1)))


# Types


def depth_of(kind: pa.DataType) -> int:
    """The number of list levels."""
    return 1 + depth_of(kind.value_type) if is_list(kind) else 0


def leaf_of(kind: pa.DataType) -> pa.DataType:
    return leaf_of(kind.value_type) if is_list(kind) else kind


def is_list(kind: pa.DataType) -> bool:
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def is_text(kind: pa.DataType) -> bool:
    if types.is_dictionary(kind):
        return is_text(kind.value_type)
    return bool(
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_string_view(kind)
        or types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_binary_view(kind)
    )


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The one Arrow layout in which every engine returns a type."""
    if types.is_dictionary(kind):
        return plain_type(kind.value_type)
    if is_list(kind) or types.is_list_view(kind) or types.is_large_list_view(kind):
        return pa.list_(plain_type(kind.value_type))
    if types.is_large_string(kind) or types.is_string_view(kind):
        return pa.string()
    if types.is_large_binary(kind) or types.is_binary_view(kind):
        return pa.binary()
    return kind


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The columns of `schema`, in its order, cast to its types where only the Arrow layout differs."""
    arrays = [_cast(batch.column(field.name), field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _cast(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if array.type == kind:
        return array
    if types.is_null(kind):
        return pa.nulls(len(array))
    if types.is_null(leaf_of(kind)):
        return pa.ListArray.from_arrays(array.offsets, _cast(array.values, kind.value_type), mask=array.is_null())
    return array.cast(kind)


def _item_counts(array: pa.Array) -> Lengths:
    counts = pc.list_value_length(array)
    if counts.null_count > 0:
        counts = counts.fill_null(0)
    return as_numpy(counts).astype(np.int64, copy=False)
