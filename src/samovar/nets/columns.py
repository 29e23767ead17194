"""Rows of any kind as named Arrow columns, and what each column means: a number, a category, a date. Knows no nets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from numpy.typing import NDArray
from pyarrow import types
from pydantic import AfterValidator

from samovar.brewing.arrays import as_numpy, is_text, plain_type
from samovar.brewing.frames import find_frame
from samovar.config.records import Text
from samovar.config.values import describe
from samovar.errors import BadInput
from samovar.tables import Bag, Record, Table

Kind: TypeAlias = Literal["number", "category", "date", "empty"]
Floats = NDArray[np.float64]

DATE_PARTS = ("month", "day", "weekday", "hour")


def _check_zone(zone: str) -> str:
    pc.hour(pa.array([0], pa.timestamp("us", zone)))  # Arrow's own error is a ValueError
    return zone


Zone = Annotated[Text, AfterValidator(_check_zone)]


@dataclass(frozen=True)
class Column:
    """What a column of the rows means."""

    name: Text
    kind: Kind
    zone: Zone | None = None
    """The time zone of a date."""


# Reading


def read_columns(rows: Any) -> dict[str, pa.Array]:
    """The columns by name. Those of an array are named x0, x1, … by position.

    Raises:
        BadInput: The rows are of another kind, or a column cannot be read.
    """
    if isinstance(rows, Table):
        with rows.read() as records:
            rows = list(records)
    if isinstance(rows, Mapping):
        columns = {str(name): as_column(values, f"column {name!r}") for name, values in rows.items()}
    elif isinstance(rows, list) and rows and all(isinstance(each, Record) for each in rows):
        columns = _read_records(rows)
    elif isinstance(rows, np.ndarray | torch.Tensor | list | tuple):
        columns = _read_array(rows)
    else:
        columns = _read_frame(rows)
    if not columns:
        raise BadInput("the rows have no columns")
    lengths = {len(each) for each in columns.values()}
    if len(lengths) > 1:
        shown = ", ".join(f"{name} {len(each)}" for name, each in columns.items())
        raise BadInput(f"columns must have the same number of rows, got {shown}")
    return columns


def _read_frame(frame: Any) -> dict[str, pa.Array]:
    if hasattr(frame, "set_axis"):  # pandas; a frame made of an array has numbers as names
        frame = frame.set_axis([str(name) for name in frame.columns], axis=1)
    found = find_frame(frame)
    if found is None:
        raise BadInput(f"rows must be a frame, an array or columns by name, got {describe(frame)}")
    names = list(found.names)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise BadInput(f"{found.name}: several columns are named {twice!r}; rename them")
    table = found.open(names).read_all()
    return {name: _combine(table.column(name)) for name in names}


def _read_records(records: Sequence[Record]) -> dict[str, pa.Array]:
    parts = [read_columns(record) for record in records]
    return {name: _combine(pa.chunked_array([part[name] for part in parts]).unify_dictionaries()) for name in parts[0]}


def _read_array(rows: Any) -> dict[str, pa.Array]:
    array = rows.detach().cpu().numpy() if isinstance(rows, torch.Tensor) else np.asarray(rows)
    if array.ndim != 2:
        raise BadInput(f"rows must be an array with two axes, rows and columns, got the shape {list(array.shape)}")
    return {f"x{number}": as_column(array[:, number], f"column {number}") for number in range(array.shape[1])}


def as_column(values: Any, where: str) -> pa.Array:
    """A tensor, array, series, list or bag as an Arrow array; NaN is missing.

    Raises:
        BadInput: It has more than one axis, or values of several types.
    """
    if isinstance(values, Bag):
        return _read_bag(values, where)
    if isinstance(values, torch.Tensor):
        values = values.detach().cpu().numpy()
    if isinstance(values, np.ndarray):
        if values.ndim == 2 and values.shape[1] == 1:
            values = values[:, 0]
        if values.ndim != 1:
            raise BadInput(f"{where} must have one value per row, got the shape {list(values.shape)}")
        if values.dtype.kind in "US":
            values = values.astype(object)
    try:
        is_polars = hasattr(values, "to_arrow")
        found = values.to_arrow() if is_polars else pa.array(values, from_pandas=True)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise BadInput(f"{where} has values of several types, or of one that Arrow does not have ({error})") from None
    return _combine(found)


def _combine(array: Any) -> pa.Array:
    if not isinstance(array, pa.ChunkedArray):
        return array
    return array.combine_chunks() if array.num_chunks != 1 else array.chunk(0)


def _read_bag(bag: Bag, where: str) -> pa.Array:
    """One id per row, as a category. A row without ids is missing."""
    lengths = bag.data_len.numpy()
    if lengths.ndim != 1 or lengths.max(initial=0) > 1:
        raise BadInput(f"{where} has several ids in a row; embed it with samovar.HashEmbedding instead")
    ids = np.zeros(len(lengths), np.int64)
    ids[lengths == 1] = bag.data.numpy()
    return pa.array(ids, mask=lengths == 0).cast(pa.string()).dictionary_encode()


# Meaning


def find_column(name: str, array: pa.Array) -> Column:
    """What a column means, by the type of its values. Text is a date if every value is one, and a category otherwise.

    Raises:
        BadInput: Values have a type that no net can take.
    """
    kind = array.type
    if len(array) == array.null_count:
        return Column(name, "empty")
    if types.is_dictionary(kind):
        return Column(name, "category")
    if _is_number(kind):
        return Column(name, "number")
    if types.is_date(kind):
        return Column(name, "date")
    if types.is_timestamp(kind):
        return Column(name, "date", kind.tz)
    if is_text(kind):
        for zone in (None, "UTC"):
            if _parse_dates(array, zone) is not None:
                return Column(name, "date", zone)
        return Column(name, "category")
    raise BadInput(f"column {name!r} has values of type {kind}; convert it to numbers, text or dates, or drop it")


def _is_number(kind: pa.DataType) -> bool:
    return bool(
        types.is_boolean(kind)
        or types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_decimal(kind)
        or types.is_duration(kind)
        or types.is_time(kind)
    )


def _parse_dates(array: pa.Array, zone: str | None) -> pa.Array | None:
    """Text in ISO 8601 as times; None if any is not."""
    try:
        return array.cast(pa.string()).cast(pa.timestamp("us", zone))
    except pa.ArrowException:
        return None


# Values


def read_numbers(column: Column, array: pa.Array) -> Floats:
    """The values of a number column; missing ones are NaN.

    Raises:
        BadInput: They are not numbers, or one is infinite.
    """
    kind = plain_type(array.type)
    if types.is_null(kind):
        return np.full(len(array), np.nan)
    if not _is_number(kind):
        raise _wrong_type(column, array)
    if types.is_boolean(kind):
        array = array.cast(pa.uint8())
    elif types.is_duration(kind) or types.is_time(kind):
        array = array.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
    elif types.is_dictionary(array.type):
        array = array.dictionary_decode()
    numbers = as_numpy(array.cast(pa.float64(), safe=False)).astype(np.float64)
    if np.isinf(numbers).any():
        row = int(np.flatnonzero(np.isinf(numbers))[0])
        raise BadInput(
            f"column {column.name!r}, row {row}: the value is {numbers[row]}; numbers must be finite or missing"
        )
    return numbers


def read_categories(array: pa.Array) -> pa.Array:
    """Categories as strings; missing ones are null. Whole floats are written as integers, because pandas turns integers
    with missing values into floats."""
    if types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if types.is_floating(array.type):
        array = pc.if_else(pc.is_nan(array), None, array)
        if pc.all(pc.equal(pc.round(array), array)).as_py() is not False:
            array = array.cast(pa.int64(), safe=False)
    return array.cast(pa.string())


def read_dates(column: Column, array: pa.Array) -> dict[str, Floats]:
    """Seconds since 1970, as "", and the parts of a date, by name; missing ones are NaN.

    Raises:
        BadInput: The values are not dates, or have a time zone where training had none or the other way round.
    """
    times = _as_times(column, array)
    as_floats = {"": times.cast(pa.int64()), "month": pc.month(times), "day": pc.day(times)}
    parts = {part: as_numpy(values.cast(pa.float64())) for part, values in as_floats.items()}
    parts[""] = parts[""] / 1e6
    parts["weekday"] = as_numpy(pc.day_of_week(times).cast(pa.float64()))
    hour, minute, second = (as_numpy(part(times).cast(pa.float64())) for part in (pc.hour, pc.minute, pc.second))
    parts["hour"] = hour + minute / 60 + second / 3600
    return parts


def _as_times(column: Column, array: pa.Array) -> pa.Array:
    wanted = pa.timestamp("us", column.zone)
    if types.is_null(array.type):
        return pa.nulls(len(array), wanted)
    if is_text(array.type):
        if types.is_dictionary(array.type):
            array = array.dictionary_decode()
        found = _parse_dates(array, column.zone)
        if found is not None:
            return found
    if types.is_date(array.type) and column.zone is None:
        return array.cast(wanted)
    if types.is_timestamp(array.type) and (array.type.tz is None) == (column.zone is None):
        return array.cast(wanted, safe=False)
    raise _wrong_type(column, array)


def _wrong_type(column: Column, array: pa.Array) -> BadInput:
    zone = "" if column.zone is None else f" in the time zone {column.zone}"
    return BadInput(f"column {column.name!r} must hold {column.kind}s{zone}, as it did in fit; got {array.type}")
