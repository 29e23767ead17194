"""Rolling rates: for each row, how often something happened lately to rows like it, by what was known at its time.

                       window
        |──────────────────────────────|
    ────┼──────────────────────────────┼──────────────┼──▶ time
        t - window       counted       t - known_after  t: the row

Engines sum outcomes; what becomes of the sums is the same for all of them. Outcomes are added as multiples of 2**-20:
sums of integers do not depend on the order of rows, so a rate has the same bits whoever adds.
"""

from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import types

from samovar.brewing.arrays import as_numpy
from samovar.brewing.converters import RateConverter
from samovar.errors import BadInput
from samovar.hours import show_span

_ONE = float(2**20)
_LARGEST = float(2**40)
_SUMS = ("sum", "count", "all_sum", "all_count")


@dataclass(frozen=True)
class Rate:
    """One rolling rate. It makes two columns: the rate, and the logarithm of one plus the number of rows behind it."""

    name: str
    of: str
    """The column with the outcome."""
    by: tuple[str, ...]
    """Rows with the same values here count; none: all rows."""
    window: int
    """Seconds."""
    known_after: int
    """Seconds from a row's time until its outcome is known."""
    smoothing: float
    """This many rows with the mean of all rows are added."""

    @property
    def columns(self) -> tuple[str, str]:
        return self.name, f"{self.name}_count"

    def converters(self) -> dict[str, RateConverter]:
        by = f" by {', '.join(self.by)}" if self.by else ""
        text = f"{self.of}{by} over {show_span(self.window)}, known after {show_span(self.known_after)}"
        return {name: RateConverter(name, pa.float64(), text) for name in self.columns}


def sum_columns(number: int) -> list[str]:
    """What an engine adds for the rate of that number: sum and count of the outcomes of rows with the same values, and
    of all rows."""
    return [f"_samovar_rate{number}_{part}" for part in _SUMS]


def to_integers(outcomes: pa.Array, of: str) -> pa.Array:
    """Outcomes as integers that engines add; null where there is none."""
    if types.is_null(outcomes.type):
        return pa.nulls(len(outcomes), pa.int64())
    numbers = as_numpy(outcomes.cast(pa.float64()).fill_null(np.nan))
    is_known = ~np.isnan(numbers)
    if (np.abs(numbers[is_known]) >= _LARGEST).any():
        largest = numbers[is_known][np.abs(numbers[is_known]).argmax()]
        raise BadInput(f"rates: column {of!r} has {largest:g}, but outcomes must be below 2**40. Scale them")
    return pa.array(np.floor(np.where(is_known, numbers, 0) * _ONE + 0.5).astype(np.int64), mask=~is_known)


def add_rates(batches: Generator[pa.RecordBatch], rates: Sequence[Rate]) -> Generator[pa.RecordBatch]:
    """Turn the sums of an engine into the columns of rates."""
    with closing(batches):
        for batch in batches:
            columns = {name: batch.column(name) for name in batch.schema.names}
            for number, rate in enumerate(rates):
                sums = [columns.pop(name) for name in sum_columns(number)]
                columns |= dict(zip(rate.columns, _finish(rate, *map(_floats, sums)), strict=True))
            yield pa.RecordBatch.from_pydict(columns)


def _finish(
    rate: Rate, total: NDArray[Any], count: NDArray[Any], all_total: NDArray[Any], all_count: NDArray[Any]
) -> tuple[pa.Array, pa.Array]:
    mean = np.divide(all_total / _ONE, all_count, out=np.zeros_like(total), where=all_count > 0)
    smoothed = total / _ONE + rate.smoothing * mean
    weight = count + rate.smoothing
    value = np.divide(smoothed, weight, out=mean.copy(), where=weight > 0)
    return pa.array(value), pa.array(np.log1p(count))


def _floats(array: pa.Array) -> NDArray[np.float64]:
    numbers: NDArray[np.float64] = as_numpy(array.cast(pa.float64()).fill_null(0.0))
    return numbers


def sum_outcomes(rows: pa.Table, dates: NDArray[np.int64], rate: Rate) -> list[pa.Array]:
    """The sums that an engine adds, computed in memory. Rows without a time have none."""
    outcomes = to_integers(rows.column(rate.of).combine_chunks(), rate.of)
    is_known = as_numpy(outcomes.is_valid())
    values = as_numpy(outcomes.fill_null(0))
    everyone = np.zeros(len(dates), np.int64)
    return [
        *_sums_of_groups(_group_numbers(rows, rate.by), dates, values, is_known, rate),
        *_sums_of_groups(everyone, dates, values, is_known, rate),
    ]


def _sums_of_groups(
    groups: NDArray[np.int64],
    dates: NDArray[np.int64],
    values: NDArray[np.int64],
    is_known: NDArray[np.bool_],
    rate: Rate,
) -> list[pa.Array]:
    total, count = np.zeros(len(dates)), np.zeros(len(dates), np.int64)
    for group in np.unique(groups):
        mine = np.flatnonzero(groups == group)
        past = mine[is_known[mine]]
        past = past[np.argsort(dates[past], kind="stable")]
        begin = np.searchsorted(dates[past], dates[mine] - rate.window, side="left")
        end = np.searchsorted(dates[past], dates[mine] - rate.known_after, side="right")
        ends = np.concatenate([[0], np.cumsum(values[past].astype(object))])  # Python's integers do not overflow
        total[mine] = (ends[end] - ends[begin]).astype(np.float64)
        count[mine] = end - begin
    return [pa.array(total), pa.array(count)]


def _group_numbers(rows: pa.Table, by: Sequence[str]) -> NDArray[np.int64]:
    """The same number for rows with the same values, nulls included."""
    numbers = np.zeros(rows.num_rows, np.int64)
    for column in by:
        codes = rows.column(column).combine_chunks().dictionary_encode(null_encoding="encode").indices
        both = np.stack([numbers, as_numpy(codes).astype(np.int64)])
        numbers = np.unique(both, axis=1, return_inverse=True)[1].reshape(-1)
    return numbers
