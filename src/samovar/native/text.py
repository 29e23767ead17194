"""Texts cut into words and n-grams, each a 64-bit hash. text.h has the definition."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from samovar import _native
from samovar.native.arrow import layout_error, strings

if TYPE_CHECKING:
    import pyarrow as pa


def tokenize(array: pa.Array, words: int | None, ngrams: int | None, lower: bool) -> pa.LargeListArray:
    """The hashes of each text's runs of words and characters; of strings with offsets only. Null stays null."""
    import pyarrow as pa

    bounds, data = strings(array)
    is_null = array.is_null().to_numpy(zero_copy_only=False)
    ends = np.empty(len(array) + 1, np.int64)
    try:
        hashes = _native.tokenize(bounds, data, is_null, words or 0, ngrams or 0, lower, ends)
    except ValueError as error:
        raise layout_error(error) from error
    mask = pa.array(is_null) if array.null_count > 0 else None
    return pa.LargeListArray.from_arrays(pa.array(ends), pa.array(hashes), mask=mask)
