"""`map_date_field`: raw rows → a Parquet file sorted by time, with the two date columns that brewing goes by."""

import itertools
import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa
import pyarrow.parquet as parquet

from samovar.brew.clock import HOUR_SECONDS, Clock, Unit
from samovar.brew.engines import Query, find_engine
from samovar.brew.factors import require_column
from samovar.brew.order import ADDED, FILE, ROW, Order, checked
from samovar.brew.sizes import parse_size
from samovar.brew.sources import Source, find_source, no_rows
from samovar.errors import BadInput, ConfigError, Conflict

_ROWS_PER_GROUP = 1 << 16
PathLike = str | os.PathLike[str]


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


def make_query(
    source: Source,
    schema: pa.Schema,
    columns: tuple[str, ...],
    order: Order,
    clock: Clock | None = None,
    shuffle_seed: int | None = None,
) -> Query:
    """A query whose columns are there and can be sorted by."""
    for name in set(schema.names) & set(ADDED):
        if name in columns:
            raise BadInput(f"{source.name}: has a column {name!r}, which brewing itself makes: rename it")
    for name in columns:
        require_column(schema, name, source.name)
    if clock is not None:
        require_column(schema, clock.field, f"{source.name}: time_field")
    for role, column in (("pivot_column", order.pivot), ("stability_column", order.stability)):
        if column is not None:
            _require_sortable(schema, column, f"{source.name}: {role}")
    return Query(source, schema, columns, order, clock, shuffle_seed)


def parse_date(text: str, datetime_format: str | None, zone: ZoneInfo | None) -> int:
    """A whole hour, as seconds since 1970 UTC; a date that names no zone is in `zone`, or UTC."""
    try:
        moment = datetime.strptime(text, datetime_format) if datetime_format else datetime.fromisoformat(text)
    except ValueError:
        expected = f"the format {datetime_format!r}" if datetime_format else "ISO, for example 2021-01-20T17:00"
        raise ConfigError(f"date {text!r}: cannot be read, expected {expected}: mend it") from None
    seconds = (moment if moment.tzinfo else moment.replace(tzinfo=zone or UTC)).timestamp()
    if seconds % HOUR_SECONDS:
        raise ConfigError(f"date {text!r}: is inside an hour, expected a whole hour: tables are cut by the hour")
    return int(seconds)


def parse_range(
    start_date: str | None, end_date: str | None, datetime_format: str | None, timezone: str | None
) -> tuple[int | None, int | None]:
    """The half-open range of hours that a config's dates name; an end that is absent is open."""
    zone = find_zone(timezone)
    dates = (start_date, end_date)
    start, stop = (None if text is None else parse_date(text, datetime_format, zone) for text in dates)
    if start is not None and stop is not None and start >= stop:
        raise ConfigError(f"start_date {start_date} is not before end_date {end_date}: swap or mend them")
    return start, stop


def find_zone(name: str | None) -> ZoneInfo | None:
    if name is None:
        return None
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        raise ConfigError(f"timezone {name!r}: unknown, expected an IANA name such as Europe/Berlin: mend it") from None


def _require_sortable(schema: pa.Schema, column: str, where: str) -> None:
    kind = require_column(schema, column, where)
    if pa.types.is_nested(kind) or pa.types.is_floating(kind) or pa.types.is_null(kind):
        raise BadInput(f"{where}: column {column!r} is {kind}, expected integers, texts or times: choose another one")


def _without_places(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.drop_columns([FILE, ROW])


def _write_parquet(result: Path, batches: Iterator[pa.RecordBatch], source: Source) -> None:
    """The file appears whole, or not at all."""
    unfinished = result.with_name(f".{result.name}.{os.getpid()}")
    first = next(batches, None)
    if first is None:
        raise no_rows([source])
    try:
        with parquet.ParquetWriter(unfinished, first.schema, compression="zstd") as writer:
            for rows in _row_groups(itertools.chain([first], batches)):
                writer.write_table(rows)
        os.replace(unfinished, result)
    finally:
        unfinished.unlink(missing_ok=True)


def _row_groups(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    pending: list[pa.RecordBatch] = []
    for batch in batches:
        pending.append(batch)
        if sum(each.num_rows for each in pending) >= _ROWS_PER_GROUP:
            yield pa.Table.from_batches(pending)
            pending = []
    if pending:
        yield pa.Table.from_batches(pending)
