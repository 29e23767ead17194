"""`TablePreprocessor`: learns from rows how their columns become the inputs of a net. Knows no nets and no targets."""

import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from samovar.config.records import AtLeastOne, Text, check_state, in_file
from samovar.config.values import describe, suggest
from samovar.errors import BadInput, NotAResult, UnknownColumn
from samovar.nets.columns import (
    DATE_PARTS,
    Column,
    Floats,
    find_column,
    read_categories,
    read_columns,
    read_dates,
    read_numbers,
)
from samovar.nets.inputs import TabularInputs
from samovar.nets.numbers import NumberMap, NumberState
from samovar.results.state import load_tree, save_tree

KIND = "TablePreprocessor"
FORMAT = 1
MISSING = "missing"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class _Number:
    """One number that the net gets: a column, a part of a date, or whether a column is missing."""

    column: str
    part: str
    """"" for the value itself."""
    map: NumberMap


@dataclass(frozen=True, eq=False)
class _Category:
    """One category that the net gets. Code 0 is unknown; the others follow the order of `values`."""

    column: Text
    values: list[Text | None]
    """None if missing is a category of its own."""

    @property
    def num_codes(self) -> int:
        return len(self.values) + 1

    def encode(self, array: pa.Array) -> NDArray[np.int64]:
        found = pc.index_in(array, value_set=pa.array(self.values, pa.string()))
        return np.asarray(pc.fill_null(found, -1)).astype(np.int64) + 1


_PARTS = {"number": ("", MISSING), "date": ("", *DATE_PARTS, MISSING)}


@dataclass(frozen=True, eq=False)
class _State:
    """What a file holds."""

    num_bins: AtLeastOne | None
    min_count: AtLeastOne
    columns: list[Column]
    numbers: list[NumberState]
    categories: list[_Category]

    def __post_init__(self) -> None:
        kinds: dict[str, str] = {each.name: each.kind for each in self.columns}
        if len(kinds) < len(self.columns):
            raise ValueError("several columns have one name")
        for number in self.numbers:
            if number.part not in _PARTS.get(kinds.get(number.column, ""), ()):
                raise ValueError(f"no column has the number {number.column!r} {number.part!r}")
        for category in self.categories:
            if kinds.get(category.column) != "category":
                raise ValueError(f"no column has the categories of {category.column!r}")


class TablePreprocessor:
    """Turns rows into the inputs of a `TabularNet`: numbers and category codes.

    It takes pandas and polars frames, Arrow tables, arrays with rows and columns, and columns by name, such as the
    inputs of a minibatch. `fit` also takes a tensor table, or a list of its records. What a column becomes depends on
    its type:

    | column | numbers | categories |
    |---|---|---|
    | numbers, booleans, durations | a normal score by quantiles, clipped to ±4; missing values get the median | |
    | with missing values | also whether the value is missing | |
    | dates and times, also as text in ISO 8601 | the time, month, day, weekday and hour | |
    | text, categories, bags with one id per row | | a code per value; rare and unseen values are unknown |

    A column that has one value only, or no value that is frequent enough, becomes nothing. Everything is learned in
    `fit`, from the values alone: the order of rows and columns does not matter.

    Args:
        num_bins: Bins per number, for the net's piecewise-linear encoding; by default 16 to 64, by the number of rows.
        min_count: Categories with fewer rows are unknown.

    Attributes:
        columns: The names of the columns that `fit` saw.

    Raises:
        BadInput: An argument is below 1.

    Example:
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"age": [31, 45, None, 28] * 5, "city": ["Oslo", "Rome", "Rome", "Oslo"] * 5})
        >>> preprocessor = TablePreprocessor().fit(frame)
        >>> numbers, categories = preprocessor.transform(frame)
        >>> preprocessor.number_names, preprocessor.category_names
        (['age', 'age missing'], ['city'])
        >>> numbers.shape, categories[:3, 0]
        ((20, 2), array([1, 2, 2]))
    """

    def __init__(self, num_bins: int | None = None, min_count: int = 5) -> None:
        for name, value in (("num_bins", num_bins), ("min_count", min_count)):
            if value is not None and value < 1:
                raise BadInput(f"{name} must be at least 1, got {value}")
        self.num_bins = num_bins
        self.min_count = min_count
        self._columns: list[Column] = []
        self._numbers: list[_Number] = []
        self._categories: list[_Category] = []

    # Learning

    def fit(self, rows: Any) -> Self:
        """Learn from rows; what was learned before is forgotten.

        Args:
            rows: A frame, an array with rows and columns, columns by name, or a tensor table, all of which is read:
                `samovar.open_table("clicks").select(["user", "price"])`.

        Returns:
            This preprocessor.

        Raises:
            BadInput: There are no rows, a column has values that no net can take, or a number is infinite.
        """
        arrays = read_columns(rows)
        num_rows = len(next(iter(arrays.values())))
        if num_rows == 0:
            raise BadInput("there are no rows to learn from")
        num_bins = choose_num_bins(num_rows) if self.num_bins is None else self.num_bins
        columns = [find_column(name, array) for name, array in arrays.items()]
        numbers: list[_Number] = []
        categories: list[_Category] = []
        for column in columns:
            before = len(numbers) + len(categories)
            if column.kind == "category":
                categories.extend(self._fit_categories(column, arrays[column.name]))
            for part, values in _number_parts(column, arrays[column.name]):
                learned = NumberMap.fit(values, num_bins)
                if learned is not None:
                    numbers.append(_Number(column.name, part, learned))
            if before == len(numbers) + len(categories):
                _log.info("column %r is not used: it has no two values with enough rows", column.name)
        self._columns, self._numbers, self._categories = columns, numbers, categories
        return self

    def _fit_categories(self, column: Column, array: pa.Array) -> Iterator[_Category]:
        counts = pc.value_counts(read_categories(array))
        frequent = counts.filter(pc.greater_equal(counts.field("counts"), self.min_count)).field("values").to_pylist()
        values = sorted(frequent, key=lambda value: (value is not None, value or ""))
        if len(values) > 1 or (values and len(counts) > 1):
            yield _Category(column.name, values)

    # Using

    def transform(self, rows: Any) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Turn rows into inputs.

        Args:
            rows: Rows with the columns that `fit` saw, in any order.

        Returns:
            Numbers as float32 [rows, numbers], and category codes as int64 [rows, categories].

        Raises:
            UnknownColumn: A column is missing, or `fit` did not see it.
            BadInput: Nothing was learned yet, a column has values of another kind, or a number is infinite.
        """
        self._check_fitted()
        arrays = read_columns(rows)
        self._check_names(arrays)
        num_rows = len(next(iter(arrays.values())))
        found: dict[tuple[str, str], Floats] = {}
        for column in self._columns:
            for part, values in _number_parts(column, arrays[column.name]):
                found[column.name, part] = values
        numbers = np.empty((num_rows, len(self._numbers)), np.float32)
        for place, number in enumerate(self._numbers):
            numbers[:, place] = number.map.apply(found[number.column, number.part])
        categories = np.empty((num_rows, len(self._categories)), np.int64)
        for place, category in enumerate(self._categories):
            categories[:, place] = category.encode(read_categories(arrays[category.column]))
        return numbers, categories

    def _check_fitted(self) -> None:
        if not self._columns:
            raise BadInput("the preprocessor has learned nothing yet: call fit or load first")

    def _check_names(self, arrays: Mapping[str, Any]) -> None:
        names = self.columns
        for name in arrays:
            if name not in names:
                raise UnknownColumn(f"fit saw no column {name!r}; drop it{suggest(name, names)}")
        for name in names:
            if name not in arrays:
                raise UnknownColumn(f"the rows have no column {name!r}, which fit saw{suggest(name, arrays)}")

    @property
    def columns(self) -> list[str]:
        """The names of the columns that `fit` saw."""
        return [column.name for column in self._columns]

    @property
    def number_names(self) -> list[str]:
        """A name for each number that the net gets, such as `age`, `age missing` or `born month`."""
        return [f"{each.column} {each.part}".strip() for each in self._numbers]

    @property
    def category_names(self) -> list[str]:
        """The column of each category that the net gets."""
        return [each.column for each in self._categories]

    @property
    def inputs(self) -> TabularInputs:
        """What a `TabularNet` has to know about its inputs.

        Raises:
            BadInput: Nothing was learned yet, or no column can be used.
        """
        self._check_fitted()
        if not self._numbers and not self._categories:
            raise BadInput("no column can be used: each has one value only, or no value with enough rows")
        sizes = tuple(each.num_codes for each in self._categories)
        return TabularInputs(tuple(each.map.edges for each in self._numbers), sizes)

    # State

    def state_dict(self) -> dict[str, Any]:
        """Everything that was learned, as plain values and arrays."""
        return {
            "kind": KIND,
            "format": FORMAT,
            "num_bins": self.num_bins,
            "min_count": self.min_count,
            "columns": [{"name": each.name, "kind": each.kind, "zone": each.zone} for each in self._columns],
            "numbers": [{"column": n.column, "part": n.part, **n.map.state_dict()} for n in self._numbers],
            "categories": [{"column": each.column, "values": list(each.values)} for each in self._categories],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Replace what was learned by what `state_dict` returned.

        Args:
            state: The state.

        Raises:
            NotAResult: It is not the state of a preprocessor, or of a newer one.
            CorruptData: The state is damaged.
        """
        if str(state.get("kind")) != KIND or str(state.get("format")) != str(FORMAT):  # arrays compare by element
            raise NotAResult(
                f"the state is not that of a {KIND} of format {FORMAT}, but has kind {state.get('kind')!r} and format "
                f"{state.get('format')!r}"
            )
        found = check_state(_State, state, f"the state of the {KIND}")
        self.num_bins, self.min_count = found.num_bins, found.min_count
        self._columns, self._categories = found.columns, found.categories
        self._numbers = [_Number(each.column, each.part, each.map) for each in found.numbers]

    def save(self, path: str | Path) -> None:
        """Write the state into one file, without pickle. An existing file is replaced in one step.

        Args:
            path: The file.
        """
        save_tree(Path(path).expanduser(), self.state_dict())

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote.

        Args:
            path: The file.

        Returns:
            A preprocessor that gives the same inputs, bit for bit.

        Raises:
            NotAResult: The file is missing, damaged or of another kind.
            CorruptData: What it holds is damaged.
            BadInput: It is not a path.
        """
        if not isinstance(path, str | os.PathLike):
            raise BadInput(f"path must be that of a file, got {describe(path)}")
        tree = load_tree(Path(path).expanduser())
        if not isinstance(tree, dict) or str(tree.get("kind")) != KIND:
            raise NotAResult(f"{path}: not a {KIND}, but another file of Samovar")
        preprocessor = cls()
        with in_file(path):
            preprocessor.load_state_dict(tree)
        return preprocessor


def choose_num_bins(num_rows: int) -> int:
    """Small tables want fewer bins: about one per 128 rows, a power of two from 16 to 64."""
    return int(np.clip(2 ** round(np.log2(num_rows / 128)), 16, 64))


def _number_parts(column: Column, array: pa.Array) -> Iterator[tuple[str, Floats]]:
    """The numbers in a column, by part. Whether it is missing comes last."""
    if column.kind == "number":
        values = read_numbers(column, array)
        yield "", values
    elif column.kind == "date":
        parts = read_dates(column, array)
        values = parts[""]
        yield "", values
        yield from ((part, parts[part]) for part in DATE_PARTS)
    else:
        return
    yield MISSING, np.isnan(values).astype(np.float64)
