"""The functions for scripts, which brew in separate steps.

raw rows ─map_date_field─▶ Parquet sorted by time ─infer_converters─▶ converters ─format_tensor_table─▶ tensor table
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa
import pyarrow.parquet as parquet

from samovar.brewing.clock import Clock, Unit
from samovar.brewing.columns import find_converters, with_shapes
from samovar.brewing.converters import Converter
from samovar.brewing.engines import Query, find_engine
from samovar.brewing.engines.duckdb import DuckDBEngine
from samovar.brewing.formats.base import UTF8, check_encoding
from samovar.brewing.order import Order, OrderCheck
from samovar.brewing.plan import BrewPlan, TableConfig, find_clock, find_order, make_query, plan_table
from samovar.brewing.recipe import NamedPeriod, RecipeTable, parse_memory_limit
from samovar.brewing.sources import FILE, ROW, PathLike, ScannedSource, find_source, no_rows, scan
from samovar.brewing.stage import BrewRequest, BrewResult, brew_whole
from samovar.brewing.statistics import with_statistics
from samovar.errors import ConfigError, Conflict
from samovar.hours import HOURLY, Period, parse_range
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
    time_format: str | None = None,
    timezone: str | None = None,
    start_date: str | None = None,
    end_date: str | None = None,
    encoding: str = UTF8,
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
        time_format: Format of times that are texts, such as "%m/%d/%Y %H:%M". Default: ISO, or learned from the first
            rows.
        timezone: Time zone of timestamps and dates that have none. Default: UTC.
        start_date: First hour that is taken.
        end_date: First hour after `start_date` that is not taken.
        encoding: Encoding of CSV and JSON files, such as "latin-1".
        memory_limit: Bytes that sorting may use, or a size such as "2GB".

    Raises:
        Conflict: `result_table` exists.
        BadInput: The source has no rows, or rows that cannot be sorted.

    Example:
        >>> map_date_field(src_table="clicks.csv", result_table="mapped.parquet", time_field="time")
    """
    result = Path(result_table)
    if result.exists():
        raise Conflict(f"{result} already exists. Remove it, or choose another name")
    hours = parse_range(start_date, end_date, None, timezone)
    for key, hour in zip(("start_date", "end_date"), hours, strict=True):
        HOURLY.require_start(key, hour)
    clock = Clock(time_field, time_unit, timezone, granularity, *hours, time_format)
    order = Order(is_online=True, pivot=pivot_column, stability=stability_column)
    engine = DuckDBEngine(parse_memory_limit(memory_limit))
    scanned = scan(find_source(src_table, encoding=_checked(encoding)))
    check = OrderCheck(order.key, scanned.source)
    query = make_query(scanned, tuple(scanned.schema.names), order, find_clock(clock, scanned))
    with closing(engine.sorted(query)) as rows:
        if not _write_parquet(result, rows, check):
            raise no_rows([scanned.source])


def _checked(encoding: str) -> str:
    try:
        return check_encoding(encoding)
    except ValueError as error:
        raise ConfigError(str(error)) from None


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
    columns: Mapping[str, Any] | None = None,
    categorical_factors: Sequence[str] = (),
    realvalue_factors: Sequence[str] = (),
    unravelled_categorical_factors: Sequence[str] = (),
    hashed_factors: Sequence[str] = (),
    text_factors: Mapping[str, Mapping[str, Any]] | None = None,
    scale: Mapping[str, str] | None = None,
    bins: Mapping[str, int] | None = None,
    keys: Sequence[str] = (),
    missing: Mapping[str, str] | None = None,
    crosses: Sequence[Sequence[str]] = (),
) -> dict[str, Converter]:
    """Choose one converter per column, from the types of a table.

    Args:
        table: Paths or globs of raw files, usually the file that `map_date_field` made.
        columns: What each column becomes, as in `samovar.brew`. The lists below are the long form of the same.
        categorical_factors: Integers or (nested) lists of them: ids; the last list level is a bag.
        realvalue_factors: Numbers or (nested) lists of them: a dense tensor.
        unravelled_categorical_factors: Lists of ids whose last level is a sequence.
        hashed_factors: Strings or lists of them: the hash of each is an id.
        text_factors: Texts as bags of words or n-grams, with the options of `samovar.brewing.text.tokens` per column.
        scale: Real-valued columns that are standardised: "running" by training, "standard" by the mean and deviation of
            the table.
        bins: Real-valued columns that become ids, with the number of bins.
        keys: Single values that are kept as they are; a key may also be a factor.
        missing: What becomes of missing values: "zero", "indicator" or "error".
        crosses: Lists of columns whose combinations become ids.

    Returns:
        Converters by the name that the column has in the tensor table.

    Raises:
        ConfigError: A role or an option is wrong, or a column is named twice.
        UnknownColumn: The table does not have a column.
        BadInput: A column has a type that its role or list does not take.

    Example:
        >>> list(infer_converters(table="sorted.parquet", columns={"user": "id", "clicked": "number"}))
        ['user', 'clicked']
    """
    lists = {
        "categorical_factors": categorical_factors,
        "realvalue_factors": realvalue_factors,
        "unravelled_categorical_factors": unravelled_categorical_factors,
        "hashed_factors": hashed_factors,
        "text_factors": text_factors or {},
        "scale": scale or {},
        "bins": bins or {},
        "keys": keys,
        "missing": missing or {},
        "crosses": crosses,
    }
    recipe = RecipeTable.load({"source": [], "columns": columns or {}, **lists}, "infer_converters")
    if recipe.row_filter:
        raise ConfigError("infer_converters: missing: only a recipe can drop rows; leave them out of the table")
    scanned = scan(find_source(table, text_columns=recipe.factors.text_columns))
    factors = recipe.expand_patterns(scanned.schema.names, scanned.source.name).factors
    found = find_converters(scanned.schema, factors, scanned.source.name, "", scanned.odd_texts)
    rows = Query(scanned.source, scanned.schema, (), Order(is_online=False))
    with find_engine("duckdb") as engine:
        return with_statistics(with_shapes(found, scanned), rows, engine)


def format_tensor_table(
    *,
    result_table: PathLike,
    src_table: PathLike | Sequence[PathLike] | None = None,
    converters: Mapping[str, Converter] | None = None,
    source_table_configs: Sequence[TableConfig] | None = None,
    batch_size: int = 1024,
    pivot_column: str | None = None,
    stability_column: str | None = None,
    uri: NamedPeriod = "hour",
    timezone: str | None = None,
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
        uri: What the table is split by. Shorter periods than an hour need a recipe.
        timezone: Time zone of days and weeks. Default: UTC.
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
        >>> done = format_tensor_table(src_table="sorted.parquet", converters=converters, result_table="sorted_clicks")
    """
    tables = source_table_configs or []
    if src_table is not None and converters is not None:
        tables = [*tables, TableConfig(src_table, converters)]
    if len(tables) == 0 or (source_table_configs and (src_table is not None or converters is not None)):
        raise ConfigError("format_tensor_table: give src_table and converters, or source_table_configs, but not both")
    if batch_size < 1:
        raise ConfigError(f"format_tensor_table: batch_size must be at least 1, got {batch_size}")
    if uri not in get_args(NamedPeriod):
        raise ConfigError(f"format_tensor_table: uri must be one of {', '.join(get_args(NamedPeriod))}, got {uri!r}")
    period = Period.parse(uri, timezone)
    Compression.parse(compression)
    if not all(table.converters for table in tables):
        raise ConfigError("format_tensor_table: a table has no converters; make them with infer_converters")
    memory_limit_bytes = parse_memory_limit(memory_limit)
    by_key = {f"tables[{number}].table": table for number, table in enumerate(tables)}

    def plan(scanned: Mapping[str, ScannedSource]) -> BrewPlan:
        order = find_order([scanned[key] for key in by_key], pivot_column, stability_column, period)
        planned = [plan_table(scanned[key], table.converters, order) for key, table in by_key.items()]
        return BrewPlan(planned, order, batch_size, compression, next(iter(scanned.values())).num_rows)

    sources = {key: table.source for key, table in by_key.items()}
    config = {
        "batch_size": batch_size,
        "pivot_column": pivot_column,
        "stability_column": stability_column,
        "compression": compression,
        **({} if uri == "hour" else {"uri": uri}),
        **({} if period.zone is None else {"timezone": period.zone}),
        "tables": [
            {"table": sources[key].name, "converters": {name: _show(each) for name, each in table.converters.items()}}
            for key, table in by_key.items()
        ],
    }
    with find_engine("duckdb", memory_limit_bytes) as engine:
        return brew_whole(BrewRequest(Path(result_table), config, sources, plan, engine))


def _show(converter: Converter) -> str:
    return f"{converter}" if converter.missing is None else f"{converter} missing={converter.missing}"
