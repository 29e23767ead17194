"""An engine that holds all rows in memory, whatever the limit: short, and the reference for the others."""

from collections.abc import Generator

import pyarrow as pa
import pyarrow.compute as pc

from samovar.brewing.arrays import as_numpy
from samovar.brewing.engines.base import Engine, Query
from samovar.brewing.formats.base import ROWS_PER_BATCH
from samovar.brewing.order import DATE, GRANULAR, SHUFFLE
from samovar.brewing.rates import sum_columns, sum_outcomes
from samovar.brewing.sources import FILE, ROW


class MemoryEngine(Engine):
    def sorted(self, query: Query) -> Generator[pa.RecordBatch]:
        batches = list(query.read(query.read_columns))
        if not batches:
            return
        rows = _add_columns(pa.Table.from_batches(batches).combine_chunks(), query)
        if query.clock is not None:
            rows = rows.filter(query.clock.in_range(rows.column(DATE).combine_chunks()))
        if query.order.key:
            rows = rows.take(_sorted_indices(rows.select(query.order.key)))
        wanted = [*query.columns, *query.added_columns]
        yield from rows.select(wanted).combine_chunks().to_batches(ROWS_PER_BATCH)


def _add_columns(rows: pa.Table, query: Query) -> pa.Table:
    if query.clock is not None:
        seconds = query.seconds(rows.column(query.clock.field), rows.column(FILE), rows.column(ROW))
        rows = rows.append_column(DATE, seconds).append_column(GRANULAR, query.clock.granules(seconds))
        for number, rate in enumerate(query.rates):
            sums = sum_outcomes(rows, as_numpy(seconds.fill_null(0)), rate)
            for name, values in zip(sum_columns(number), sums, strict=True):
                rows = rows.append_column(name, values)
    if SHUFFLE in query.order.key:
        pivot = query.order.pivot
        places = query.shuffle_places(rows.column(FILE), rows.column(ROW)) if pivot is None else None
        rows = rows.append_column(SHUFFLE, places or query.shuffle_pivots(rows.column(pivot)))
    return rows


def _sorted_indices(keys: pa.Table) -> pa.Array:
    """Nulls first. Arrow's sort is stable: ties stay in the order of files and rows."""
    by: dict[str, pa.ChunkedArray] = {}
    for name in keys.schema.names:
        by[f"{name} is valid"] = pc.is_valid(keys.column(name)).cast(pa.uint8())
        by[name] = keys.column(name)
    return pc.sort_indices(pa.table(by), sort_keys=[(name, "ascending") for name in by])
