"""What is to be brewed, decided before the first row is read: converters, order, and streams of sorted rows.
Writes nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from samovar.brewing.columns import find_converters, require_column, with_shapes
from samovar.brewing.converters import Converter
from samovar.brewing.engines import Engine, Query, find_engine
from samovar.brewing.formats import count_rows, read_in_order, scan_schema
from samovar.brewing.minibatches import InputTable, make_schema
from samovar.brewing.order import ADDED, GRANULAR, Clock, Order
from samovar.brewing.progress import Progress
from samovar.brewing.recipe import Recipe, RecipeTable, parse_size
from samovar.brewing.sources import PathLike, Source, find_source
from samovar.errors import BadInput, ConfigError
from samovar.tables.schema import TableSchema


@dataclass(frozen=True)
class BrewPlan:
    ingredients: Sequence[InputTable]
    order: Order
    batch_size: int
    compression: str
    num_rows: Callable[[], int | None] = lambda: None
    """How many there will be, where that is known once they are sorted."""
    notes: Sequence[str] = ()
    """What the user should look at in the sources."""

    def __post_init__(self) -> None:
        _ = self.schema  # columns that do not go together are a mistake from the start

    @property
    def schema(self) -> TableSchema:
        return make_schema([each.converters for each in self.ingredients], self.order)


def find_recipe_sources(recipe: Recipe, folder: Path) -> dict[str, Source]:
    """By the key of the recipe that names them; `folder` is where its relative paths begin."""
    return {key: find_source(each.source, folder, each.factors.text_columns) for key, each in _tables(recipe).items()}


def prepare_recipe(
    recipe: Recipe, sources: Mapping[str, Source], engine: Engine | None = None, progress: Progress | None = None
) -> BrewPlan:
    engine = engine or find_engine("duckdb", parse_size(recipe.memory_limit))
    engine.progress = progress
    seed = recipe.shuffle.seed if recipe.shuffle else None
    ingredients = []
    notes: list[str] = []
    for key, table in _tables(recipe).items():
        source, factors = sources[key], table.factors
        schema = engine.scan_schema(source, notes)
        converters = with_shapes(find_converters(schema, factors, source.name), source, schema)
        query = make_query(source, schema, tuple(factors.columns), recipe.order, recipe.clock, seed)
        ingredients.append(InputTable(source, engine.sorted(query), converters))

    def num_rows() -> int | None:
        return None if progress is None else _count(recipe, sources["source"], progress)

    return BrewPlan(ingredients, recipe.order, recipe.batch_size, recipe.compression, num_rows, notes)


def _count(recipe: Recipe, source: Source, progress: Progress) -> int | None:
    """Joined tables have the same rows. How many lie between two dates is not known, nor how many rows a text has until
    all of them went into a sort."""
    if recipe.hours != (None, None):
        return None
    is_counted = recipe.order.key and not recipe.tables and all(file.format != "parquet" for file in source.files)
    return progress.num_sorted_rows if is_counted else count_rows(source)


def _tables(recipe: Recipe) -> dict[str, RecipeTable]:
    joined = {f"tables[{number}].source": table for number, table in enumerate(recipe.tables)}
    return {"source": recipe, **joined}


@dataclass(frozen=True)
class TableConfig:
    """One of the tables that `format_tensor_table` joins."""

    table: PathLike | Sequence[PathLike]
    converters: Mapping[str, Converter]

    @property
    def source(self) -> Source:
        texts = [each.column for each in self.converters.values() if each.is_of_texts]
        return find_source(self.table, text_columns=texts)


def find_order(tables: Sequence[TableConfig], pivot: str | None, stability: str | None) -> Order:
    """Tables that have dates are online ones, and all of them or none."""
    sources = [table.source for table in tables]
    is_dated = [GRANULAR in scan_schema(source).names for source in sources]
    if any(is_dated) and not all(is_dated):
        bare = sources[is_dated.index(False)]
        raise BadInput(f"{bare.name}: has no column {GRANULAR}, other tables have it: run map_date_field on it too")
    order = Order(all(is_dated), pivot, stability)
    if len(tables) > 1 and not order.key:
        raise ConfigError("format_tensor_table: several tables without dates are joined by pivot_column: give it")
    return order


def open_table(table: TableConfig, order: Order, engine: Engine) -> InputTable:
    """A table that `map_date_field` made is read as it lies; one without dates is sorted by its pivot."""
    source = table.source
    schema = engine.scan_schema(source)
    columns = tuple(dict.fromkeys(each.column for each in table.converters.values()))
    for column in [*columns, *order.key]:
        require_column(schema, column, source.name)
    if not order.is_online:
        return InputTable(source, engine.sorted(make_query(source, schema, columns, order)), table.converters)
    wanted = list(dict.fromkeys([*columns, *order.key]))
    return InputTable(source, read_in_order(source, schema, wanted), table.converters)


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


def _require_sortable(schema: pa.Schema, column: str, where: str) -> None:
    kind = require_column(schema, column, where)
    if pa.types.is_nested(kind) or pa.types.is_floating(kind) or pa.types.is_null(kind):
        raise BadInput(f"{where}: column {column!r} is {kind}, expected integers, texts or times: choose another one")
