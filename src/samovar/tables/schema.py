"""What a tensor table holds: its columns, and one minibatch before it is written. Knows no files and no bytes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from samovar.errors import BadInput

Kind = Literal["categorical", "real", "key"]
HOUR, NUM_EXAMPLES = "_hour", "_num_examples"  # every table has these two columns beside its own


@dataclass(frozen=True)
class ColumnSchema:
    """One column of a tensor table."""

    name: str
    kind: Kind
    """categorical: a bag of ids; real: a dense float32 tensor; key: one plain value per example."""
    rank: int
    """Dimensions of a bag's lengths, or of the tensor: 1 is [B], 2 is [B, L], 3 is [B, L, K]."""
    source_type: str
    """The Arrow type of the source column, as Arrow prints it; a key is read back in this type."""

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "kind": self.kind, "rank": self.rank, "source_type": self.source_type}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Self:
        return cls(record["name"], record["kind"], record["rank"], record["source_type"])


@dataclass(frozen=True)
class TableSchema:
    """All columns, in the order in which they are stored."""

    columns: tuple[ColumnSchema, ...]
    sort_key: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in {HOUR, NUM_EXAMPLES}.intersection(self.names):
            raise BadInput(f"column {name!r}: every table has a column of that name, rename yours")

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]

    def to_json(self) -> dict[str, Any]:
        return {"columns": [column.to_json() for column in self.columns], "sort_key": list(self.sort_key)}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Self:
        return cls(tuple(map(ColumnSchema.from_json, record["columns"])), tuple(record["sort_key"]))


@dataclass(frozen=True)
class Ids:
    """A categorical column of one minibatch: the ids of all examples end to end, and the number of ids per example."""

    data: NDArray[np.uint64]
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
