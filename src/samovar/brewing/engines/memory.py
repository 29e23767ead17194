"""The engine that holds all rows in memory: short, and the measure of the others."""

from collections.abc import Generator

import pyarrow as pa
import pyarrow.compute as pc

from samovar.brewing.engines.base import Engine, Query
from samovar.brewing.formats import read_in_order, scan_schema
from samovar.brewing.order import DATE, FILE, GRANULAR, ROW, SHUFFLE
from samovar.brewing.sources import ROWS_PER_BATCH, Source


class MemoryEngine(Engine):
    def __init__(self, memory_limit_bytes: int | None = None) -> None:
        """The limit is for engines that can keep it: this one takes what the rows need."""

    def scan_schema(self, source: Source, notes: list[str] | None = None) -> pa.Schema:
        return scan_schema(source, notes)

    def sorted(self, query: Query) -> Generator[pa.RecordBatch]:
        batches = list(read_in_order(query.source, query.schema, query.read_columns))
        if not batches:
            return
        rows = pa.Table.from_batches(batches).combine_chunks()
        rows = _add(rows, query)
        if query.clock is not None:
            rows = rows.filter(_in_range(rows.column(DATE), query.clock.start, query.clock.stop))
        if query.order.key:
            rows = rows.take(_sorted_indices(rows.select(query.order.key)))
        wanted = [*query.columns, *query.added_columns]
        yield from rows.select(wanted).combine_chunks().to_batches(ROWS_PER_BATCH)


def _add(rows: pa.Table, query: Query) -> pa.Table:
    if query.clock is not None:
        seconds = query.clock.seconds(rows.column(query.clock.field))
        rows = rows.append_column(DATE, seconds).append_column(GRANULAR, query.clock.granules(seconds))
    if SHUFFLE in query.order.key:
        pivot = query.order.pivot
        places = query.shuffle_places(rows.column(FILE), rows.column(ROW)) if pivot is None else None
        rows = rows.append_column(SHUFFLE, places or query.shuffle_pivots(rows.column(pivot)))
    return rows


def _sorted_indices(keys: pa.Table) -> pa.Array:
    """Null before all else. Arrow's sort is stable: ties stay in the order of files and rows."""
    by: dict[str, pa.ChunkedArray] = {}
    for name in keys.schema.names:
        by[f"{name} is there"] = pc.is_valid(keys.column(name)).cast(pa.uint8())
        by[name] = keys.column(name)
    return pc.sort_indices(pa.table(by), sort_keys=[(name, "ascending") for name in by])


def _in_range(dates: pa.ChunkedArray, start: int | None, stop: int | None) -> pa.Array:
    keep = pc.is_valid(dates)
    if start is not None:
        keep = pc.and_(keep, pc.greater_equal(dates, start).fill_null(False))
    if stop is not None:
        keep = pc.and_(keep, pc.less(dates, stop).fill_null(False))
    return pc.or_(keep, pc.is_null(dates))
