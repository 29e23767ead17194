"""What turns raw rows into a model's inputs: its columns, each with the converter that brewed it. Training writes it
into the model directory, so that a copied model can score raw rows. Runs no models.

    signature.json   {"format": 1, "inputs": [{"name", "kind", "rank", "source_type", "converter"}, …], "others": […],
                      "outputs": [{"name", "shape", "dtype"}, …]}   outputs: of an exported model
"""

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Self, TypeAlias

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from pyarrow import types

from samovar.brewing.arrays import depth_of, is_text, leaf_of, plain_type
from samovar.brewing.columns import make_converter
from samovar.brewing.converters import Converter
from samovar.brewing.formats.column_types import without_words
from samovar.brewing.frames import find_frame
from samovar.brewing.statistics import LEARNED
from samovar.config.records import Count, read_object, read_record
from samovar.config.values import describe, did_you_mean, nearest, suggest
from samovar.errors import BadInput, CorruptData, NotAResult, UnknownColumn
from samovar.results.directory import SIGNATURE
from samovar.store import Store, read_small
from samovar.tables import Table
from samovar.tables.record import Bag, RecordValue
from samovar.tables.schema import ColumnSchema, Ids, Value

FORMAT = 1
Inputs: TypeAlias = Mapping[str, RecordValue]
_ROWS_PER_BATCH = 4096


@dataclass(frozen=True)
class Output:
    """What a model predicts per row."""

    name: str
    """The name of a single output is empty."""
    shape: tuple[Count, ...]
    """Of one row: empty for a number."""
    dtype: str


@dataclass(frozen=True)
class Signature:
    """The columns that a model reads, in the order in which it asked for them, and what it predicts.

    Example:
        >>> signature = samovar.load("models/click").signature
        >>> signature.names
        ['user', 'price']
    """

    inputs: tuple[ColumnSchema, ...]
    """The columns, each with its converter."""
    others: tuple[str, ...] = ()
    """Further columns of the training tables: rows may have them, and the model ignores them."""
    outputs: tuple[Output, ...] = ()
    """Empty if it is not known: only an export runs the model to find out."""

    @property
    def names(self) -> list[str]:
        """The columns that a model reads."""
        return [column.name for column in self.inputs]

    @property
    def raw_names(self) -> list[str]:
        """The columns that raw rows must have: some inputs are made from others."""
        found = self._converters.items()
        names = [[name] if made is None else [part.column for part in made.parts] for name, made in found]
        return list(dict.fromkeys(name for each in names for name in each))

    @cached_property
    def _converters(self) -> dict[str, Converter | None]:
        return {column.name: make_converter(column) for column in self.inputs}

    def to_bytes(self) -> bytes:
        """The text of `signature.json`."""
        return json.dumps(self.to_json(), indent=2).encode() + b"\n"

    def to_json(self) -> dict[str, Any]:
        """The signature as JSON."""
        inputs = [column.to_json() for column in self.inputs]
        outputs = {"outputs": [asdict(output) for output in self.outputs]} if self.outputs else {}
        return {"format": FORMAT, "inputs": inputs, "others": list(self.others), **outputs}

    @classmethod
    def read(cls, store: Store) -> Self:
        """Read the file of a model directory.

        Args:
            store: The directory.

        Raises:
            NotAResult: The directory has none.
            CorruptData: The file is damaged, or of another version.
        """
        if store.size(SIGNATURE) is None:
            raise NotAResult(
                f"{store.name} has no {SIGNATURE}: it is not a model, or Samovar 0.1 made it. Train it again"
            )
        return cls.from_bytes(read_small(store, SIGNATURE), f"{store.name}/{SIGNATURE}")

    @classmethod
    def from_bytes(cls, data: bytes, where: str) -> Self:
        """Read the text of a file.

        Args:
            data: The text.
            where: Its name in errors.
        """
        form = read_object(data, where).get("format")
        if form != FORMAT:
            raise CorruptData(f"{where}: format {form} is of a newer Samovar")
        signature = read_record(cls, data, where)
        _ = signature._converters  # damage is found before a script runs
        return signature

    def read_rows(self, rows: Any) -> Iterator[tuple[Inputs, int]]:
        """Turn rows into inputs, some thousand rows at a time.

        Args:
            rows: A tensor table, a frame of pandas, polars, pyarrow or DuckDB, a list of dicts, or a dict of columns.

        Raises:
            BadInput: A value does not fit its column.
            UnknownColumn: A column is missing, or a dict has a key that no column is called.
        """
        if isinstance(rows, Table):
            yield from self._read_table(rows)
            return
        batches = self._batch_dicts(rows) if _is_list_of_dicts(rows) else self._batch_frame(rows)
        first = 0
        for batch in itertools.chain(batches, [self._no_rows]):
            if batch.num_rows > 0 or first == 0:  # no rows at all are one empty batch, which shows the outputs
                made = self._converters
                yield {each.name: _convert(each, made[each.name], batch, first) for each in self.inputs}, batch.num_rows
            first += max(batch.num_rows, 1)

    @property
    def _no_rows(self) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([pa.nulls(0) for _ in self.raw_names], names=self.raw_names)

    def refuse_other_scales(self, columns: Sequence[ColumnSchema], where: str) -> None:
        """Refuse a table whose numbers were scaled or cut into bins by other statistics than the model's.

        Args:
            columns: The columns of the table.
            where: Its name, for the error.

        Raises:
            BadInput: A column that the model reads has other statistics.
        """
        for column, name in self.other_scales(columns):
            raise BadInput(
                f"{where}: column {column!r} was brewed by another {name} than the model's. Give its recipe the key "
                "statistics, with the path of the training table"
            )

    def other_scales(self, columns: Sequence[ColumnSchema]) -> Iterator[tuple[str, str]]:
        """The columns that were scaled or cut into bins by other statistics than the model's, each with what
        differs.

        Args:
            columns: The columns of the table.
        """
        inputs = {column.name: column.converter or {} for column in self.inputs}
        for column in columns:
            ours, theirs = inputs.get(column.name, {}), column.converter or {}
            for name in LEARNED.get(str(ours.get("role")), ()):
                if ours.get(name) != theirs.get(name):
                    yield column.name, name

    def _read_table(self, table: Table) -> Iterator[tuple[Inputs, int]]:
        found = {column.name: column for column in table.schema.columns}
        for column in self.inputs:
            if column.name not in found:
                raise self._missing(column.name, found, table.name)
            other = found[column.name]
            if (column.kind, column.rank) != (other.kind, other.rank):
                raise BadInput(
                    f"{table.name}: column {column.name!r} is {other.kind} of rank {other.rank}, the model expects "
                    f"{column.kind} of rank {column.rank}"
                )
        self.refuse_other_scales(table.schema.columns, table.name)
        for record in table.read(self.names):
            yield record, record.num_examples

    def _batch_dicts(self, rows: Sequence[Mapping[str, Any]]) -> Iterator[pa.RecordBatch]:
        """A key that a dict lacks is null, as in brewing. A row that has all keys may have others too. If it lacks
        some, an unknown key may be one of them, typed wrong."""
        names = self.raw_names
        known = {*names, *self.names, *self.others}
        for number, row in enumerate(rows):
            for key in () if row.keys() >= set(names) else sorted(map(str, row.keys() - known)):
                guess = did_you_mean(nearest(key, known)) or "."
                raise UnknownColumn(f"row {number}: no column {key!r}{guess} Available: {', '.join(names)}")
        for first in range(0, len(rows), _ROWS_PER_BATCH):
            chunk = rows[first : first + _ROWS_PER_BATCH]
            arrays = [_array([row.get(name) for row in chunk], name, first) for name in names]
            yield pa.RecordBatch.from_arrays(arrays, names=names)

    def _batch_frame(self, rows: Any) -> Iterator[pa.RecordBatch]:
        names = self.raw_names
        if isinstance(rows, Mapping):
            for name in names:
                value = rows.get(name, ())
                if isinstance(value, str | bytes) or not hasattr(value, "__len__"):
                    raise BadInput(
                        f"column {name!r}: a dict of columns must have a list of values, got {value!r}. To score "
                        "one row, write [row]"
                    )
            rows = pa.table({name: _array(values, name, 0) for name, values in rows.items() if name in names})
        frame = find_frame(rows)
        if frame is None:
            raise BadInput(
                f"rows must be a tensor table, a DataFrame, an Arrow table or a list of dicts, got {describe(rows)}"
            )
        for name in names:
            if name not in frame.names:
                raise self._missing(name, frame.names, frame.kind)
        for batch in frame.open(names):
            for first in range(0, batch.num_rows, _ROWS_PER_BATCH):
                yield batch.slice(first, _ROWS_PER_BATCH)

    def _missing(self, name: str, available: Sequence[str] | Mapping[str, Any], where: str) -> UnknownColumn:
        return UnknownColumn(f"{where}: no column {name!r}, which the model reads{suggest(name, available)}")


def _is_list_of_dicts(rows: Any) -> bool:
    return isinstance(rows, list | tuple) and all(isinstance(row, Mapping) for row in rows)


def _array(values: Any, name: str, first: int) -> pa.Array:
    """Python values as an Arrow array, of the type that they show themselves."""
    try:
        try:
            return pa.array(values, from_pandas=True)  # NaN is missing, as in a frame
        except OverflowError:  # ids from 2**63
            return pa.array(values, pa.uint64(), from_pandas=True)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        raise _unfit(values, name, first) from None


def _unfit(values: Sequence[Any], name: str, first: int) -> BadInput:
    """The error of the first value that has another type than those before it."""
    for end in range(1, len(values) + 1):
        try:
            pa.array(values[:end])
        except OverflowError:
            continue
        except (pa.ArrowException, TypeError, ValueError):
            return BadInput(
                f"row {first + end - 1}: column {name!r}: {values[end - 1]!r} does not fit the values above"
            )
    return BadInput(f"column {name!r} has values of several types. Convert them to one type")


def _convert(column: ColumnSchema, converter: Converter | None, batch: pa.RecordBatch, first: int) -> RecordValue:
    if converter is None:
        raise BadInput(
            f"column {column.name!r}: the training table does not say how it was made from raw values. Give a tensor "
            "table instead of raw rows"
        )
    arrays = [_conform(part, batch[part.column], first) for part in converter.parts]
    try:
        return _as_tensor(converter.apply(arrays, lambda row: f"row {first + row}"))
    except pa.ArrowException as error:
        raise BadInput(f"column {column.name!r} is {arrays[0].type}, expected {column.source_type} ({error})") from None


def _conform(converter: Converter, array: pa.Array, first: int) -> pa.Array:
    """The array in a type that the converter reads: raw values may come as other numbers, or as decimal texts."""
    expected = converter.source_type
    if len(array) == array.null_count:
        return pa.nulls(len(array), expected)
    kind = plain_type(array.type)
    array = array.cast(kind) if array.type != kind else array
    if converter.takes == "times":
        return array
    leaf = leaf_of(kind)
    if depth_of(kind) != depth_of(expected) or not _is_readable(converter, leaf):
        raise BadInput(f"column {converter.column!r} is {kind}, expected {_describe(converter)}")
    if types.is_null(leaf):
        return array.cast(expected)
    if types.is_string(kind) and converter.takes != "strings":
        array = without_words(array, also_empty=True)  # numbers as a CSV file has them
    if converter.takes == "numbers":
        return _cast(converter, array, pa.float64(), first) if is_text(leaf) else array
    if converter.takes == "strings" or types.is_integer(leaf) or types.is_boolean(leaf):
        return array
    try:
        return _cast(converter, array, pa.int64(), first)
    except BadInput:
        if not is_text(leaf):
            raise
        return _cast(converter, array, pa.uint64(), first)


def _is_readable(converter: Converter, leaf: pa.DataType) -> bool:
    if types.is_null(leaf) or is_text(leaf):
        return True
    is_number = types.is_integer(leaf) or types.is_boolean(leaf) or types.is_floating(leaf) or types.is_decimal(leaf)
    return converter.takes != "strings" and is_number


def _describe(converter: Converter) -> str:
    return "lists of " * depth_of(converter.source_type) + converter.takes


def _cast(converter: Converter, array: pa.Array, leaf: pa.DataType, first: int) -> pa.Array:
    wanted = leaf
    for _ in range(depth_of(array.type)):
        wanted = pa.list_(wanted)
    try:
        return array.cast(wanted)
    except pa.ArrowException:
        for row in range(len(array)):
            try:
                array.slice(row, 1).cast(wanted)
            except pa.ArrowException:
                value = array[row].as_py()
                raise BadInput(
                    f"row {first + row}: column {converter.column!r}: expected {_describe(converter)}, got {value!r}"
                ) from None
        raise


def _as_tensor(value: Value) -> RecordValue:
    if isinstance(value, Ids):
        return Bag(_own(value.data.view(np.int64)), _own(value.lengths))
    assert isinstance(value, np.ndarray)  # keys are no inputs
    return _own(value)


def _own(array: NDArray[Any]) -> torch.Tensor:
    """Arrow's memory is read-only, and torch has no such tensors."""
    return torch.from_numpy(np.require(array, requirements=["C", "W"]))
