"""XXH64 of bytes, integers, Arrow arrays, and of the words and n-grams of texts (text.h has the definition).

The values never change: ids, splits, shards and checksums depend on them. An integer hashes as its eight little-endian
bytes, a text as its UTF-8 bytes. Arrow buffers are read without a copy; pyarrow is imported only when it is used.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from samovar import _native
from samovar.errors import BadInput

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray
    from typing_extensions import Buffer


def to_word(value: int) -> int:
    """The 64 bits of an integer as a number from 0 to 2**64 - 1; a negative one wraps."""
    try:
        number = operator.index(value)
    except TypeError:
        raise BadInput(f"a 64-bit word must be an integer, got {value!r}") from None
    if not -(2**63) <= number < 2**64:
        raise BadInput(f"a 64-bit word must be from -2**63 to 2**64 - 1, got {number}")
    return number % 2**64


def hash_bytes(data: Buffer, seed: int = 0) -> int:
    """XXH64 of a contiguous bytes-like object."""
    word = to_word(seed)
    try:
        return _native.hash_bytes(data, word)
    except (BufferError, TypeError, ValueError) as error:
        raise _not_bytes("hash_bytes", data, error) from error


class Hasher:
    """`hash_bytes` of all pieces end to end, for data that is never in memory as a whole."""

    def __init__(self, seed: int = 0) -> None:
        self._hasher = _native.Hasher(to_word(seed))

    def update(self, data: Buffer) -> None:
        try:
            self._hasher.update(data)
        except (BufferError, TypeError, ValueError) as error:
            raise _not_bytes("Hasher.update", data, error) from error

    def digest(self) -> int:
        """The hash so far; more pieces may follow."""
        return self._hasher.digest()


def hash_integers(array: NDArray[Any], seed: int = 0) -> NDArray[np.uint64]:
    """One hash per element, in the same shape. A signed value counts as its sign-extended 64 bits."""
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "iu":
        found = getattr(array, "dtype", type(array).__name__)
        raise BadInput(f"hash_integers: expected a numpy array of integers, got {found}")
    flat = np.require(array, array.dtype.newbyteorder("="), ["C", "A"]).reshape(-1)
    words = flat.view(np.uint64) if flat.itemsize == 8 else flat.astype(np.uint64)
    hashes = np.empty(words.size, np.uint64)
    _native.hash_integers(words, to_word(seed), hashes)
    return hashes.reshape(array.shape)


def hash_array(array: pa.Array | pa.ChunkedArray, seed: int = 0) -> pa.UInt64Array:
    """One hash per element of strings, bytes or integers; null stays null."""
    import pyarrow as pa

    if not isinstance(array, pa.Array | pa.ChunkedArray):
        found = type(array).__name__
        raise BadInput(f"hash_array: expected an Arrow array, got {found}. Wrap the values in pyarrow.array")
    _check_hashable(array.type)
    chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
    hashed = [_hash_chunk(chunk, seed) for chunk in chunks if len(chunk) > 0]
    if len(hashed) == 1:
        return hashed[0]
    return pa.concat_arrays(hashed or [pa.array([], pa.uint64())])


def _check_hashable(kind: pa.DataType) -> None:
    from pyarrow import types

    if types.is_dictionary(kind):
        return _check_hashable(kind.value_type)
    if not (types.is_integer(kind) or _is_text(kind) or _is_view(kind)):
        raise BadInput(f"hash_array: expected strings, bytes or integers, got a column of type {kind}")


def _hash_chunk(chunk: pa.Array, seed: int) -> pa.UInt64Array:
    import pyarrow as pa

    if pa.types.is_dictionary(chunk.type):
        return hash_array(chunk.dictionary, seed).take(chunk.indices)
    if _is_view(chunk.type):
        chunk = chunk.cast(pa.large_binary())
    hashes = _hash_strings(chunk, seed) if _is_text(chunk.type) else _hash_numbers(chunk, seed)
    mask = chunk.is_null().to_numpy(zero_copy_only=False) if chunk.null_count > 0 else None
    return pa.array(hashes, mask=mask)


def _hash_numbers(chunk: pa.Array, seed: int) -> NDArray[np.uint64]:
    _, values = chunk.buffers()
    return hash_integers(_elements(values, chunk.type.to_pandas_dtype(), chunk.offset, len(chunk)), seed)


def _hash_strings(chunk: pa.Array, seed: int) -> NDArray[np.uint64]:
    bounds, data = _string_buffers(chunk)
    hashes = np.empty(len(chunk), np.uint64)
    try:
        _native.hash_strings(bounds, data, to_word(seed), hashes)
    except ValueError as error:
        raise _layout_error(error) from error
    return hashes


def _not_bytes(where: str, data: object, error: Exception) -> BadInput:
    return BadInput(f"{where}: expected one contiguous bytes-like object, got {type(data).__name__} ({error})")


def tokenize(array: pa.Array, words: int | None, ngrams: int | None, lower: bool) -> pa.LargeListArray:
    """The hashes of each text's runs of words and characters; null stays null. Not for string views."""
    import pyarrow as pa

    bounds, data = _string_buffers(array)
    is_null = array.is_null().to_numpy(zero_copy_only=False)
    ends = np.empty(len(array) + 1, np.int64)
    try:
        hashes = _native.tokenize(bounds, data, is_null, words or 0, ngrams or 0, lower, ends)
    except ValueError as error:
        raise _layout_error(error) from error
    mask = pa.array(is_null) if array.null_count > 0 else None
    return pa.LargeListArray.from_arrays(pa.array(ends), pa.array(hashes), mask=mask)


def _string_buffers(chunk: pa.Array) -> tuple[NDArray[Any], Buffer]:
    """Offsets and bytes of an array of strings, not copied."""
    from pyarrow import types

    is_large = types.is_large_string(chunk.type) or types.is_large_binary(chunk.type)
    _, offsets, data = chunk.buffers()
    bounds = _elements(offsets, np.int64 if is_large else np.int32, chunk.offset, len(chunk) + 1)
    return bounds, b"" if data is None else data


def _elements(buffer: pa.Buffer, dtype: Any, first: int, count: int) -> NDArray[Any]:
    """`count` elements of an Arrow buffer; copied only if the buffer is not aligned."""
    try:
        elements: NDArray[Any] = np.frombuffer(buffer, dtype, count, first * np.dtype(dtype).itemsize)
    except ValueError as error:
        raise _layout_error(error) from error
    return np.require(elements, requirements=["A"])


def _layout_error(error: Exception) -> BadInput:
    return BadInput(f"an array breaks Arrow's layout ({error})")


def _is_text(kind: pa.DataType) -> bool:
    from pyarrow import types

    return bool(
        types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind) or types.is_large_binary(kind)
    )


def _is_view(kind: pa.DataType) -> bool:
    from pyarrow import types

    return bool(types.is_string_view(kind) or types.is_binary_view(kind))
