"""Keys as bytes and back: an Arrow array of one value per example. native's keys.h draws the bytes; its decoder checks
them before an array is made here. Knows no cells and no files.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from samovar.errors import BadInput
from samovar.tables.schema import parse_type

NULL, BITS, FIXED, BYTES, TEXT = range(5)
_MAX_SHOWN = 60


@dataclass(frozen=True)
class KeyType:
    """A type of keys, and how its values are stored."""

    type: pa.DataType
    values: int
    """One of the five numbers above, as in the header of a cell."""
    width: int
    """Bytes per value, or per offset of bytes and texts."""

    @property
    def _stored_type(self) -> pa.DataType:
        """A view is stored like the type that it is a view of."""
        if pa.types.is_string_view(self.type):
            return pa.string()
        return pa.binary() if pa.types.is_binary_view(self.type) else self.type

    def to_bytes(self, array: pa.Array) -> "KeyBytes":
        """What is stored for an array of this type. Bytes under nulls are zeros, so equal keys give equal bytes."""
        if self.values == NULL:
            return KeyBytes(np.zeros(0, np.uint8), False, 0)
        array = array.cast(self._stored_type)
        is_valid = array.is_valid().to_numpy(zero_copy_only=False) if array.null_count > 0 else None
        validity = np.zeros(0, np.uint8) if is_valid is None else np.packbits(is_valid, bitorder="little")
        if self.values == BITS:
            bits = array.fill_null(False).to_numpy(zero_copy_only=False)
            return KeyBytes(_join(np.packbits(bits, bitorder="little"), validity), is_valid is not None, 0)
        if self.values == FIXED:
            return KeyBytes(_join(self._fixed_items(array, is_valid), validity), is_valid is not None, 0)
        offsets, data = self._offsets_and_data(array)
        return KeyBytes(_join(offsets.view(np.uint8), validity, data), is_valid is not None, len(data))

    def _fixed_items(self, array: pa.Array, is_valid: NDArray[np.bool_] | None) -> NDArray[np.uint8]:
        count, first = len(array), array.offset * self.width
        items = _as_numpy(array.buffers()[1], np.uint8)[first : first + count * self.width]
        if is_valid is not None:
            items = np.where(is_valid[:, None], items.reshape(count, self.width), np.uint8(0)).reshape(-1)
        return items

    def _offsets_and_data(self, array: pa.Array) -> tuple[NDArray[Any], NDArray[np.uint8]]:
        filled = array.fill_null(pa.scalar(b"", pa.binary()).cast(array.type)) if array.null_count > 0 else array
        _, offsets, data = filled.buffers()
        dtype = np.int32 if self.width == 4 else np.int64
        bounds = _as_numpy(offsets, dtype)[filled.offset : filled.offset + len(filled) + 1]
        if len(bounds) == 0:  # Arrow may leave out the offset of an empty array
            bounds = np.zeros(1, dtype)
        return bounds - bounds[0], _as_numpy(data, np.uint8)[bounds[0] : bounds[-1]]

    def from_bytes(self, raw: NDArray[np.uint8], count: int, has_nulls: bool) -> pa.Array:
        """The array over bytes that the decoder has checked, without a copy. ValueError if a number is no time of day
        or no decimal of this type."""
        if self.values == NULL:
            return pa.nulls(count)
        first = -(-count // 8) if self.values == BITS else count * self.width
        if self.values in (BYTES, TEXT):
            first += self.width
        data = pa.py_buffer(raw)
        end = first + (-(-count // 8) if has_nulls else 0)
        buffers = [data.slice(first, end - first) if has_nulls else None, data.slice(0, first)]
        if self.values in (BYTES, TEXT):
            buffers.append(data.slice(end))
        array = pa.Array.from_buffers(self._stored_type, count, buffers)
        if pa.types.is_time(self.type) or pa.types.is_decimal(self.type):
            array.validate(full=True)
        return array if array.type == self.type else array.cast(self.type)


@dataclass(frozen=True)
class KeyBytes:
    """Keys as they are stored."""

    raw: NDArray[np.uint8]
    has_nulls: bool
    num_bytes: int
    """Of the values of bytes and texts, without their offsets."""


@cache
def key_type(source_type: str) -> KeyType:
    """How keys of a type, as Arrow prints it, are stored.

    Raises:
        BadInput: No table can have keys of this type.

    Example:
        >>> key_type("int64").width
        8
    """
    try:
        kind = parse_type(source_type)
        if str(kind) != source_type or pa.types.is_nested(kind):
            raise ValueError("not a type of keys")
        if pa.types.is_timestamp(kind) and kind.tz is not None:
            pa.lib.string_to_tzinfo(kind.tz)
    except (ValueError, OverflowError) as error:
        raise BadInput(
            f"keys cannot be {source_type[:_MAX_SHOWN]} ({error}). Use numbers, strings, times or bytes"
        ) from None
    if pa.types.is_null(kind):
        return KeyType(kind, NULL, 0)
    if pa.types.is_boolean(kind):
        return KeyType(kind, BITS, 0)
    if pa.types.is_string(kind) or pa.types.is_string_view(kind):
        return KeyType(kind, TEXT, 4)
    if pa.types.is_binary(kind) or pa.types.is_binary_view(kind):
        return KeyType(kind, BYTES, 4)
    if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        return KeyType(kind, TEXT if pa.types.is_large_string(kind) else BYTES, 8)
    return KeyType(kind, FIXED, kind.byte_width)


def plain_values(keys: pa.Array) -> list[Any]:
    """The keys of a minibatch as Python values.

    Args:
        keys: A column of keys, from a record.

    Returns:
        A value per example. A column with times that Python does not have gives texts.

    Example:
        >>> import pyarrow as pa
        >>> plain_values(pa.array(["hit-0", None]))
        ['hit-0', None]
    """
    try:
        values: list[Any] = keys.to_pylist()
    except (OverflowError, ValueError):
        values = keys.cast(pa.string()).to_pylist()
    return values


def _as_numpy(buffer: pa.Buffer | None, dtype: Any) -> NDArray[Any]:
    if buffer is None:
        return np.zeros(0, dtype)
    items: NDArray[Any] = np.frombuffer(buffer, dtype, buffer.size // np.dtype(dtype).itemsize)
    return items


def _join(*parts: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """One array of its own, which numpy aligns."""
    return np.concatenate(parts)
