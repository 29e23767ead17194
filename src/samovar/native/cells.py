"""Cells of tensor tables: encoded one by one, decoded a few minibatches at a time. cell.h draws the bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from samovar import _native
from samovar.errors import BadInput
from samovar.native.codecs import require_codec

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Buffer


def encode_dense(items: NDArray[np.float32], codec: str, level: int) -> bytes:
    """A dense cell."""
    return _native.encode_dense(np.ascontiguousarray(items), require_codec(codec), level)


def encode_bag(ids: NDArray[np.uint64], lengths: NDArray[np.int32], codec: str, level: int) -> bytes:
    """A cell of ids. `BadInput` if the lengths do not add up to the number of ids."""
    try:
        return _native.encode_bag(np.ascontiguousarray(ids), np.ascontiguousarray(lengths), require_codec(codec), level)
    except ValueError as error:
        raise BadInput(f"a bag does not add up: {error}. Its converter must return one length per example") from error


def encode_keys(
    raw: NDArray[np.uint8],
    values: int,
    width: int,
    has_nulls: bool,
    count: int,
    num_bytes: int,
    codec: str,
    level: int,
) -> bytes:
    """A cell of keys, whose raw bytes keys.h draws. ValueError if texts are not UTF-8."""
    return _native.encode_keys(raw, values, width, has_nulls, count, num_bytes, require_codec(codec), level)


DecodedMinibatches = _native.DecodedMinibatches


class MinibatchDecoder:
    """Decodes all cells of a few minibatches in one call, without the GIL, into memory that is reused."""

    def __init__(self, kept_bytes: int) -> None:
        self._decoder = _native.MinibatchDecoder(kept_bytes)

    def decode(
        self,
        source: Buffer,
        places: NDArray[np.uint64],
        num_examples: NDArray[np.uint64],
        columns: NDArray[np.uint32],
        *,
        are_checked: bool = False,
        may_map: bool = True,
    ) -> _native.DecodedMinibatches:
        """The cells at `places`, minibatch by minibatch, one per column. Each is compared with what the table says
        about it before memory is allocated.

        Args:
            source: The bytes that hold the cells.
            places: [cells, 3], byte offsets and sizes in `source`, and the memory that each takes.
            num_examples: Of each minibatch.
            columns: [columns, 4]: kind, rank, and how keys are stored; `ColumnSpec` in cell.h.
            are_checked: These bytes passed all checks before, so that cells used in place need no second one.
            may_map: Cells may be used in place, without a copy.

        Raises:
            ValueError: A cell is damaged; the arguments are what is wrong and the number of the cell.
        """
        return self._decoder.decode(source, places, num_examples, columns, are_checked, may_map)

    def close(self) -> None:
        """Wait until no thread reads a source, and admit no more reads: the sources may then be changed or cut.
        Reading a mapped file past its new end would kill the process."""
        self._decoder.close()
