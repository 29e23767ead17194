"""An engine that holds all rows in memory, whatever the limit: short, and the reference for the others."""

from collections.abc import Generator

import pyarrow as pa
import pyarrow.compute as pc

from samovar.brewing.engines.base import Engine, Query
from samovar.brewing.formats.base import ROWS_PER_BATCH
from samovar.brewing.order import DATE, GRANULAR, SHUFFLE
from samovar.brewing.sources import FILE, ROW, read_in_order


class MemoryEngine(Engine):
    def sorted(self, query: Query) -> Generator[pa.RecordBatch]:
        batches = list(read_in_order(query.source, query.schema, query.read_columns))
        if not batches:
            return
        rows = _add_columns(pa.Table.from_batches(batches).combine_chunks(), query)
        if query.clock is not None:
            rows = rows.filter(_in_range(rows.column(DATE), query.clock.start, query.clock.stop))
        if query.order.key:
            rows = rows.take(_sorted_indices(rows.select(query.order.key)))
        wanted = [*query.columns, *query.added_columns]
        yield from rows.select(wanted).combine_chunks().to_batches(ROWS_PER_BATCH)


def _add_columns(rows: pa.Table, query: Query) -> pa.Table:
    if query.clock is not None:
        seconds = query.clock.seconds(rows.column(query.clock.field))
        rows = rows.append_column(DATE, seconds).append_column(GRANULAR, query.clock.granules(seconds))
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


def _in_range(dates: pa.ChunkedArray, start: int | None, stop: int | None) -> pa.Array:
    keep = pc.is_valid(dates)
    if start is not None:
        keep = pc.and_(keep, pc.greater_equal(dates, start).fill_null(False))
    if stop is not None:
        keep = pc.and_(keep, pc.less(dates, stop).fill_null(False))
    return pc.or_(keep, pc.is_null(dates))
