"""Brewing from Python and from the command line: what the user gives, paths or rows in memory, keys or a recipe file,
becomes a request. stage.py makes the table."""

import json
import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from samovar.brewing.columns import make_converter
from samovar.brewing.converters import Converter, KeyConverter
from samovar.brewing.display import show_progress
from samovar.brewing.formats import find_format
from samovar.brewing.frames import Frame, copy_rows, find_frame
from samovar.brewing.plan import (
    BrewPlan,
    expand_patterns,
    find_recipe_sources,
    plan_recipe,
    recipe_tables,
    wanted_columns,
)
from samovar.brewing.progress import Progress
from samovar.brewing.recipe import Recipe
from samovar.brewing.sources import PathLike, ScannedSource, Source, SourceFile
from samovar.brewing.stage import BrewRequest, BrewResult, append_hours, brew_whole, known_columns
from samovar.config import dump_config, flatten, merge, read_config, resolve_path
from samovar.config.identity import PLACE_KEYS, named_place
from samovar.config.places import Place, as_path, as_place
from samovar.errors import ConfigError
from samovar.results import ResultDirectory
from samovar.results import Source as LineageSource
from samovar.results.lineage import is_in_memory
from samovar.store import open_store
from samovar.tables import Table, open_table
from samovar.tables.schema import ColumnSchema, parse_type

_log = logging.getLogger(__name__)


def brew(
    source: Any,
    result: PathLike,
    *,
    time: str | None = None,
    columns: Mapping[str, Any] | None = None,
    append: bool = False,
    allow_gap: bool = False,
    progress: bool = True,
    **recipe_keys: Any,
) -> Table:
    """Turn raw rows into a tensor table of ready minibatches.

    Calling it again with the same rows and keys finds the table finished and opens it.

    Args:
        source: Paths or globs of Parquet, CSV, JSON lines or Arrow files, or rows in memory: a pandas DataFrame, a
            polars DataFrame or LazyFrame, a pyarrow Table, RecordBatch or RecordBatchReader, or a DuckDB relation. Rows
            in memory are first copied to the system's temporary folder.
        result: The directory of the table.
        time: Column with the time of each row, the recipe's `time_field`. The table is then sorted by time and cut by
            the hour.
        columns: What each column becomes: `"id"` (integers; lists are bags), `"id_sequence"` (lists whose order
            counts), `"hash"` (strings as ids), `"text"` or `{"text": {"words": 2}}`, `"number"`, `"key"` (kept as it
            is), `"time"` or `"ignore"`. Several roles are a list: `["id", "key"]`. A name such as `"feat_*"` stands for
            all columns that it matches. Columns that are not named are ignored, with a note.
        append: Add whole hours to a live table, which this makes if it does not exist.
        allow_gap: Append hours even if some before them are missing: they will not come any more.
        progress: Whether to show progress: a bar on a terminal or in a notebook, else an occasional log line.
        **recipe_keys: Any other key of a recipe, such as `where`, `missing`, `time_format`, `batch_size` or `shuffle`.

    Returns:
        The table, opened.

    Raises:
        ConfigError: A key is unknown, or a value is wrong.
        UnknownColumn: The source does not have a column.
        BadInput: The source cannot be read, or a column does not have the type that its role needs.
        Conflict: The directory belongs to another table.

    Example:
        >>> import pandas as pd, samovar
        >>> clicks = pd.DataFrame({"user": [7, 8, 7], "ad": ["tea", "tea", "cups"], "clicked": [0, 1, 0]})
        >>> roles = {"user": "id", "ad": "hash", "clicked": "number"}
        >>> samovar.brew(clicks, "clicks_table", columns=roles, batch_size=2).num_minibatches
        2
    """
    if time is not None and "time_field" in recipe_keys:
        raise ConfigError("samovar.brew: time and time_field are the same key; give one of the two")
    named = {"source": source, "time_field": time, "columns": columns}
    keys = {**{key: value for key, value in named.items() if value is not None}, **recipe_keys}
    place = resolve_path(str(as_place(result, "result")), Path())
    return open_table(_brew(load_recipe(keys, "samovar.brew", Path()), place, append, allow_gap, progress).directory)


def brew_recipe(
    recipe: PathLike | Mapping[str, Any],
    result: PathLike | None = None,
    *,
    overrides: Sequence[Mapping[str, Any]] = (),
    append: bool = False,
    allow_gap: bool = False,
    progress: bool = True,
    engine: str | None = None,
    master: str | None = None,
) -> BrewResult:
    """Brew a whole recipe, as `samovar brew` does.

    Args:
        recipe: A JSON file, whose relative paths start at its folder, or the recipe itself, whose relative paths start
            at the current folder and whose sources may be rows in memory.
        result: The directory of the table. Default: what the recipe names, else the file's name without its suffix.
        overrides: Keys to change, like `--conf`; a dotted key is a path.
        append: Add whole hours to a live table.
        allow_gap: Append hours even if some before them are missing.
        progress: Whether to show progress.
        engine: "duckdb" or "spark", instead of what the recipe says. The table is the same.
        master: Address of the Spark cluster. Default: what the recipe says.

    Returns:
        The directory, the version, the counts and the notes of the brew.

    Raises:
        ConfigError: A key is unknown, or a value is wrong.
        UnknownColumn: The source does not have a column.
        BadInput: The source cannot be read, or a column does not have the type that its role needs.
        Conflict: The directory belongs to another table.

    Example:
        >>> import pyarrow as pa
        >>> recipe = {"source": pa.table({"user": [7, 8, 7]}), "columns": {"user": "id"}, "batch_size": 2}
        >>> done = brew_recipe(recipe, "users_table")
        >>> done.version, done.counts.num_rows, done.counts.num_batches
        (1, 3, 2)
    """
    if isinstance(recipe, Mapping):
        loaded = load_recipe(_with_engine(recipe, engine, master), "recipe", Path(), overrides)
        if result is None and loaded.recipe.result is None:
            raise ConfigError("recipe: result is missing; name the directory of the table")
        named = loaded.recipe.result if result is None else as_place(result, "result")
        place = resolve_path(str(named), Path())
    else:
        path = as_path(recipe, "recipe")
        given = _with_engine(read_config(path), engine, master)
        loaded = load_recipe(given, str(path), path.parent, overrides)
        place = (
            as_place(result, "result") if result is not None else named_place(path, loaded.config, PLACE_KEYS["brew"])
        )
    return _brew(loaded, place, append, allow_gap, progress)


def _with_engine(given: Mapping[str, Any], engine: str | None, master: str | None) -> Mapping[str, Any]:
    """The recipe with another engine. What it says itself about Spark stays."""
    if master is not None and engine != "spark":
        raise ConfigError("master is the address of a Spark cluster; choose the engine spark too")
    if engine != "spark":
        return given if engine is None else {**given, "engine": engine}
    named = given.get("engine")
    options = named.get("spark", {}) if isinstance(named, Mapping) else {}
    return {**given, "engine": {"spark": {**options, **({} if master is None else {"master": master})}}}


def _brew(loaded: "LoadedRecipe", result: Place, append: bool, allow_gap: bool, is_shown: bool) -> BrewResult:
    progress = Progress()
    with show_progress(progress) if is_shown else nullcontext():
        done = make_table(loaded, result, append=append, allow_gap=allow_gap, progress=progress)
    for note in done.notes:
        _log.warning(note)
    return done


# What the user gives


@dataclass(frozen=True)
class LoadedRecipe:
    """A recipe whose keys were checked."""

    recipe: Recipe
    config: Mapping[str, Any]
    """As it was given, with words in place of rows in memory."""
    folder: Path
    """Where its relative paths start."""
    frames: Mapping[str, Frame]
    """Rows in memory by the key that names them."""


def load_recipe(
    given: Mapping[str, Any], where: str, folder: Path, overrides: Sequence[Mapping[str, Any]] = ()
) -> LoadedRecipe:
    """Check a recipe. `where` is its name in errors. Only a recipe in Python can have paths that are no strings, and
    rows in memory."""
    config, frames = _take_frames(given)
    merged = merge(config, *overrides) if overrides else config
    config = json.loads(dump_config(merged))  # as the directory keeps it: a tuple becomes a list
    recipe = Recipe.load(config, where)
    kept = {key: each for key, each in frames.items() if is_in_memory(flatten(config).get(key))}
    return LoadedRecipe(recipe, config, folder, kept)


def _take_frames(given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Frame]]:
    """The recipe with words in place of rows in memory and strings in place of paths, and the rows by key."""
    frames: dict[str, Frame] = {}

    def take(table: Mapping[str, Any], key: str) -> dict[str, Any]:
        source = table.get("source")
        frame = find_frame(source)
        if frame is not None:
            frames[key] = frame
            return {**table, "source": frame.name}
        if isinstance(source, list | tuple):
            return {**table, "source": [_as_text(path) for path in source]}
        return {**table, "source": _as_text(source)} if source is not None else dict(table)

    config, tables = take(given, "source"), given.get("tables")
    if isinstance(tables, list | tuple) and all(isinstance(table, Mapping) for table in tables):
        config["tables"] = [take(table, f"tables[{number}].source") for number, table in enumerate(tables)]
    return config, frames


def _as_text(path: Any) -> Any:
    return os.fspath(path) if hasattr(path, "__fspath__") else path


def _copy_frame(
    loaded: LoadedRecipe, key: str, folder: Path | None, known_types: Mapping[str, str], progress: Progress
) -> Source:
    """Rows in memory as a source: a copy in `folder`, or, if that is None, only its fingerprint."""
    frame = loaded.frames[key]
    recipe = expand_patterns(loaded.recipe, {key: frame.names}, {key: frame.name})
    table = recipe_tables(recipe)[key]
    wanted = wanted_columns(recipe, table)
    path = folder / f"{key}.arrow" if folder is not None else None
    progress.begin("copying rows")
    found = copy_rows(frame, wanted, path, known_types=known_types, on_rows=progress.advance)
    file = SourceFile(path or Path(), find_format(Path("rows.arrow")), frame.name, found)
    others = tuple(name for name in frame.names if name not in wanted)
    return Source(frame.name, (file,), table.factors.text_columns, others, tuple(frame.notes), frame.hint_for_floats)


def _with_absolute_paths(config: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The recipe, so that it can be brewed again from anywhere."""

    def absolute(path: str) -> str:
        return path if is_in_memory(path) else str(resolve_path(path, folder, symlinks="keep"))

    listed = config["source"]
    whole = {**config, "source": absolute(listed) if isinstance(listed, str) else [absolute(each) for each in listed]}
    if config.get("statistics"):
        whole["statistics"] = absolute(config["statistics"])
    if config.get("tables"):
        whole["tables"] = [_with_absolute_paths(table, folder) for table in config["tables"]]
    return whole


# The request


def _parts(column: ColumnSchema) -> Sequence[Converter]:
    """The raw columns that a column of a table is made from."""
    converter = make_converter(column)
    return [KeyConverter(column.name, parse_type(column.source_type))] if converter is None else converter.parts


def _learned(loaded: LoadedRecipe) -> tuple[Sequence[ColumnSchema], Sequence[LineageSource]]:
    """The columns of the table that `statistics` names, and the link to it."""
    if loaded.recipe.statistics is None:
        return (), ()
    path = resolve_path(loaded.recipe.statistics, loaded.folder)
    return open_table(path).schema.columns, (ResultDirectory(open_store(path)).as_source("statistics"),)


def make_table(
    loaded: LoadedRecipe,
    result: Place,
    *,
    append: bool = False,
    allow_gap: bool = False,
    progress: Progress | None = None,
) -> BrewResult:
    """Brew a recipe into the directory `result`."""
    if allow_gap and not append:
        raise ConfigError("allow_gap is only for append")
    progress = progress or Progress()
    recipe = loaded.recipe
    if append and not recipe.order.is_online:
        raise ConfigError("append needs a recipe with time_field: a table without hours cannot grow")
    store = open_store(result)
    columns = known_columns(store) if append else ()
    known = {part.column: str(part.source_type) for column in columns for part in _parts(column)}
    learned, links = _learned(loaded)
    with (
        recipe.find_engine(progress) as engine,
        TemporaryDirectory(prefix="samovar-brew-") if loaded.frames else nullcontext("") as folder,
    ):
        copies = {} if ResultDirectory(store).is_finished else {key: Path(folder) for key in loaded.frames}
        given = {key: _copy_frame(loaded, key, copies.get(key), known, progress) for key in loaded.frames}
        sources = find_recipe_sources(recipe, loaded.folder, given)
        sources = {key: replace(source, known_types=known) for key, source in sources.items()}
        config = {key: value for key, value in loaded.config.items() if key not in ("result", "engine")}

        def plan(scanned: Mapping[str, ScannedSource]) -> BrewPlan:
            return plan_recipe(recipe, scanned, engine, known=[*columns, *learned], is_live=append)

        request = BrewRequest(result, _with_absolute_paths(config, loaded.folder), sources, plan, engine, links)
        return append_hours(request, recipe.hours, allow_gap=allow_gap) if append else brew_whole(request)
