"""What is to be brewed, decided before the first row is sorted: converters, order and a query per table. A plan can be
sent to other processes. Writes nothing.
"""

import itertools
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from types import MappingProxyType

import pyarrow as pa

from samovar.brewing import parts
from samovar.brewing.clock import Clock
from samovar.brewing.columns import find_converters, require_column, with_shapes
from samovar.brewing.converters import Converter
from samovar.brewing.engines import Engine, Query
from samovar.brewing.made_columns import TIME_CONVERTERS, time_name
from samovar.brewing.minibatches import InputTable, make_minibatches
from samovar.brewing.order import ADDED, GRANULAR, Order
from samovar.brewing.parts import Part
from samovar.brewing.patterns import NamedColumns
from samovar.brewing.progress import BrewCounts
from samovar.brewing.rates import Rate, add_rates
from samovar.brewing.recipe import Recipe, RecipeTable
from samovar.brewing.row_filter import ALL_ROWS, RowFilter
from samovar.brewing.sources import PathLike, ScannedSource, Source, find_source
from samovar.brewing.statistics import refuse_unlearned, with_statistics
from samovar.errors import BadInput, ConfigError
from samovar.hours import HOURLY, Period
from samovar.tables.schema import GROUP_START, ColumnSchema, Minibatch, TableSchema

_MOST_NAMES = 10


@dataclass(frozen=True)
class PlannedTable:
    """A table to be brewed: which rows of it an engine sorts, and what its columns become."""

    query: Query
    converters: Mapping[str, Converter]

    def open(self, rows: Generator[pa.RecordBatch]) -> InputTable:
        return InputTable(self.query.source, add_rates(rows, self.query.rates), self.converters)


@dataclass(frozen=True)
class BrewPlan:
    tables: Sequence[PlannedTable]
    order: Order
    batch_size: int
    compression: str
    most_rows: int
    """How many rows there are, before any are left out."""
    num_rows: int | None = None
    """None if it is not known."""
    notes: Sequence[str] = ()
    """What the user should look at."""
    marks_groups: bool = True
    """Whether a table with a pivot has the column `group_start`. A live table that Samovar 0.2 began has none."""

    def __post_init__(self) -> None:
        _ = self.schema  # tables with the same column are refused from the start

    @property
    def schema(self) -> TableSchema:
        """The columns of all tables; two tables cannot have the same one."""
        homes: dict[str, int] = {}
        for number, table in enumerate(self.tables, 1):
            for name in {name for each in table.converters.values() for name in (each.column, each.name)}:
                if homes.setdefault(name, number) != number:
                    raise ConfigError(f"column {name!r} comes from both table {homes[name]} and table {number}")
        columns = [each.schema for table in self.tables for each in table.converters.values()]
        if self.order.pivot is not None and self.marks_groups:
            if GROUP_START in homes:
                raise ConfigError(f"column {GROUP_START!r} is made by every table with a pivot. Rename yours")
            columns.append(ColumnSchema(GROUP_START, "real", 1, "bool"))
        return TableSchema(tuple(columns), self.order.key)

    def find_parts(self, engine: Engine) -> list[Part]:
        """The parts that the table is made in. Rows are counted only if there may be more than one."""
        query = self.tables[0].query
        if self.most_rows <= parts.ROWS_PER_PART or query.order.unit_column is None:
            return [Part(num_rows=self.num_rows)]
        return parts.cut_parts(engine.count_rows(query), parts.ROWS_PER_PART)

    def minibatches(self, streams: Sequence[Generator[pa.RecordBatch]], counts: BrewCounts) -> Generator[Minibatch]:
        """The minibatches of one part, from its rows in each table."""
        tables = [table.open(rows) for table, rows in zip(self.tables, streams, strict=True)]
        return make_minibatches(tables, self.order, self.batch_size, counts, self.marks_groups)


def find_recipe_sources(
    recipe: Recipe, folder: Path, given: Mapping[str, Source] = MappingProxyType({})
) -> dict[str, Source]:
    """The sources by the recipe key that names them; relative paths start at `folder`. `given` are not files."""
    found = dict(given)
    for key, table in recipe_tables(recipe).items():
        if key not in given:
            named = NamedColumns(frozenset([*table.columns, *wanted_columns(recipe, table)]))
            found[key] = find_source(table.source, folder, table.factors.text_columns, table.encoding, named)
    return found


def expand_patterns(recipe: Recipe, available: Mapping[str, Sequence[str]], where: Mapping[str, str]) -> Recipe:
    """The recipe with the columns that patterns stand for. `available` are the columns of each source, and `where` is
    its name in errors, by the recipe key that names it."""
    tables = [
        table.expand_patterns(available[key], where[key]) if key in available else table
        for key, table in recipe_tables(recipe).items()
        if table is not recipe
    ]
    whole = recipe.model_copy(update={"tables": tuple(tables)})
    if "source" not in available:
        return whole
    return whole.expand_patterns(available["source"], where["source"], recipe.time_column)


def wanted_columns(recipe: Recipe, table: RecipeTable) -> list[str]:
    """Every column of a table that brewing reads, each once."""
    sorted_by = (recipe.time_column, recipe.pivot_column, recipe.stability_column)
    summed = [column for each in recipe.rates for column in (each.of, *each.by)] if table is recipe else []
    chosen = table.row_filter.columns
    wanted = [*table.factors.read_columns, *summed, *chosen, *(column for column in sorted_by if column is not None)]
    return list(dict.fromkeys(wanted))


def plan_recipe(
    recipe: Recipe,
    scanned: Mapping[str, ScannedSource],
    engine: Engine,
    known: Sequence[ColumnSchema] = (),
    is_live: bool = False,
) -> BrewPlan:
    """`scanned` has the sources of `find_recipe_sources`. `known` are columns whose statistics are used: those that a
    live table has so far, or those of another table."""
    seed = recipe.shuffle.seed if recipe.shuffle else None
    available = {key: [*each.schema.names, *each.source.other_columns] for key, each in scanned.items()}
    recipe = expand_patterns(recipe, available, {key: each.source.name for key, each in scanned.items()})
    tables = []
    notes = []
    for key, table in recipe_tables(recipe).items():
        found, factors = scanned[key], table.factors
        row_filter = table.row_filter
        row_filter.check(found.schema, found.source.name)
        converters = find_converters(
            found.schema, factors, found.source.name, found.source.hint_for_floats, found.odd_texts
        )
        converters = with_shapes(converters, found, row_filter)
        clock = None if recipe.clock is None else find_clock(recipe.clock, found, row_filter)
        if table is recipe and clock is not None:
            converters = _with_time_features(converters, recipe, clock, found)
        rates = tuple(each.rate for each in recipe.rates) if table is recipe else ()
        columns = _raw_columns(converters)
        query = make_query(found, columns, recipe.order, clock, seed, rates)
        query = replace(query, row_filter=row_filter)
        if recipe.statistics is not None:
            refuse_unlearned(converters.values(), known, recipe.statistics)
        converters = with_statistics(converters, query, engine, known)
        for rate in rates:
            converters |= rate.converters()
        tables.append(PlannedTable(query, converters))
        notes += _list_ignored(recipe, table, found)
        if clock is not None and clock != recipe.clock:
            notes.append(_describe_format(found.source.name, clock, is_live))
    # Joined tables have the same rows. How many of them are chosen is not known.
    is_whole = recipe.hours == (None, None) and not recipe.row_filter
    most_rows = scanned["source"].num_rows
    num_rows = most_rows if is_whole else None
    return BrewPlan(tables, recipe.order, recipe.batch_size, recipe.compression, most_rows, num_rows, notes)


def _describe_format(name: str, clock: Clock, is_live: bool) -> str:
    if is_live:
        raise BadInput(
            f"{name}: times have the format {clock.format!r}. Set time_format to it, so that later files of this live "
            "table are read in the same way"
        )
    return f"{name}: times are read in the format {clock.format!r}, learned from the first rows"


def _raw_columns(converters: Mapping[str, Converter]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(part.column for each in converters.values() for part in each.parts))


def _with_time_features(
    converters: Mapping[str, Converter], recipe: Recipe, clock: Clock, found: ScannedSource
) -> dict[str, Converter]:
    made = dict(converters)
    kind = found.schema.field(clock.field).type
    for feature, form in sorted(recipe.time_features.items()):
        name = time_name(clock.field, feature)
        if name in made:
            raise ConfigError(
                f"{found.source.name}: two columns would be called {name!r}; rename the one of the source"
            )
        options = (clock.field, feature, clock.unit, clock.timezone, clock.format)
        made[name] = TIME_CONVERTERS[form](name, kind, *options)
    return made


def _list_ignored(recipe: Recipe, table: RecipeTable, found: ScannedSource) -> list[str]:
    """A note about columns that a recipe with roles does not name. Factor lists have no way to say that it is meant."""
    named = {*table.columns, *wanted_columns(recipe, table)}
    ignored = sorted({*found.schema.names, *found.source.other_columns} - named)
    if not table.columns or not ignored:
        return []
    more = f" and {len(ignored) - _MOST_NAMES} more" if len(ignored) > _MOST_NAMES else ""
    shown = ", ".join(ignored[:_MOST_NAMES])
    return [f"{found.source.name}: columns that the recipe does not name are ignored: {shown}{more}"]


def recipe_tables(recipe: Recipe) -> dict[str, RecipeTable]:
    """The tables of a recipe by the key that names the source of each."""
    joined = {f"tables[{number}].source": table for number, table in enumerate(recipe.tables)}
    return {"source": recipe, **joined}


@dataclass(frozen=True)
class TableConfig:
    """One of the tables that `format_tensor_table` joins.

    Args:
        table: Paths or globs of raw files, usually the file that `map_date_field` made.
        converters: What its columns become, from `infer_converters`.

    Example:
        >>> table = TableConfig("clicks.parquet", infer_converters(table="clicks.parquet", keys=["hit"]))
    """

    table: PathLike | Sequence[PathLike]
    converters: Mapping[str, Converter]

    @property
    def source(self) -> Source:
        """Where the raw rows come from."""
        texts = [part.column for each in self.converters.values() for part in each.parts if part.takes == "strings"]
        return find_source(self.table, text_columns=texts)


def find_order(
    scanned: Sequence[ScannedSource], pivot: str | None, stability: str | None, period: Period = HOURLY
) -> Order:
    """The order of tables as they are: online if they have dates, which all of them have or none."""
    undated = [each.source.name for each in scanned if GRANULAR not in each.schema.names]
    if undated and len(undated) < len(scanned):
        raise BadInput(f"{undated[0]}: no column {GRANULAR!r}, which other tables have. Run map_date_field on it too")
    order = Order(not undated, pivot, stability, period=period)
    if len(scanned) > 1 and not order.key:
        raise ConfigError("format_tensor_table: several tables without dates need a pivot_column to be joined by")
    return order


def plan_table(scanned: ScannedSource, converters: Mapping[str, Converter], order: Order) -> PlannedTable:
    """The rows of a table that `map_date_field` made, as they are, or those of a table without dates, sorted."""
    source, schema = scanned.source, scanned.schema
    columns = _raw_columns(converters)
    for column in [*columns, *order.key]:
        require_column(schema, column, source.name)
    if not order.is_online:
        return PlannedTable(make_query(scanned, columns, order), converters)
    wanted = tuple(dict.fromkeys([*columns, *order.key]))
    return PlannedTable(Query(source, schema, wanted, order, is_sorted=True), converters)


def find_clock(clock: Clock, scanned: ScannedSource, row_filter: RowFilter = ALL_ROWS) -> Clock:
    """The clock that reads the times of a source: the first rows show a format that the recipe does not name."""
    schema, name = scanned.schema, scanned.source.name
    kind = require_column(schema, clock.field, f"{name}: time_field")
    if clock.format is not None and pa.types.is_temporal(kind):
        raise BadInput(f"{name}: time_field: column {clock.field!r} is {kind}, but time_format is for text")
    with closing(row_filter.read(scanned.source, schema, [clock.field])) as batches:
        first = [batch.column(0) for batch in islice(batches, 1)]
        for times in first:
            clock.refuse_years(times)
        return clock.learn_format(itertools.chain(first, (batch.column(0) for batch in batches)), name)


def make_query(
    scanned: ScannedSource,
    columns: tuple[str, ...],
    order: Order,
    clock: Clock | None = None,
    shuffle_seed: int | None = None,
    rates: tuple[Rate, ...] = (),
) -> Query:
    """A query whose columns exist and can be sorted by."""
    schema, name = scanned.schema, scanned.source.name
    for column in columns:
        if column in ADDED and column in schema.names:
            raise BadInput(f"{name}: the column name {column!r} is reserved for brewing; rename it")
        require_column(schema, column, name)
    for role, sorted_by in (("pivot_column", order.pivot), ("stability_column", order.stability)):
        if sorted_by is not None:
            _require_sortable(schema, sorted_by, f"{name}: {role}")
    for rate in rates:
        for column in rate.by:
            _require_sortable(schema, column, f"{name}: rates")
        kind = require_column(schema, rate.of, f"{name}: rates")
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
            raise BadInput(f"{name}: rates: column {rate.of!r} is {kind}, expected numbers, or true and false")
    return Query(scanned.source, schema, columns, order, clock, shuffle_seed, rates)


def _require_sortable(schema: pa.Schema, column: str, where: str) -> None:
    kind = require_column(schema, column, where)
    if pa.types.is_nested(kind) or pa.types.is_floating(kind) or pa.types.is_null(kind):
        raise BadInput(f"{where}: column {column!r} is {kind}, expected integers, strings or times")
