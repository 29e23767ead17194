"""A synthetic click log: the rows that loaders and brewers compete on. Knows no file formats.

20 categorical columns with one id per row, 6 with zero to eight (four on average), 13 floats and a label. Ids follow
Zipf's law and are scattered over all 64-bit numbers, as hashing scatters them; floats are logarithms of counts.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from samovar.native import hash_integers
from samovar.seeds import numpy_generator
from samovar.tables import ColumnSchema, Ids, TableSchema

SINGLE = tuple(f"c{number}" for number in range(20))
MULTIPLE = tuple(f"m{number}" for number in range(6))
CATEGORICAL = SINGLE + MULTIPLE
REAL = (*(f"r{number}" for number in range(13)), "label")
SCHEMA = TableSchema(
    (
        *(ColumnSchema(name, "categorical", 1, "int64") for name in SINGLE),
        *(ColumnSchema(name, "categorical", 1, "list<element: int64>") for name in MULTIPLE),
        *(ColumnSchema(name, "real", 1, "float") for name in REAL),
    )
)
NUM_IDS = 1_000_000
EXPONENT = 1.15
MOST_IDS = 8
CLICK_RATE = 0.2

Columns: TypeAlias = Mapping[str, Ids | NDArray[np.float32]]


def make_clicks(num_rows: int) -> Columns:
    columns: dict[str, Ids | NDArray[np.float32]] = {}
    for number, name in enumerate(CATEGORICAL):
        chance = numpy_generator(1, "clicks", number)
        lengths = np.ones(num_rows, np.int32)
        if name in MULTIPLE:
            lengths = chance.integers(0, MOST_IDS + 1, num_rows).astype(np.int32)
        columns[name] = Ids(_draw_ids(chance, int(lengths.sum()), number), lengths)
    for number, name in enumerate(REAL):
        chance = numpy_generator(1, "clicks", len(CATEGORICAL) + number)
        counts = np.floor(np.exp(chance.normal(1.5, 1.5, num_rows)))
        columns[name] = np.log1p(counts).astype(np.float32)
    columns["label"] = (numpy_generator(1, "label").random(num_rows) < CLICK_RATE).astype(np.float32)
    return columns


def _draw_ids(chance: np.random.Generator, count: int, column: int) -> NDArray[np.uint64]:
    """XXH64 of one word is a permutation of all words, so no two ranks share an id."""
    ranks = np.searchsorted(_shares(), chance.random(count))
    return hash_integers(ranks.astype(np.uint64), seed=column)


@cache
def _shares() -> NDArray[np.float64]:
    shares: NDArray[np.float64] = np.cumsum(np.arange(1, NUM_IDS + 1, dtype=np.float64) ** -EXPONENT)
    shares /= shares[-1]
    return shares


def cut(columns: Columns, batch_size: int) -> Iterator[Columns]:
    """Minibatches, in order."""
    ends = {name: _offsets(ids(columns, name)) for name in CATEGORICAL}
    num_rows = len(floats(columns, "label"))
    for first in range(0, num_rows, batch_size):
        last = min(first + batch_size, num_rows)
        batch: dict[str, Ids | NDArray[np.float32]] = {}
        for name, column in columns.items():
            if isinstance(column, Ids):
                data = column.data[ends[name][first] : ends[name][last]]
                batch[name] = Ids(data, column.lengths[first:last])
            else:
                batch[name] = column[first:last]
        yield batch


def ids(columns: Columns, name: str) -> Ids:
    column = columns[name]
    assert isinstance(column, Ids)
    return column


def floats(columns: Columns, name: str) -> NDArray[np.float32]:
    column = columns[name]
    assert isinstance(column, np.ndarray)
    return column


def _offsets(column: Ids) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(column.lengths, dtype=np.int64)])


def to_arrow(columns: Columns) -> pa.Table:
    """Ordinary rows; ids keep their 64 bits as int64."""
    arrays: dict[str, pa.Array] = {}
    for name, column in columns.items():
        if not isinstance(column, Ids):
            arrays[name] = pa.array(column)
        elif name in SINGLE:
            arrays[name] = pa.array(column.data.view(np.int64))
        else:
            offsets = pa.array(_offsets(column).astype(np.int32))
            arrays[name] = pa.ListArray.from_arrays(offsets, pa.array(column.data.view(np.int64)))
    return pa.table(arrays)
