"""Frames as the inputs of a net that the user builds: numbers, and codes of categories. Knows no nets."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from numpy.typing import NDArray
from pyarrow import types

from samovar.config.records import Flag, Number, Text, check_state
from samovar.config.values import suggest
from samovar.data.examples import Indices
from samovar.errors import BadInput, UnknownColumn
from samovar.nets.columns import (
    Column,
    Kind,
    Zone,
    find_column,
    read_categories,
    read_columns,
    read_dates,
    read_numbers,
)

Columns = Mapping[str, pa.Array]
_DAY = 86400.0
_DAYS_TO_2020 = 18262  # float32 keeps the minutes of days that are counted from there


@dataclass(frozen=True)
class _Input:
    column: Column
    fill: float
    """What stands for a missing number: the mean of the others."""
    values: list[str]
    """The categories; the code of the first is 1."""


@dataclass(frozen=True)
class _InputState:
    name: Text
    kind: Kind
    zone: Zone | None
    fill: Number
    values: list[Text]


@dataclass(frozen=True)
class _State:
    """What a file holds."""

    inputs: list[_InputState]
    are_ids: Flag

    def __post_init__(self) -> None:
        if not 0 < len(self.inputs) == len({each.name for each in self.inputs}):
            raise ValueError("there must be inputs, each with a name of its own")


class FrameInputs:
    """Turns frames into one or two inputs of a net, by what it saw of the training part.

    Numbers, booleans (0 and 1) and dates (days) become a matrix of floats, with the column's mean for missing values;
    text and categories a matrix of codes, with 0 for missing and unseen ones. A frame of integers alone stays one of
    integers, which are ids.
    """

    def __init__(self) -> None:
        self._inputs: list[_Input] = []
        self._are_ids = False

    def fit(self, columns: Columns, train: Indices) -> None:
        self._are_ids = all(types.is_integer(array.type) and array.null_count == 0 for array in columns.values())
        part = take_rows(columns, train)
        self._inputs = [_learn(find_column(name, array), part[name]) for name, array in columns.items()]

    def transform(self, rows: Any) -> list[NDArray[Any]]:
        """The inputs, each with one row per row of the frame. Columns are found by name."""
        columns = read_columns(rows)
        names = [each.column.name for each in self._inputs]
        for name in columns:
            if name not in names:
                raise UnknownColumn(f"the net was trained without a column {name!r}; drop it{suggest(name, names)}")
        for name in names:
            if name not in columns:
                raise UnknownColumn(f"the rows have no column {name!r}, which the net needs{suggest(name, columns)}")
        if self._are_ids:
            return [np.stack([np.asarray(columns[each.column.name].cast(pa.int64())) for each in self._inputs], 1)]
        numbers = [_read_numbers(each, columns[each.column.name]) for each in self._inputs if not _is_category(each)]
        codes = [_read_codes(each, columns[each.column.name]) for each in self._inputs if _is_category(each)]
        return [np.stack(each, 1) for each in (numbers, codes) if each]

    @property
    def number_names(self) -> list[str]:
        return [each.column.name for each in self._inputs if not _is_category(each)]

    def state_dict(self) -> dict[str, Any]:
        inputs = [
            {"name": e.column.name, "kind": e.column.kind, "zone": e.column.zone, "fill": e.fill, "values": e.values}
            for e in self._inputs
        ]
        return {"inputs": inputs, "are_ids": self._are_ids}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        found = check_state(_State, state, "the state of the frame's columns")
        self._are_ids = found.are_ids
        self._inputs = [_Input(Column(e.name, e.kind, e.zone), e.fill, e.values) for e in found.inputs]


def is_frame(rows: Any) -> bool:
    """Whether rows have columns with names."""
    return hasattr(rows, "columns") and not isinstance(rows, np.ndarray | torch.Tensor)


def read_rows(rows: Any) -> dict[str, pa.Array]:
    """The columns of rows by name; a series is a frame of one column."""
    is_series = hasattr(rows, "to_frame") and not hasattr(rows, "columns")
    return read_columns(rows.to_frame() if is_series else rows)


def read_finite(rows: Any) -> dict[str, pa.Array]:
    """The columns of rows by name. Infinity is refused with its row here, before rows are split."""
    columns = read_rows(rows)
    for name, array in columns.items():
        column = find_column(name, array)
        if column.kind == "number":
            read_numbers(column, array)
    return columns


def take_rows(columns: Columns, indices: Indices) -> dict[str, pa.Array]:
    return {name: array.take(pa.array(indices)) for name, array in columns.items()}


def take_target(rows: Any, targets: Any) -> tuple[Any, Any]:
    """The rows and the targets; a name is that of the column with the targets."""
    if targets is None:
        raise BadInput("targets must be what to predict, one value per row, or the name of a column, got None")
    if not isinstance(targets, str):
        return rows, targets
    if not is_frame(rows) and not isinstance(rows, Mapping):
        raise BadInput(f"target: {targets!r} is the name of a column, but the inputs have no names")
    columns = read_columns(rows)
    if targets not in columns:
        raise UnknownColumn(f"target: the rows have no column {targets!r}{suggest(targets, columns)}")
    return {name: array for name, array in columns.items() if name != targets}, columns[targets]


def _is_category(each: _Input) -> bool:
    return each.column.kind == "category"


def _learn(column: Column, array: pa.Array) -> _Input:
    if column.kind == "category":
        distinct = pc.unique(read_categories(array)).drop_null()
        return _Input(column, 0.0, sorted(distinct.to_pylist()))
    numbers = _as_floats(column, array)
    known = numbers[~np.isnan(numbers)]
    return _Input(column, float(known.mean()) if len(known) else 0.0, [])


def _read_numbers(each: _Input, array: pa.Array) -> NDArray[np.float32]:
    numbers = _as_floats(each.column, array)
    return np.where(np.isnan(numbers), each.fill, numbers).astype(np.float32)


def _as_floats(column: Column, array: pa.Array) -> NDArray[np.float64]:
    if column.kind == "date":
        return read_dates(column, array)[""] / _DAY - _DAYS_TO_2020
    return read_numbers(column, array)


def _read_codes(each: _Input, array: pa.Array) -> NDArray[np.int64]:
    found = pc.index_in(read_categories(array), value_set=pa.array(each.values, pa.string()))
    return np.asarray(pc.fill_null(found, -1)).astype(np.int64) + 1
