"""What is to be brewed, decided before the first row is read: converters, order, and streams of sorted rows.
Writes nothing."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from samovar.brew.converters import Converter
from samovar.brew.engines import Engine, find_engine
from samovar.brew.factors import Factors, find_converters, require_column
from samovar.brew.formats import count_rows, read_in_order, scan_schema
from samovar.brew.minibatches import Ingredient, make_schema
from samovar.brew.order import GRANULAR, Order
from samovar.brew.progress import Progress
from samovar.brew.recipe import Recipe, RecipeTable, TextOptions
from samovar.brew.shapes import with_shapes
from samovar.brew.sizes import parse_size
from samovar.brew.sources import Source, find_source
from samovar.brew.time import PathLike, make_query
from samovar.errors import BadInput, ConfigError
from samovar.tables.schema import TableSchema


@dataclass(frozen=True)
class Dish:
    ingredients: Sequence[Ingredient]
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
) -> Dish:
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
        ingredients.append(Ingredient(source, engine.sorted(query), converters))

    def num_rows() -> int | None:
        return None if progress is None else _count(recipe, sources["source"], progress)

    return Dish(ingredients, recipe.order, recipe.batch_size, recipe.compression, num_rows, notes)


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


def open_table(table: TableConfig, order: Order, engine: Engine) -> Ingredient:
    """A table that `map_date_field` made is read as it lies; one without dates is sorted by its pivot."""
    source = table.source
    schema = engine.scan_schema(source)
    columns = tuple(dict.fromkeys(each.column for each in table.converters.values()))
    for column in [*columns, *order.key]:
        require_column(schema, column, source.name)
    if not order.is_online:
        return Ingredient(source, engine.sorted(make_query(source, schema, columns, order)), table.converters)
    wanted = list(dict.fromkeys([*columns, *order.key]))
    return Ingredient(source, read_in_order(source, schema, wanted), table.converters)
