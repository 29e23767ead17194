"""Arrow arrays as the buffers that C++ reads, without a copy. pyarrow is imported only where an array is at hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from samovar.errors import BadInput

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray
    from typing_extensions import Buffer


def strings(chunk: pa.Array) -> tuple[NDArray[Any], Buffer]:
    """Offsets and bytes of an array of strings, where they lie."""
    from pyarrow import types

    is_large = types.is_large_string(chunk.type) or types.is_large_binary(chunk.type)
    _, offsets, data = chunk.buffers()
    bounds = elements(offsets, np.int64 if is_large else np.int32, chunk.offset, len(chunk) + 1)
    return bounds, b"" if data is None else data


def elements(buffer: pa.Buffer, dtype: Any, first: int, count: int) -> NDArray[Any]:
    """`count` elements of an Arrow buffer, where they lie; copied only if the buffer is not aligned."""
    try:
        elements: NDArray[Any] = np.frombuffer(buffer, dtype, count, first * np.dtype(dtype).itemsize)
    except ValueError as error:
        raise layout_error(error) from error
    return np.require(elements, requirements=["A"])


def layout_error(error: Exception) -> BadInput:
    return BadInput(f"Arrow array: found one that breaks Arrow's layout ({error}): make the array again")


def is_text(kind: pa.DataType) -> bool:
    from pyarrow import types

    return bool(
        types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind) or types.is_large_binary(kind)
    )


def is_view(kind: pa.DataType) -> bool:
    from pyarrow import types

    return bool(types.is_string_view(kind) or types.is_binary_view(kind))
