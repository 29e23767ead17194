"""An engine that holds all rows in memory, whatever the limit: short, and the reference for the others."""

from collections.abc import Generator

import pyarrow as pa
import pyarrow.compute as pc

from samovar.brewing.arrays import as_numpy
from samovar.brewing.engines.base import LocalEngine, Query
from samovar.brewing.formats.base import ROWS_PER_BATCH
from samovar.brewing.order import DATE
from samovar.brewing.rates import sum_columns, sum_outcomes


class MemoryEngine(LocalEngine):
    def sorted(self, query: Query) -> Generator[pa.RecordBatch]:
        batches = list(query.read(query.read_columns))
        if not batches:
            return
        rows = pa.Table.from_batches([query.in_range(_add_columns(pa.concat_batches(batches), query))])
        if query.order.key:
            rows = rows.take(_sorted_indices(rows.select(query.order.key)))
        wanted = [*query.columns, *query.added_columns]
        yield from rows.select(wanted).combine_chunks().to_batches(ROWS_PER_BATCH)


def _add_columns(raw: pa.RecordBatch, query: Query) -> pa.RecordBatch:
    rows = query.with_keys(raw)
    for number, rate in enumerate(query.rates):
        dates = as_numpy(rows.column(DATE).fill_null(0))
        sums = sum_outcomes(pa.Table.from_batches([raw]), dates, rate)
        for name, values in zip(sum_columns(number), sums, strict=True):
            rows = rows.append_column(name, values)
    return rows


def _sorted_indices(keys: pa.Table) -> pa.Array:
    """Nulls first. Arrow's sort is stable: ties stay in the order of files and rows."""
    by: dict[str, pa.ChunkedArray] = {}
    for name in keys.schema.names:
        by[f"{name} is valid"] = pc.is_valid(keys.column(name)).cast(pa.uint8())
        by[name] = keys.column(name)
    return pc.sort_indices(pa.table(by), sort_keys=[(name, "ascending") for name in by])
