"""One converter per column: the rows of a minibatch as an Arrow array in, one value out. Knows no engine and no
files; works on whole arrays, never row by row.

    categorical   int, [int], [[int]]      Ids, lengths [B], [B], [B, L]        the last level is a bag
    unravelled    [int], [[int]]           Ids, lengths [B, L], [B, L, K]       the last level is a sequence
    hashed        str, [str], [[str]]      like categorical, with hashes as ids
    text          str                      like categorical, with the hashes of its tokens as a list
    real          number, [n], [[n]]       float32 [B], [B, L], [B, L, K]
    key           anything single-valued   the Arrow array itself
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from samovar.brewing.arrays import Ragged, as_numpy, count_in_each, depth_of, longest, spread, unnest
from samovar.brewing.text import tokens
from samovar.errors import BadInput
from samovar.native import hash_array
from samovar.tables.schema import ColumnSchema, Ids, Kind, Value

Locate = Callable[[int], str]
"""Where row n of an array comes from, for messages."""


def _locate_by_number(row: int) -> str:
    return f"row {row}"


@dataclass(frozen=True)
class Converter(ABC):
    """What one column becomes."""

    column: str
    """Its name in the source."""
    source_type: pa.DataType
    kind: ClassVar[Kind]
    reads_texts: ClassVar[bool] = False
    """Whether values are texts even where they look like numbers."""

    @property
    def name(self) -> str:
        """Its name in the tensor table."""
        return self.column

    @property
    @abstractmethod
    def rank(self) -> int:
        """Number of dimensions of a bag's lengths, or of the tensor."""

    @property
    def schema(self) -> ColumnSchema:
        return ColumnSchema(self.name, self.kind, self.rank, str(self.source_type))

    @abstractmethod
    def convert(self, array: pa.Array, locate: Locate = _locate_by_number) -> Value:
        """The value of one minibatch. `locate` names a row in errors."""


@dataclass(frozen=True)
class CategoricalConverter(Converter):
    kind = "categorical"

    @property
    def rank(self) -> int:
        return max(1, depth_of(self.source_type))

    def convert(self, array: pa.Array, locate: Locate = _locate_by_number) -> Ids:
        return _to_bags(unnest(array))


@dataclass(frozen=True)
class UnravelledConverter(Converter):
    kind = "categorical"

    @property
    def rank(self) -> int:
        return max(1, depth_of(self.source_type)) + 1

    def convert(self, array: pa.Array, locate: Locate = _locate_by_number) -> Ids:
        if pa.types.is_null(array.type):
            return Ids(np.zeros(0, np.uint64), np.zeros((len(array), 0), np.int32))
        ragged = unnest(array)
        ones = np.ones(len(ragged.values), np.int32)
        if ragged.values.null_count > 0:  # it keeps its place in the sequence, as an empty bag
            ones[as_numpy(ragged.values.is_null())] = 0
        lengths = ones
        for level in reversed(ragged.lengths):
            lengths = spread(lengths, level, longest(level))
        return Ids(_to_ids(ragged.values), lengths)


@dataclass(frozen=True)
class HashedConverter(Converter):
    """A string is an id: its XXH64 with seed 0, forever."""

    kind = "categorical"
    reads_texts = True

    @property
    def rank(self) -> int:
        return max(1, depth_of(self.source_type))

    def convert(self, array: pa.Array, locate: Locate = _locate_by_number) -> Ids:
        ragged = unnest(array)
        values = ragged.values if pa.types.is_null(ragged.values.type) else hash_array(ragged.values)
        return _to_bags(replace(ragged, values=values))


@dataclass(frozen=True)
class TextConverter(Converter):
    """A text is a bag of its words, runs of words or n-grams of characters; see `samovar.brewing.text`."""

    kind = "categorical"
    reads_texts = True
    rank = 1
    words: int | None = None
    ngrams: int | None = None
    lower: bool = True

    def convert(self, array: pa.Array, locate: Locate = _locate_by_number) -> Ids:
        if pa.types.is_null(array.type):
            return _to_bags(unnest(array))
        return _to_bags(unnest(tokens(array, words=self.words, ngrams=self.ngrams, lower=self.lower)))


@dataclass(frozen=True)
class RealConverter(Converter):
    kind = "real"
    shape: tuple[int, ...] | None = None
    """Of one row. None: that of the first row of each minibatch that is not null."""

    @property
    def rank(self) -> int:
        return 1 + depth_of(self.source_type)

    def convert(self, array: pa.Array, locate: Locate = _locate_by_number) -> NDArray[np.float32]:
        ragged = unnest(array)
        values = _to_floats(ragged.values)
        shape = self.shape or tuple(length or 0 for length in ragged.first_lengths)
        for level in range(len(shape)):
            self._refuse_other_lengths(ragged, level, shape, locate)
        if all(is_null is None for is_null in ragged.nulls):
            return values.reshape(len(array), *shape)
        for lengths, width in zip(reversed(ragged.lengths), reversed(shape), strict=True):
            values = spread(values, lengths, width)  # null lists of every level become zeros
        return values

    def _refuse_other_lengths(self, ragged: Ragged, level: int, shape: tuple[int, ...], locate: Locate) -> None:
        lengths, is_null = ragged.lengths[level], ragged.nulls[level]
        is_wrong = lengths != shape[level]
        if is_null is not None:
            is_wrong &= ~is_null
        if not is_wrong.any():
            return
        item = row = int(is_wrong.argmax())
        found = f"a list of length {lengths[item]}"
        if level > 0:
            ends = np.cumsum(ragged.lengths[0])
            row = int(np.searchsorted(ends, item, side="right"))
            found = f"lists of lengths {lengths[ends[row] - ragged.lengths[0][row] : ends[row]].tolist()}"
        expected = "lists of ".join(f"{width} " for width in shape)
        raise BadInput(
            f"{locate(row)}: column {self.column!r} has {found}, but other rows have {expected}numbers. Real values "
            "make a dense tensor: pad or cut the lists, or make the whole list null"
        )


@dataclass(frozen=True)
class KeyConverter(Converter):
    kind = "key"
    rank = 1
    is_factor_too: bool = False

    @property
    def name(self) -> str:
        return f"key:{self.column}" if self.is_factor_too else self.column

    def convert(self, array: pa.Array, locate: Locate = _locate_by_number) -> pa.Array:
        return array


def _to_bags(ragged: Ragged) -> Ids:
    """The lengths of the last level, one row of them per list of the level above."""
    values = ragged.values
    data = _to_ids(values)
    counts = ragged.lengths[-1] if ragged.lengths else np.ones(len(values), np.int64)
    if len(data) < len(values):
        is_valid = as_numpy(values.is_valid())
        counts = count_in_each(is_valid, counts) if ragged.lengths else is_valid
    lengths = counts.astype(np.int32)
    for level in reversed(ragged.lengths[:-1]):
        lengths = spread(lengths, level, longest(level))
    return Ids(data, lengths)


def _to_ids(values: pa.Array) -> NDArray[np.uint64]:
    """The 64 bits of each value that is not null; negative values are sign-extended."""
    if pa.types.is_null(values.type):
        return np.zeros(0, np.uint64)
    if values.null_count > 0:
        values = values.drop_null()
    numbers = as_numpy(values)
    return numbers.view(np.uint64) if numbers.dtype == np.int64 else numbers.astype(np.uint64, copy=False)


def _to_floats(values: pa.Array) -> NDArray[np.float32]:
    if pa.types.is_null(values.type):
        return np.zeros(len(values), np.float32)
    if pa.types.is_decimal(values.type) or pa.types.is_float16(values.type):
        values = values.cast(pa.float64())
    if values.null_count > 0:
        values = values.fill_null(False if pa.types.is_boolean(values.type) else 0)
    with np.errstate(over="ignore"):  # a double beyond float32 becomes infinite, as in torch
        return as_numpy(values).astype(np.float32, copy=False)
