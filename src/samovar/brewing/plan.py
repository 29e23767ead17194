"""What is to be brewed, decided before the first row is sorted: converters, order and a stream of rows per table.
Writes nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from samovar.brewing.clock import Clock
from samovar.brewing.columns import find_converters, require_column, with_shapes
from samovar.brewing.converters import Converter
from samovar.brewing.engines import Engine, Query, find_engine
from samovar.brewing.minibatches import InputTable
from samovar.brewing.order import ADDED, GRANULAR, Order
from samovar.brewing.progress import Progress
from samovar.brewing.recipe import Recipe, RecipeTable
from samovar.brewing.sources import PathLike, ScannedSource, Source, find_source, read_in_order
from samovar.errors import BadInput, ConfigError
from samovar.tables.schema import TableSchema


@dataclass(frozen=True)
class BrewPlan:
    tables: Sequence[InputTable]
    order: Order
    batch_size: int
    compression: str
    num_rows: int | None = None
    """None if it is not known."""

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
        columns = tuple(each.schema for table in self.tables for each in table.converters.values())
        return TableSchema(columns, self.order.key)


def find_recipe_sources(recipe: Recipe, folder: Path) -> dict[str, Source]:
    """The sources by the recipe key that names them; relative paths start at `folder`."""
    return {key: find_source(each.source, folder, each.factors.text_columns) for key, each in _tables(recipe).items()}


def plan_recipe(
    recipe: Recipe, scanned: Mapping[str, ScannedSource], engine: Engine | None = None, progress: Progress | None = None
) -> BrewPlan:
    """`scanned` has the sources of `find_recipe_sources`. The engine is DuckDB unless given."""
    engine = engine or find_engine("duckdb", recipe.memory_limit, progress)
    seed = recipe.shuffle.seed if recipe.shuffle else None
    tables = []
    for key, table in _tables(recipe).items():
        found, factors = scanned[key], table.factors
        converters = with_shapes(find_converters(found.schema, factors, found.source.name), found)
        query = make_query(found, tuple(factors.columns), recipe.order, recipe.clock, seed)
        tables.append(InputTable(found.source, engine.sorted(query), converters))
    # Joined tables have the same rows. How many of them are between two dates is not known.
    num_rows = scanned["source"].num_rows if recipe.hours == (None, None) else None
    return BrewPlan(tables, recipe.order, recipe.batch_size, recipe.compression, num_rows)


def _tables(recipe: Recipe) -> dict[str, RecipeTable]:
    joined = {f"tables[{number}].source": table for number, table in enumerate(recipe.tables)}
    return {"source": recipe, **joined}


@dataclass(frozen=True)
class TableConfig:
    """One of the tables that `format_tensor_table` joins.

    Args:
        table: Paths or globs of raw files, usually the file that `map_date_field` made.
        converters: What its columns become, from `infer_converters`.

    Example:
        >>> TableConfig("clicks.parquet", infer_converters(table="clicks.parquet", keys=["hit"]))
    """

    table: PathLike | Sequence[PathLike]
    converters: Mapping[str, Converter]

    @property
    def source(self) -> Source:
        texts = [each.column for each in self.converters.values() if each.reads_texts]
        return find_source(self.table, text_columns=texts)


def find_order(scanned: Sequence[ScannedSource], pivot: str | None, stability: str | None) -> Order:
    """The order of tables as they are: online if they have dates, which all of them have or none."""
    undated = [each.source.name for each in scanned if GRANULAR not in each.schema.names]
    if undated and len(undated) < len(scanned):
        raise BadInput(f"{undated[0]}: no column {GRANULAR!r}, which other tables have. Run map_date_field on it too")
    order = Order(not undated, pivot, stability)
    if len(scanned) > 1 and not order.key:
        raise ConfigError("format_tensor_table: several tables without dates need a pivot_column to be joined by")
    return order


def open_table(scanned: ScannedSource, converters: Mapping[str, Converter], order: Order, engine: Engine) -> InputTable:
    """The rows of a table that `map_date_field` made, as they are, or those of a table without dates, sorted."""
    source, schema = scanned.source, scanned.schema
    columns = tuple(dict.fromkeys(each.column for each in converters.values()))
    for column in [*columns, *order.key]:
        require_column(schema, column, source.name)
    if not order.is_online:
        return InputTable(source, engine.sorted(make_query(scanned, columns, order)), converters)
    wanted = list(dict.fromkeys([*columns, *order.key]))
    return InputTable(source, read_in_order(source, schema, wanted), converters)


def make_query(
    scanned: ScannedSource,
    columns: tuple[str, ...],
    order: Order,
    clock: Clock | None = None,
    shuffle_seed: int | None = None,
) -> Query:
    """A query whose columns exist and can be sorted by."""
    schema, name = scanned.schema, scanned.source.name
    for column in columns:
        if column in ADDED and column in schema.names:
            raise BadInput(f"{name}: column {column!r} has a name that brewing needs for itself; rename it")
        require_column(schema, column, name)
    if clock is not None:
        require_column(schema, clock.field, f"{name}: time_field")
    for role, sorted_by in (("pivot_column", order.pivot), ("stability_column", order.stability)):
        if sorted_by is not None:
            _require_sortable(schema, sorted_by, f"{name}: {role}")
    return Query(scanned.source, schema, columns, order, clock, shuffle_seed)


def _require_sortable(schema: pa.Schema, column: str, where: str) -> None:
    kind = require_column(schema, column, where)
    if pa.types.is_nested(kind) or pa.types.is_floating(kind) or pa.types.is_null(kind):
        raise BadInput(f"{where}: column {column!r} is {kind}, expected integers, texts or times")
