"""The functions for scripts, which brew in separate steps:

raw rows ─map_date_field─▶ Parquet sorted by time ─infer_converters─▶ converters ─format_tensor_table─▶ tensor table
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet

from samovar.brewing.brew import BrewRequest, BrewResult, brew_whole
from samovar.brewing.clock import Clock, Unit
from samovar.brewing.columns import Factors, find_converters, with_shapes
from samovar.brewing.converters import Converter
from samovar.brewing.engines import find_engine
from samovar.brewing.order import Order, OrderCheck
from samovar.brewing.plan import BrewPlan, TableConfig, find_order, make_query, open_table
from samovar.brewing.progress import Progress
from samovar.brewing.recipe import TextOptions, parse_memory_limit
from samovar.brewing.sources import FILE, ROW, PathLike, ScannedSource, find_source, no_rows, scan
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
    """Sort raw rows by time into a Parquet file.

    Adds the columns `_online_learning_date` (seconds since 1970 UTC) and `_online_learning_date_granular`, and sorts by
    (granular date, pivot, stability), or without a pivot by (granular date, date, stability).

    Args:
        src_table: Paths or globs of the raw files.
        result_table: The Parquet file to write.
        time_field: Column with the time of each row.
        granularity: Seconds per granule, counted from the start of the hour.
        pivot_column: Rows of a granule with the same value stay together.
        stability_column: Orders the rows with the same pivot.
        time_unit: Default: inferred from the type and the size of the numbers.
        timezone: Time zone of timestamps and dates that have none. Default: UTC.
        start_date: First hour that is taken.
        end_date: First hour after `start_date` that is not taken.
        memory_limit: Bytes that sorting may use, or a size such as "2GB".

    Raises:
        Conflict: `result_table` exists.
        BadInput: The source has no rows, or rows that cannot be sorted.

    Example:
        >>> map_date_field(src_table="clicks.csv", result_table="sorted.parquet", time_field="time")
    """
    result = Path(result_table)
    if result.exists():
        raise Conflict(f"{result}: exists already. Remove it, or choose another name")
    hours = parse_range(start_date, end_date, None, timezone)
    clock = Clock(time_field, time_unit, timezone, granularity, *hours)
    order = Order(is_online=True, pivot=pivot_column, stability=stability_column)
    engine = find_engine("duckdb", parse_memory_limit(memory_limit))
    scanned = scan(find_source(src_table))
    check = OrderCheck(order.key, scanned.source)
    query = make_query(scanned, tuple(scanned.schema.names), order, clock)
    with closing(engine.sorted(query)) as rows:
        if not _write_parquet(result, rows, check):
            raise no_rows([scanned.source])


def _write_parquet(result: Path, batches: Iterable[pa.RecordBatch], check: OrderCheck) -> bool:
    """Whether there were rows. The file appears whole, or not at all."""
    groups = _row_groups(batches, check)
    first = next(groups, None)
    if first is None:
        return False
    with (
        publish(result, replace=False) as file,
        parquet.ParquetWriter(file.path, first.schema, compression="zstd") as writer,
    ):
        for rows in itertools.chain([first], groups):
            writer.write_table(rows)
    return True


def _row_groups(batches: Iterable[pa.RecordBatch], check: OrderCheck) -> Iterator[pa.Table]:
    pending: list[pa.RecordBatch] = []
    for batch in batches:
        if batch.num_rows == 0:
            continue
        check.check(batch)
        pending.append(batch.drop_columns([FILE, ROW]))
        if sum(each.num_rows for each in pending) >= _ROWS_PER_GROUP:
            yield pa.Table.from_batches(pending)
            pending = []
    if pending:
        yield pa.Table.from_batches(pending)


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
    """Choose one converter per column, from the types of a table.

    Args:
        table: Paths or globs of raw files, usually the file that `map_date_field` made.
        categorical_factors: Integers or (nested) lists of them: ids; the last list level is a bag.
        realvalue_factors: Numbers or (nested) lists of them: a dense tensor.
        unravelled_categorical_factors: Lists of ids whose last level is a sequence.
        hashed_factors: Strings or lists of them: the hash of each is an id.
        text_factors: Texts as bags of words or n-grams, with the options of `samovar.brewing.text.tokens` per column.
        keys: Single values that are kept as they are; a key may also be a factor.

    Returns:
        Converters by the name that the column has in the tensor table.

    Raises:
        UnknownColumn: The table does not have a column.
        BadInput: A column has a type that its list does not take.

    Example:
        >>> infer_converters(table="sorted.parquet", categorical_factors=["user"], realvalue_factors=["clicked"])
    """
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
    scanned = scan(find_source(table, text_columns=factors.text_columns))
    return with_shapes(find_converters(scanned.schema, factors, scanned.source.name), scanned)


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
    """Write a tensor table from sorted rows, or an offline table from rows without dates.

    Args:
        result_table: Directory of the tensor table.
        src_table: What `map_date_field` made, or rows without dates, which are sorted by the pivot.
        converters: What the columns of `src_table` become, from `infer_converters`.
        source_table_configs: Several tables to join, instead of `src_table` and `converters`.
        batch_size: Rows per minibatch.
        pivot_column: The same as for `map_date_field`.
        stability_column: The same as for `map_date_field`.
        compression: zstd, zstd:3, lz4 or none.
        memory_limit: Bytes that sorting may use, or a size such as "2GB".

    Returns:
        The directory, the version and the counts of the brew.

    Raises:
        ConfigError: The arguments do not go together.
        Conflict: The directory belongs to another table.
        BadInput: Rows that are not sorted, or that cannot be converted or joined.

    Example:
        >>> converters = infer_converters(table="sorted.parquet", categorical_factors=["user"])
        >>> format_tensor_table(src_table="sorted.parquet", converters=converters, result_table="clicks")
    """
    tables = source_table_configs or []
    if src_table is not None and converters is not None:
        tables = [*tables, TableConfig(src_table, converters)]
    if len(tables) == 0 or (source_table_configs and (src_table is not None or converters is not None)):
        raise ConfigError("format_tensor_table: give src_table and converters, or source_table_configs, but not both")
    if batch_size < 1:
        raise ConfigError(f"format_tensor_table: batch_size must be at least 1, got {batch_size}")
    Compression.parse(compression)
    if not all(table.converters for table in tables):
        raise ConfigError("format_tensor_table: a table has no converters; make them with infer_converters")
    memory_limit_bytes = parse_memory_limit(memory_limit)
    by_key = {f"tables[{number}].table": table for number, table in enumerate(tables)}

    def plan(scanned: Mapping[str, ScannedSource]) -> BrewPlan:
        order = find_order([scanned[key] for key in by_key], pivot_column, stability_column)
        engine = find_engine("duckdb", memory_limit_bytes)
        inputs = [open_table(scanned[key], table.converters, order, engine) for key, table in by_key.items()]
        return BrewPlan(inputs, order, batch_size, compression)

    sources = {key: table.source for key, table in by_key.items()}
    config = {
        "batch_size": batch_size,
        "pivot_column": pivot_column,
        "stability_column": stability_column,
        "compression": compression,
        "tables": [
            {"table": sources[key].name, "converters": {name: str(each) for name, each in table.converters.items()}}
            for key, table in by_key.items()
        ],
    }
    return brew_whole(BrewRequest(Path(result_table), config, sources, plan, Progress()))
