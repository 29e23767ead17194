"""One converter per column: the rows of a minibatch as an Arrow array in, one value out. Knows no engine and no
files; works on whole arrays, never row by row.

    categorical   int, [int], [[int]]      Ids, lengths [B], [B], [B, L]        the last level is a bag
    unravelled    [int], [[int]]           Ids, lengths [B, L], [B, L, K]       the last level is a sequence
    hashed        str, [str], [[str]]      like categorical, with hashes as ids
    text          str                      like categorical, with the hashes of its tokens as a list
    real          number, [n], [[n]]       float32 [B], [B, L], [B, L, K]
    rate          number                   float32 [B], which brewing made from other columns
    key           anything single-valued   the Arrow array itself
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from samovar.brewing.arrays import Ragged, as_numpy, count_in_each, depth_of, is_missing, longest, spread, unnest
from samovar.brewing.text import tokens
from samovar.errors import BadInput
from samovar.native import hash_array
from samovar.tables.schema import ColumnSchema, Ids, Kind, Value

Missing = Literal["zero", "drop", "indicator", "error"]
"""What becomes of a row whose value is missing."""
Locate = Callable[[int], str]
"""Where row n of an array comes from, for messages."""


def _locate_by_number(row: int) -> str:
    return f"row {row}"


@dataclass(frozen=True)
class Converter(ABC):
    """What one column becomes.

    Example:
        >>> from samovar.brewing import infer_converters
        >>> import pyarrow as pa
        >>> converter = infer_converters(table="clicks.csv", realvalue_factors=["price"])["price"]
        >>> converter.convert(pa.array([1.5, None]))
        array([1.5, 0. ], dtype=float32)
    """

    column: str
    """Its name in the source."""
    source_type: pa.DataType
    """The type of the column in the source, as Arrow prints it."""
    missing: Missing | None = field(default=None, kw_only=True, repr=False)
    """What the recipe says about missing values. None: a number becomes 0, and NaN stays NaN."""
    kind: ClassVar[Kind]
    role: ClassVar[str | None] = None
    """Its name in a recipe's `columns`; None for a converter of the user's own."""
    takes: ClassVar[Literal["numbers", "integers", "strings", "times"]] = "numbers"
    """What raw values are. Strings are texts even where they look like numbers."""

    @property
    def name(self) -> str:
        """Its name in the tensor table."""
        return self.column

    @property
    @abstractmethod
    def rank(self) -> int:
        """Number of dimensions of a bag's lengths, or of the tensor."""

    @property
    def options(self) -> dict[str, Any]:
        """What the role alone does not say, as JSON."""
        return {}

    @property
    def parts(self) -> "Sequence[Converter]":
        """Those of the raw columns that it takes: itself, unless it is made from other columns."""
        return (self,)

    @property
    def schema(self) -> ColumnSchema:
        """The column that it makes."""
        missing = {} if self.missing is None else {"missing": self.missing}
        recorded = None if self.role is None else {"role": self.role, **self.options, **missing}
        return ColumnSchema(self.name, self.kind, self.rank, str(self.source_type), recorded)

    @abstractmethod
    def convert(self, array: pa.Array, locate: Locate = _locate_by_number) -> Value:
        """The value of one minibatch. `locate` names a row in errors.

        Args:
            array: The values of the column, one per example.
            locate: Names a row in errors.
        """

    def apply(self, arrays: Sequence[pa.Array], locate: Locate = _locate_by_number) -> Value:
        """The value of one minibatch, from the columns of its parts: several of them make a struct.

        Args:
            arrays: The values of each part.
            locate: Names a row in errors.
        """
        if len(arrays) > 1:
            return self.convert(pa.StructArray.from_arrays(arrays, [part.column for part in self.parts]), locate)
        array = arrays[0]
        if self.missing is not None:
            lacks = is_missing(array)
            if self.missing in ("drop", "error") and lacks.any():
                advice = "set missing to zero or drop" if self.missing == "error" else "leave out the row"
                raise BadInput(
                    f"{locate(int(lacks.argmax()))}: column {self.column!r} has no value, and the recipe says missing: "
                    f"{self.missing}. Fill it, or {advice}"
                )
            if lacks.sum() > array.null_count:
                array = pc.if_else(pa.array(lacks), pa.scalar(None, array.type), array)  # NaN
        return self.convert(array, locate)


@dataclass(frozen=True)
class CategoricalConverter(Converter):
    kind = "categorical"
    role = "id"
    takes = "integers"

    @property
    def rank(self) -> int:
        return max(1, depth_of(self.source_type))

    def convert(self, array: pa.Array, locate: Locate = _locate_by_number) -> Ids:
        return to_bags(unnest(array))


@dataclass(frozen=True)
class UnravelledConverter(Converter):
    kind = "categorical"
    role = "id_sequence"
    takes = "integers"

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
        return Ids(to_ids(ragged.values), lengths)


@dataclass(frozen=True)
class HashedConverter(Converter):
    """A string is an id: its XXH64 with seed 0, forever."""

    kind = "categorical"
    role = "hash"
    takes = "strings"

    @property
    def rank(self) -> int:
        return max(1, depth_of(self.source_type))

    def convert(self, array: pa.Array, locate: Locate = _locate_by_number) -> Ids:
        ragged = unnest(array)
        values = ragged.values if pa.types.is_null(ragged.values.type) else hash_array(ragged.values)
        return to_bags(replace(ragged, values=values))


@dataclass(frozen=True)
class TextConverter(Converter):
    """A text is a bag of its words, runs of words or n-grams of characters; see `samovar.brewing.text`."""

    kind = "categorical"
    role = "text"
    takes = "strings"
    rank = 1
    words: int | None = None
    ngrams: int | None = None
    lower: bool = True

    @property
    def options(self) -> dict[str, Any]:
        return {"words": self.words, "ngrams": self.ngrams, "lower": self.lower}

    def convert(self, array: pa.Array, locate: Locate = _locate_by_number) -> Ids:
        if pa.types.is_null(array.type):
            return to_bags(unnest(array))
        return to_bags(unnest(tokens(array, words=self.words, ngrams=self.ngrams, lower=self.lower)))


@dataclass(frozen=True)
class RealConverter(Converter):
    kind = "real"
    role = "number"
    shape: tuple[int, ...] | None = None
    """Of one row. None: that of the first row of each minibatch that is not null."""
    scale: str | None = None
    """"running": training standardises the column. The table has the values as they are."""

    @property
    def rank(self) -> int:
        return 1 + depth_of(self.source_type)

    @property
    def options(self) -> dict[str, Any]:
        scale = {} if self.scale is None else {"scale": self.scale}
        return {"shape": None if self.shape is None else list(self.shape), **scale}

    def convert(self, array: pa.Array, locate: Locate = _locate_by_number) -> NDArray[np.float32]:
        ragged = unnest(array)
        values = to_floats(ragged.values)
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
class RateConverter(Converter):
    """A rolling rate, which brewing made from other columns. Rows that come without it cannot be scored."""

    kind = "real"
    role = "rate"
    rank = 1
    rate: str = ""
    """What it is the rate of, in words."""

    @property
    def options(self) -> dict[str, Any]:
        return {"rate": self.rate}

    def convert(self, array: pa.Array, locate: Locate = _locate_by_number) -> NDArray[np.float32]:
        if array.null_count > 0:
            raise BadInput(
                f"{locate(int(as_numpy(array.is_null()).argmax()))}: this row has no rolling rate of {self.rate}. "
                f"Compute it upstream and send it as column {self.column!r}"
            )
        return to_floats(array)


@dataclass(frozen=True)
class KeyConverter(Converter):
    kind = "key"
    role = "key"
    rank = 1
    is_factor_too: bool = False

    @property
    def name(self) -> str:
        return f"key:{self.column}" if self.is_factor_too else self.column

    def convert(self, array: pa.Array, locate: Locate = _locate_by_number) -> pa.Array:
        return array


def to_bags(ragged: Ragged) -> Ids:
    """The lengths of the last level, one row of them per list of the level above."""
    values = ragged.values
    data = to_ids(values)
    counts = ragged.lengths[-1] if ragged.lengths else np.ones(len(values), np.int64)
    if len(data) < len(values):
        is_valid = as_numpy(values.is_valid())
        counts = count_in_each(is_valid, counts) if ragged.lengths else is_valid
    lengths = counts.astype(np.int32)
    for level in reversed(ragged.lengths[:-1]):
        lengths = spread(lengths, level, longest(level))
    return Ids(data, lengths)


def to_ids(values: pa.Array) -> NDArray[np.uint64]:
    """The 64 bits of each value that is not null; negative values are sign-extended."""
    if pa.types.is_null(values.type):
        return np.zeros(0, np.uint64)
    if values.null_count > 0:
        values = values.drop_null()
    numbers = as_numpy(values)
    return numbers.view(np.uint64) if numbers.dtype == np.int64 else numbers.astype(np.uint64, copy=False)


def to_floats(values: pa.Array) -> NDArray[np.float32]:
    if pa.types.is_null(values.type):
        return np.zeros(len(values), np.float32)
    if pa.types.is_decimal(values.type) or pa.types.is_float16(values.type):
        values = values.cast(pa.float64())
    if values.null_count > 0:
        values = values.fill_null(False if pa.types.is_boolean(values.type) else 0)
    with np.errstate(over="ignore"):  # a double beyond float32 becomes infinite, as in torch
        return as_numpy(values).astype(np.float32, copy=False)
