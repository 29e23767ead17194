"""The click log on disk, once for each way to read it. Trains nothing.

clicks             a tensor table, a new hour every few minibatches, with a key
batched.parquet    ordinary rows, ids folded; a row group is a turn
columns.parquet    the first of these rows in smaller row groups, for reading row by row
rows.parquet       the same in four wide columns
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from benchmarks.contest.clicks import SCHEMA, Columns, cut, make_clicks, to_arrow
from benchmarks.loaders.arrow import ROWS_PER_GROUP
from benchmarks.loaders.base import BATCH_SIZE
from benchmarks.loaders.dataloader import pack_rows
from benchmarks.training_peers.base import NUM_FOLDED

from samovar.store import LocalStore, take_lease
from samovar.tables import ColumnSchema, Ids, TableSchema
from samovar.tables.cell import Compression
from samovar.tables.manifest import Manifest, commit_manifest
from samovar.tables.schema import Minibatch
from samovar.tables.writer import write_segment

TABLE = "clicks"
BATCHED = "batched.parquet"
COLUMNS = "columns.parquet"
ROWS = "rows.parquet"
KEY = "hit"
_ROWS_PER_SMALL_GROUP = 16 * BATCH_SIZE
HOUR_SECONDS = 3600
FIRST_HOUR = 1_609_459_200  # 2021-01-01T00:00 UTC
_SCHEMA = TableSchema((*SCHEMA.columns, ColumnSchema(KEY, "key", 1, "int64")), ("hour",))


def write_all(folder: Path, num_batches: int, num_row_batches: int, batches_an_hour: int) -> None:
    columns = make_clicks(num_batches * BATCH_SIZE)
    write_hours(folder / TABLE, columns, batches_an_hour)
    folded = _fold(columns)
    pq.write_table(to_arrow(folded), folder / BATCHED, compression="zstd", row_group_size=ROWS_PER_GROUP)
    first = next(cut(folded, num_row_batches * BATCH_SIZE))
    pq.write_table(to_arrow(first), folder / COLUMNS, compression="zstd", row_group_size=_ROWS_PER_SMALL_GROUP)
    packed = pack_rows(first)
    wide = {name: pa.FixedSizeListArray.from_arrays(array.ravel(), array[0].size) for name, array in packed.items()}
    pq.write_table(pa.table(wide), folder / ROWS, compression="zstd", row_group_size=_ROWS_PER_SMALL_GROUP)


def write_hours(path: Path, columns: Columns, batches_an_hour: int, batch_size: int = BATCH_SIZE) -> None:
    store = LocalStore(path)
    compression = Compression.parse("zstd")
    segment = write_segment(store, _SCHEMA, _minibatches(columns, batches_an_hour, batch_size), compression=compression)
    with take_lease(store) as lease:
        commit_manifest(store, lease.commit, Manifest(1, f"{path.name}", _SCHEMA, "zstd", segment))


def _minibatches(columns: Columns, batches_an_hour: int, batch_size: int) -> Iterator[Minibatch]:
    for number, batch in enumerate(cut(columns, batch_size)):
        hour = FIRST_HOUR + number // batches_an_hour * HOUR_SECONDS
        first = number * batch_size
        yield Minibatch(hour, batch_size, {**batch, KEY: pa.array(np.arange(first, first + batch_size), pa.int64())})


def _fold(columns: Columns) -> Columns:
    mask = np.uint64(NUM_FOLDED - 1)
    return {
        name: Ids(column.data & mask, column.lengths) if isinstance(column, Ids) else column
        for name, column in columns.items()
    }
