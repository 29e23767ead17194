"""What the values of a text column turn out to be: the narrowest type that holds all that were seen. Knows no files."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from samovar.brewing.ragged import depth_of, is_list, leaf_of
from samovar.errors import BadInput

Leaf = Literal["null", "uint63", "int64", "uint64", "double", "bool", "string", "struct"]
"""uint63: integers that both int64 and uint64 hold; int64: a negative one is among them."""

_TYPES: dict[Leaf, pa.DataType] = {
    "null": pa.null(),
    "uint63": pa.int64(),
    "int64": pa.int64(),
    "uint64": pa.uint64(),
    "double": pa.float64(),
    "bool": pa.bool_(),
    "string": pa.string(),
    "struct": pa.struct([]),
}
TRUE_WORDS = ("true", "True", "TRUE")
FALSE_WORDS = ("false", "False", "FALSE")
_NUMBERS = ("uint63", "int64", "uint64", "double")


@dataclass(frozen=True)
class Learned:
    leaf: Leaf = "null"
    depth: int = 0

    @classmethod
    def text(cls) -> Learned:
        return cls("string")

    @classmethod
    def from_name(cls, name: str) -> Learned:
        """Of a type as Arrow prints it; of one that texts do not have nothing is learned."""
        leaves: list[Leaf] = ["uint63", "uint64", "double", "bool", "string"]
        word = re.split(r"[ <]", name.rstrip(">"))[-1]
        leaf = next((leaf for leaf in leaves if str(_TYPES[leaf]) == word), None)
        return cls() if leaf is None else cls(leaf, name.count("list<"))

    @property
    def type(self) -> pa.DataType:
        kind = _TYPES[self.leaf]
        for _ in range(self.depth):
            kind = pa.list_(kind)
        return kind

    def or_text(self, other: Learned) -> Learned:
        """A type for both; values that have nothing in common stay the texts that they are."""
        return self._with(other) or Learned.text()

    def strictly(self, other: Learned, where: str) -> Learned:
        """A type for both, or an error: JSON itself tells texts from numbers."""
        both = self._with(other)
        if both is None:
            raise BadInput(
                f"{where}: found {self.type} in some rows and {other.type} in others; expected one type: mend the rows"
            )
        return both

    def _with(self, other: Learned) -> Learned | None:
        if self.leaf == "null" and self.depth <= other.depth:
            return other
        if other.leaf == "null" and other.depth <= self.depth:
            return self
        if self.depth != other.depth:
            return None
        leaf = _common(self.leaf, other.leaf)
        return None if leaf is None else Learned(leaf, self.depth)


def learn_texts(array: pa.Array, so_far: Learned) -> Learned:
    """What a column of texts holds; `so_far` spares the work that cannot change the answer."""
    if so_far.leaf == "string":
        return so_far
    if array.null_count == len(array):
        return Learned()
    if _can_be(array, pa.int64()):
        return _signed(pc.min(array.cast(pa.int64())))
    if _can_be(array, pa.uint64()):
        return Learned("uint64")
    if _can_be(array, pa.float64()):
        return Learned("double")
    return Learned("bool") if _is_boolean(array) else Learned.text()


def learn_array(array: pa.ChunkedArray, can_be: Callable[[pa.DataType], bool]) -> Learned:
    """What a column of JSON values holds, of which Arrow made its own guess."""
    depth, leaf = depth_of(array.type), leaf_of(array.type)
    if types.is_floating(leaf):
        return Learned("uint64" if can_be(Learned("uint64", depth).type) else "double", depth)
    if types.is_integer(leaf):
        values = array
        while is_list(values.type):
            values = pc.list_flatten(values)
        return Learned(_signed(pc.min(values)).leaf, depth)
    if types.is_temporal(leaf) or types.is_string(leaf):  # Arrow takes texts that look like dates for dates
        return Learned("string", depth)
    if types.is_boolean(leaf):
        return Learned("bool", depth)
    return Learned("null" if types.is_null(leaf) else "struct", depth)


def _common(left: Leaf, right: Leaf) -> Leaf | None:
    if left == right or right == "null":
        return left
    if left == "null":
        return right
    if left not in _NUMBERS or right not in _NUMBERS:
        return None
    if {left, right} == {"uint63", "int64"}:
        return "int64"
    return "uint64" if {left, right} == {"uint63", "uint64"} else "double"


def _signed(smallest: pa.Scalar) -> Learned:
    number = smallest.as_py()
    return Learned() if number is None else Learned("int64" if number < 0 else "uint63")


def _can_be(array: pa.Array, kind: pa.DataType) -> bool:
    try:
        array.cast(kind)
    except pa.ArrowInvalid:
        return False
    return True


def _is_boolean(array: pa.Array) -> bool:
    words = pa.array([*TRUE_WORDS, *FALSE_WORDS])
    return bool(pc.all(pc.is_in(array.drop_null(), value_set=words)).as_py())
