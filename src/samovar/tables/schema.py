"""What a tensor table holds: its columns, and one minibatch before it is written. Knows no files and no bytes."""

import itertools
import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import AfterValidator, ConfigDict, Field, GetPydanticSchema
from typing_extensions import TypedDict  # pydantic needs it before Python 3.12

from samovar.errors import BadInput

Kind = Literal["categorical", "real", "key"]
HOUR, NUM_EXAMPLES = "_hour", "_num_examples"  # every table has these two columns beside its own
GROUP_START = "group_start"
"""The column of a table with a pivot that is 1 at the first row of each group, 0 at the others."""
MAX_BINS = 65536
"""Of a column of numbers."""
_MAX_NUMBERS = 25_000_000
"""Of one row: a minibatch has at most 100 MB."""


def _check_shape(shape: list[int]) -> list[int]:
    if math.prod(shape) > _MAX_NUMBERS:
        raise ValueError(f"a row would have more than {_MAX_NUMBERS:,} numbers")
    return shape


def _check_edges(edges: list[float]) -> list[float]:
    if any(left >= right for left, right in itertools.pairwise(edges)):
        raise ValueError("the edges of bins do not ascend")
    return edges


_Finite = Annotated[float, Field(allow_inf_nan=False)]
_Positive = Annotated[_Finite, Field(gt=0)]


class _ConverterRecord(TypedDict, total=False):
    """A converter as a table or a model records it: the options of all roles."""

    __pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[misc]  # pydantic documents it so

    role: str
    missing: Literal["zero", "drop", "indicator", "error"]
    words: int | None
    ngrams: int | None
    lower: bool
    shape: Annotated[list[Annotated[int, Field(ge=0)]], Field(max_length=2), AfterValidator(_check_shape)] | None
    scale: str
    rate: str
    mean: _Finite | None
    deviation: _Positive | None
    bins: Annotated[int, Field(ge=0, le=MAX_BINS)]
    edges: Annotated[list[_Finite], Field(max_length=MAX_BINS), AfterValidator(_check_edges)] | None
    of: str | list[str]
    taken_as: str
    types: list[str]
    time: str
    feature: Literal["hour", "weekday"]
    unit: str | None
    timezone: str | None
    format: str | None


@dataclass(frozen=True)
class ColumnSchema:
    """One column of a tensor table.

    Example:
        >>> ColumnSchema("user", "categorical", 1, "uint64").kind
        'categorical'
    """

    name: str
    """Its name."""
    kind: Kind
    """categorical: a bag of ids; real: a dense float32 tensor; key: one plain value per example."""
    rank: Annotated[int, Field(ge=1, le=3)]
    """Dimensions of a bag's lengths, or of the tensor: 1 is [B], 2 is [B, L], 3 is [B, L, K]."""
    source_type: str
    """The Arrow type of the source column, as Arrow prints it; a key is read back in this type."""
    converter: Annotated[Mapping[str, Any], GetPydanticSchema(lambda _, handler: handler(_ConverterRecord))] | None = (
        None
    )
    """How raw values become this column: its role in a recipe and the role's options. None: not known."""

    def to_json(self) -> dict[str, Any]:
        """The column as JSON."""
        return {
            "name": self.name,
            "kind": self.kind,
            "rank": self.rank,
            "source_type": self.source_type,
            "converter": None if self.converter is None else dict(self.converter),
        }


@dataclass(frozen=True)
class TableSchema:
    """All columns, in the order in which they are stored.

    Example:
        >>> TableSchema((ColumnSchema("user", "categorical", 1, "uint64"),)).names
        ['user']
    """

    columns: tuple[ColumnSchema, ...]
    """The columns."""
    sort_key: tuple[str, ...] = ()
    """The columns by which the rows are sorted."""

    def __post_init__(self) -> None:
        for name in {HOUR, NUM_EXAMPLES}.intersection(self.names):
            raise BadInput(f"column {name!r}: every table has a column of that name. Rename yours")
        for name, count in Counter(self.names).items():
            if count > 1:
                raise BadInput(f"column {name!r}: there are {count} of that name. Rename all but one")

    @property
    def names(self) -> list[str]:
        """The columns by name."""
        return [column.name for column in self.columns]

    def to_json(self) -> dict[str, Any]:
        """The schema as JSON."""
        return {"columns": [column.to_json() for column in self.columns], "sort_key": list(self.sort_key)}


@dataclass(frozen=True)
class Ids:
    """A categorical column of one minibatch: the ids of all examples end to end, and the number of ids per example.

    Example:
        >>> import numpy as np
        >>> users = Ids(np.array([124, 456], np.uint64), np.array([1, 1, 0], np.int32))  # the third example has none
    """

    data: NDArray[np.uint64]
    """The ids of all examples: uint64."""
    lengths: NDArray[np.int32]
    """[B], or [B, L] and deeper for sequences of bags; its sum is the size of `data`."""


Value: TypeAlias = Ids | NDArray[np.float32] | pa.Array
"""Of a categorical, a real and a key column."""


@dataclass(frozen=True)
class Minibatch:
    """One minibatch before it is written."""

    hour: int | None
    """Start of its hour, in seconds since 1970 UTC; None in an offline table."""
    num_examples: int
    values: Mapping[str, Value]


_PLAIN_TYPES: dict[str, pa.DataType] = {
    str(kind): kind
    for kind in (
        pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(),
        pa.float16(), pa.float32(), pa.float64(), pa.string(), pa.large_string(), pa.binary(), pa.large_binary(),
        pa.date32(), pa.date64(), pa.null(), pa.string_view(), pa.binary_view(), pa.time32("s"), pa.time32("ms"),
        pa.time64("us"), pa.time64("ns"), pa.month_day_nano_interval(),
        *(kind(unit) for unit in ("s", "ms", "us", "ns") for kind in (pa.timestamp, pa.duration)),
    )
}  # fmt: skip
_LIST = re.compile(r"(?:large_|fixed_size_)?list<[^:]+: (?P<item>.+?)(?: not null)?>(?:\[\d+\])?")
_DECIMAL = re.compile(r"decimal(?P<bits>32|64|128|256)\((?P<precision>\d{1,2}), (?P<scale>-?\d{1,3})\)")
_FIXED = re.compile(r"fixed_size_binary\[(?P<width>\d{1,9})\]")
_ZONED = re.compile(r"timestamp\[(?P<unit>s|ms|us|ns), tz=(?P<zone>.+)\]")
_MAX_TEXT = 1000
_MAX_DEPTH = 8
_MAX_WIDTH = 100_000_000
"""Bytes of a key, as of a whole minibatch; Arrow counts bits in 32-bit integers."""


def parse_type(text: str) -> pa.DataType:
    """The type that Arrow prints as `text`; string for a type that no raw column has."""
    depth, item = 0, text if len(text) <= _MAX_TEXT else ""
    while found := _LIST.fullmatch(item):
        depth, item = depth + 1, found["item"]
    try:
        kind = _parse_item(item)
    except ValueError:  # such as a decimal of more digits than there are
        kind = pa.string()
    if depth > _MAX_DEPTH:
        return pa.string()
    for _ in range(depth):
        kind = pa.list_(kind)
    return kind


def _parse_item(text: str) -> pa.DataType:
    if found := _DECIMAL.fullmatch(text):
        make = {"32": pa.decimal32, "64": pa.decimal64, "128": pa.decimal128, "256": pa.decimal256}[found["bits"]]
        return make(int(found["precision"]), int(found["scale"]))
    if (found := _FIXED.fullmatch(text)) and int(found["width"]) <= _MAX_WIDTH:
        return pa.binary(int(found["width"]))
    if found := _ZONED.fullmatch(text):
        return pa.timestamp(found["unit"], found["zone"])
    return _PLAIN_TYPES.get(text, pa.string())
