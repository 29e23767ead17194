"""Nested Arrow lists as flat numpy arrays and the lengths of each level. Knows nothing of columns or tables."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Lengths = NDArray[np.int64]


@dataclass(frozen=True)
class Ragged:
    """An Arrow array taken apart: `values` end to end, and for each list level how many items each list has."""

    values: pa.Array
    lengths: tuple[Lengths, ...]
    """Outermost first; a null list counts as empty, one per item of the level above."""
    nulls: tuple[NDArray[np.bool_] | None, ...]
    """Which lists of each level are null; None when none is."""

    @property
    def first_lengths(self) -> list[int | None]:
        """Of the first list of each level that is there; None where a level has none."""
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
        array = array.flatten()  # leaves null lists out, whatever lies below them
    return Ragged(array, tuple(lengths), tuple(nulls))


def depth_of(kind: pa.DataType) -> int:
    """How many list levels a type has."""
    return 1 + depth_of(kind.value_type) if is_list(kind) else 0


def leaf_of(kind: pa.DataType) -> pa.DataType:
    return leaf_of(kind.value_type) if is_list(kind) else kind


def is_list(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def as_numpy(array: pa.Array) -> NDArray[Any]:
    return np.asarray(array.to_numpy(zero_copy_only=False))


def hashable(array: pa.Array) -> pa.Array:
    """The same values as integers or texts, for `hash_array`."""
    if pa.types.is_boolean(array.type):
        return array.cast(pa.uint8())
    return array.cast(pa.int64()) if pa.types.is_temporal(array.type) else array


def count_in_each(flags: NDArray[np.bool_], lengths: Lengths) -> Lengths:
    """How many of the flags are set in each of the consecutive stretches that `lengths` measures."""
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(flags, dtype=np.int64)])
    ends = np.cumsum(lengths)
    counts: Lengths = before[ends] - before[ends - lengths]
    return counts


def spread(values: NDArray[Any], lengths: Lengths, width: int) -> NDArray[Any]:
    """Items of consecutive stretches laid out as rows, each padded with zeros to `width`."""
    rows = np.zeros((len(lengths), width, *values.shape[1:]), values.dtype)
    rows[np.arange(width) < lengths[:, None]] = values
    return rows


def longest(lengths: Lengths) -> int:
    return int(lengths.max(initial=0))


def _item_counts(array: pa.Array) -> Lengths:
    counts = pc.list_value_length(array)
    if counts.null_count > 0:
        counts = counts.fill_null(0)
    return as_numpy(counts).astype(np.int64, copy=False)
