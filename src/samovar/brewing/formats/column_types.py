"""One type per column for all files of a source: declared by the files, or the narrowest type that holds every value
that was seen. Opens no files."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from samovar.brewing.arrays import depth_of, is_list, leaf_of, plain_type
from samovar.config.places import Place
from samovar.errors import BadInput

Leaf = Literal["null", "uint63", "int64", "uint64", "double", "bool", "string", "struct"]
"""uint63: integers that fit both int64 and uint64; int64: integers of which at least one is negative."""

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
MISSING_WORDS = (
    *("NA", "N/A", "n/a", "#N/A", "<NA>", "null", "NULL", "nil", "none", "None"),
    *("?", "-", ".", r"\N"),  # of UCI, spreadsheets, SAS, MySQL
)
"""Missing values in a column of numbers; in a column of texts they are words like any other."""
_NUMBERS = ("uint63", "int64", "uint64", "double")
_HAS_WORDS = {b"samovar": b"missing words"}


class ColumnTypes:
    """What is known about the columns of a source after the files that were scanned so far."""

    def __init__(self, text_columns: Container[str] = (), known_types: Mapping[str, str] | None = None) -> None:
        """`text_columns` and `known_types` are those of `Source`."""
        self._text_columns = text_columns
        self._known_types = known_types or {}
        self._declared: dict[str, tuple[pa.DataType, Place]] = {}
        self._learned: dict[str, tuple[LearnedType, Place]] = {}
        self._typed: set[str] = set()
        """Columns that `learn_typed` was called for."""
        self._have_words: set[str] = set()
        self._num_seen: Counter[tuple[str, Place]] = Counter()
        self._first_texts: dict[str, str] = {}
        """Where a column of texts has its first one, and which."""
        self.odd_texts: dict[str, str] = {}
        """Where a column of numbers has its first text, and which."""

    def declare(self, schema: pa.Schema, path: Place) -> None:
        """Add the columns of a file that stores their types."""
        for field in schema:
            before, where = self._declared.get(field.name, (pa.null(), path))
            self._declared[field.name] = (_widest(before, plain_type(field.type), field.name, where, path), path)

    def learn_texts(self, name: str, texts: pa.Array, path: Place) -> LearnedType:
        """Add values whose type is to be guessed, as in CSV. Values that have no type in common stay texts."""
        initial = LearnedType("string") if name in self._text_columns else self._initial(name)
        before, where = self._learned.get(name, (initial, path))
        found = infer_texts(texts, before)
        if found.leaf == "string" and before.leaf != "string":
            others = without_words(texts)
            found = infer_texts(others, before)
            if found.leaf != "string":
                self._have_words.add(name)
            else:
                is_odd = before.leaf != "null" or not _is_text(others.drop_null()[:1])
                self._note_text(name, others, path, self.odd_texts if is_odd else self._first_texts)
        self._num_seen[name, path] += len(texts)
        after = before.union(found) or LearnedType("string")
        self._learned[name] = (after, where)
        return after

    def _note_text(self, name: str, texts: pa.Array, path: Place, notes: dict[str, str]) -> None:
        for row, text in enumerate(texts):
            if text.is_valid and _is_text(pa.array([text.as_py()])):
                notes[name] = f"{path} row {self._num_seen[name, path] + row} has {text.as_py()!r}"
                return

    def learn_typed(self, name: str, found: LearnedType, path: Place) -> None:
        """Add values that say themselves whether they are texts or numbers, as in JSON."""
        before, where = self._learned.get(name, (self._initial(name), path))
        after = before.union(found)
        if after is None:
            if where != path:
                raise BadInput(
                    f"column {name!r} is {before.type} in {where} and {found.type} in {path}. Convert one of them"
                )
            raise BadInput(
                f"{path}: column {name!r} is {before.type} in some rows and {found.type} in others. Convert them to "
                "one type"
            )
        self._learned[name] = (after, where)
        self._typed.add(name)

    def add(self, other: ColumnTypes) -> None:
        """Add what was learned from the files that come next."""
        for name, (kind, path) in other._declared.items():
            self.declare(pa.schema([(name, kind)]), path)
        for name, (found, path) in other._learned.items():
            if name in other._typed:
                self.learn_typed(name, found, path)
            else:
                self._add_texts(name, found, path, other)

    def _add_texts(self, name: str, found: LearnedType, path: Place, other: ColumnTypes) -> None:
        before, where = self._learned.get(name, (self._initial(name), path))
        if before.leaf != "string":
            if name in other._have_words:
                self._have_words.add(name)
            notes = other.odd_texts if before.leaf == "null" else {**other._first_texts, **other.odd_texts}
            if name in notes:
                self.odd_texts[name] = notes[name]
        self._first_texts |= {name: text for name, text in other._first_texts.items() if name not in self._first_texts}
        self._learned[name] = (before.union(found) or LearnedType("string"), where)

    def decide(self, name: str) -> pa.DataType:
        """The type that holds the values of all files."""
        if name not in self._learned:
            return self._declared[name][0]
        learned, learned_path = self._learned[name]
        if name not in self._declared:
            return learned.type
        declared, path = self._declared[name]
        return _widest(declared, learned.type, name, path, learned_path)

    def field(self, name: str) -> pa.Field:
        """The column with its type, marked if it has words for missing values."""
        kind = self.decide(name)
        has_words = name in self._have_words and not types.is_string(kind)
        return pa.field(name, kind, metadata=_HAS_WORDS if has_words else None)

    def _initial(self, name: str) -> LearnedType:
        return LearnedType.from_name(self._known_types.get(name, ""))


@dataclass(frozen=True)
class LearnedType:
    """The narrowest type of the values seen so far."""

    leaf: Leaf = "null"
    depth: int = 0
    """List levels around the leaf."""

    @classmethod
    def from_name(cls, name: str) -> LearnedType:
        """The type that Arrow prints as `name`; "null" for a type that text files do not have."""
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

    def union(self, other: LearnedType) -> LearnedType | None:
        """The narrowest type that holds the values of both; None if there is none."""
        if self.leaf == "null" and self.depth <= other.depth:
            return other
        if other.leaf == "null" and other.depth <= self.depth:
            return self
        if self.depth != other.depth:
            return None
        leaf = _common_leaf(self.leaf, other.leaf)
        return None if leaf is None else LearnedType(leaf, self.depth)


def has_words(field: pa.Field) -> bool:
    """Whether a column of numbers has words for missing values."""
    return bool(field.metadata == _HAS_WORDS)


def without_words(texts: pa.Array, also_empty: bool = False) -> pa.Array:
    """The same texts, with null for words that mean a missing value."""
    words = pa.array([*MISSING_WORDS, ""] if also_empty else MISSING_WORDS)
    return pc.if_else(pc.is_in(texts, value_set=words), pa.scalar(None, texts.type), texts)


def infer_texts(texts: pa.Array, so_far: LearnedType) -> LearnedType:
    """The type of the values that texts spell out. `so_far` avoids work that cannot change the result."""
    if so_far.leaf == "string":
        return so_far
    if texts.null_count == len(texts):
        return LearnedType()
    if _casts(texts, pa.int64()):
        return LearnedType(_integer_leaf(pc.min(texts.cast(pa.int64()))))
    if _casts(texts, pa.uint64()):
        return LearnedType("uint64")
    if _casts(texts, pa.float64()):
        return LearnedType("double")
    return LearnedType("bool" if _is_boolean(texts) else "string")


def infer_json(array: pa.ChunkedArray, parses_as: Callable[[pa.DataType], bool]) -> LearnedType:
    """The type of a column of JSON values, for which Arrow has made its own guess."""
    depth, leaf = depth_of(array.type), leaf_of(array.type)
    if types.is_floating(leaf):  # Arrow's guess also for integers beyond 2**63
        return LearnedType("uint64" if parses_as(LearnedType("uint64", depth).type) else "double", depth)
    if types.is_integer(leaf):
        values = array
        while is_list(values.type):
            values = pc.list_flatten(values)
        return LearnedType(_integer_leaf(pc.min(values)), depth)
    if types.is_temporal(leaf) or types.is_string(leaf):  # Arrow takes texts that look like dates for dates
        return LearnedType("string", depth)
    if types.is_boolean(leaf):
        return LearnedType("bool", depth)
    return LearnedType("null" if types.is_null(leaf) else "struct", depth)


def _common_leaf(left: Leaf, right: Leaf) -> Leaf | None:
    if left == right or right == "null":
        return left
    if left == "null":
        return right
    if left not in _NUMBERS or right not in _NUMBERS:
        return None
    if {left, right} == {"uint63", "int64"}:
        return "int64"
    return "uint64" if {left, right} == {"uint63", "uint64"} else "double"


def _integer_leaf(smallest: pa.Scalar) -> Leaf:
    number = smallest.as_py()
    if number is None:
        return "null"
    return "int64" if number < 0 else "uint63"


def _casts(array: pa.Array, kind: pa.DataType) -> bool:
    try:
        array.cast(kind)
    except pa.ArrowInvalid:
        return False
    return True


def _is_text(texts: pa.Array) -> bool:
    return len(texts) > 0 and infer_texts(texts, LearnedType()).leaf == "string"


def _is_boolean(texts: pa.Array) -> bool:
    words = pa.array([*TRUE_WORDS, *FALSE_WORDS])
    return bool(pc.all(pc.is_in(texts.drop_null(), value_set=words)).as_py())


def _widest(left: pa.DataType, right: pa.DataType, name: str, left_path: Place, right_path: Place) -> Any:
    """A type that holds the values of both exactly."""
    if left == right or types.is_null(right):
        return left
    if types.is_null(left):
        return right
    if types.is_list(left) and types.is_list(right):
        return pa.list_(_widest(left.value_type, right.value_type, name, left_path, right_path))
    for is_same_family in (types.is_signed_integer, types.is_unsigned_integer, types.is_floating):
        if is_same_family(left) and is_same_family(right):
            return max(left, right, key=lambda kind: kind.bit_width)
    raise BadInput(f"column {name!r} is {left} in {left_path} and {right} in {right_path}; cast it in one of them")
