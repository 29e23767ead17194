"""`map_date_field`: raw rows → a Parquet file sorted by time, with the two date columns that brewing goes by."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet

from samovar.brewing.brew import BrewResult, Job, brew_whole
from samovar.brewing.columns import Factors, find_converters, with_shapes
from samovar.brewing.converters import Converter
from samovar.brewing.engines import find_engine
from samovar.brewing.formats import scan_schema
from samovar.brewing.order import FILE, ROW, Clock, Order, Unit, checked
from samovar.brewing.plan import (
    BrewPlan,
    TableConfig,
    find_order,
    make_query,
    open_table,
)
from samovar.brewing.progress import Progress
from samovar.brewing.recipe import TextOptions, parse_size
from samovar.brewing.sources import PathLike, Source, find_source, no_rows
from samovar.errors import ConfigError, Conflict
from samovar.hours import parse_range
from samovar.store.disk import publish
from samovar.tables.cell import Compression

_ROWS_PER_GROUP = 1 << 16


def map_date_field(
    *,
    src_table: PathLike | Sequence[PathLike],
    result_table: PathLike,
    time_field: str,
    granularity: int = 300,
    pivot_column: str | None = None,
    stability_column: str | None = None,
    time_unit: Unit | None = None,
    timezone: str | None = None,
    start_date: str | None = None,
    end_date: str | None = None,
    memory_limit: str | int | None = None,
) -> None:
    """Add `_online_learning_date` (seconds since 1970 UTC) and `_online_learning_date_granular`, and sort by
    (granular date, pivot, stability), or without a pivot by (granular date, date, stability)."""
    result = Path(result_table)
    if result.exists():
        raise Conflict(
            f"{result}: exists already, and results are never overwritten: remove it, or choose another name"
        )
    hours = parse_range(start_date, end_date, None, timezone)
    clock = Clock(time_field, time_unit, timezone, granularity, *hours)
    order = Order(is_online=True, pivot=pivot_column, stability=stability_column)
    engine = find_engine("duckdb", parse_size(memory_limit))
    source = find_source(src_table)
    schema = engine.scan_schema(source)
    query = make_query(source, schema, tuple(schema.names), order, clock)
    with closing(engine.sorted(query)) as rows:
        _write_parquet(result, _without_places(checked(rows, order.key, source)), source)


def _without_places(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.drop_columns([FILE, ROW])


def _write_parquet(result: Path, batches: Iterator[pa.RecordBatch], source: Source) -> None:
    """The file appears whole, or not at all."""
    first = next(batches, None)
    if first is None:
        raise no_rows([source])
    with (
        publish(result, replace=False) as file,
        parquet.ParquetWriter(file.path, first.schema, compression="zstd") as writer,
    ):
        for rows in _row_groups(itertools.chain([first], batches)):
            writer.write_table(rows)


def _row_groups(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    pending: list[pa.RecordBatch] = []
    for batch in batches:
        pending.append(batch)
        if sum(each.num_rows for each in pending) >= _ROWS_PER_GROUP:
            yield pa.Table.from_batches(pending)
            pending = []
    if pending:
        yield pa.Table.from_batches(pending)


def format_tensor_table(
    *,
    result_table: PathLike,
    src_table: PathLike | Sequence[PathLike] | None = None,
    converters: Mapping[str, Converter] | None = None,
    source_table_configs: Sequence[TableConfig] | None = None,
    batch_size: int = 1024,
    pivot_column: str | None = None,
    stability_column: str | None = None,
    compression: str = "zstd",
    memory_limit: str | int | None = None,
) -> BrewResult:
    """Write a tensor table from what `map_date_field` made or, as an offline table, from rows without dates, which
    are sorted by the pivot within `memory_limit`."""
    tables = source_table_configs or []
    if src_table is not None and converters is not None:
        tables = [*tables, TableConfig(src_table, converters)]
    if len(tables) == 0 or (source_table_configs and (src_table is not None or converters is not None)):
        raise ConfigError(
            "format_tensor_table: expected src_table with converters, or source_table_configs, and not both: give one"
        )

    if batch_size < 1:
        raise ConfigError(f"format_tensor_table: found batch_size={batch_size}; expected 1 or more: mend it")
    Compression.parse(compression)
    if not all(table.converters for table in tables):
        raise ConfigError(
            "format_tensor_table: found no converters; expected at least one column: use infer_converters"
        )

    def prepare() -> BrewPlan:
        order = find_order(tables, pivot_column, stability_column)
        engine = find_engine("duckdb", parse_size(memory_limit))
        return BrewPlan([open_table(table, order, engine) for table in tables], order, batch_size, compression)

    config = {
        "batch_size": batch_size,
        "pivot_column": pivot_column,
        "stability_column": stability_column,
        "compression": compression,
        "tables": [
            {"table": table.source.name, "converters": {name: str(each) for name, each in table.converters.items()}}
            for table in tables
        ],
    }
    sources = {f"tables[{number}].table": table.source for number, table in enumerate(tables)}
    return brew_whole(Job(Path(result_table), config, sources, prepare, Progress()))


def infer_converters(
    *,
    table: PathLike | Sequence[PathLike],
    categorical_factors: Sequence[str] = (),
    realvalue_factors: Sequence[str] = (),
    unravelled_categorical_factors: Sequence[str] = (),
    hashed_factors: Sequence[str] = (),
    text_factors: Mapping[str, Mapping[str, Any]] | None = None,
    keys: Sequence[str] = (),
) -> dict[str, Converter]:
    """One converter a column, from the types of a table."""
    texts = {
        column: TextOptions.load(options, f"text_factors.{column}") for column, options in (text_factors or {}).items()
    }
    factors = Factors(
        categorical_factors,
        realvalue_factors,
        unravelled_categorical_factors,
        hashed_factors,
        {column: options.model_dump() for column, options in texts.items()},
        keys,
    )
    source = find_source(table, text_columns=factors.text_columns)
    schema = scan_schema(source)
    return with_shapes(find_converters(schema, factors, source.name), source, schema)
