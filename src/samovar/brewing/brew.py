"""Brewing as a stage: recipe → result directory. The only module of brewing that touches results and writes tables.

manifest/000001.json    makes the table count; it comes after all files of its segment
segments/000001/…       the rows
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from samovar.brewing.formats import has_no_lines
from samovar.brewing.minibatches import Tally, make_minibatches
from samovar.brewing.plan import BrewPlan, find_recipe_sources, prepare_recipe
from samovar.brewing.progress import Progress
from samovar.brewing.recipe import Recipe
from samovar.brewing.sources import Source, fingerprint, no_rows
from samovar.config import flatten, resolve_path
from samovar.errors import BadInput, ConfigError, Conflict, SamovarError
from samovar.hours import HOUR_SECONDS, show_hour
from samovar.results import OpenResult, ResultDirectory, ResultPlan, begin
from samovar.results import Source as LineageSource
from samovar.results.directory import CONFIG, ENVIRONMENT, LINEAGE, STATUS
from samovar.store import LocalStore, Store, take_lease
from samovar.tables.cell import Compression
from samovar.tables.manifest import (
    MANIFESTS,
    Manifest,
    Segment,
    commit_manifest,
    list_versions,
    read_manifests,
    table_inventory,
)
from samovar.tables.schema import Minibatch, TableSchema
from samovar.tables.writer import SEGMENTS, write_segment

TABLE_KIND = "table"
_ALIKE = {"real": re.compile("double|u?int64"), "categorical": re.compile("u?int64")}
"""Types of numbers that make no other column, by its kind."""
_NOTHING = re.compile("(?!)")
_NOT_OF_A_LIVE_TABLE = ("source", "start_date", "end_date")  # each append has its own


@dataclass(frozen=True)
class BrewResult:
    """What came of it."""

    directory: Path
    version: int
    tally: Tally | None
    """None: the table was there already."""
    notes: Sequence[str]


@dataclass(frozen=True)
class Job:
    """Where a table is to be, and from what; `prepare` looks at the sources and finds mistakes."""

    directory: Path
    config: Mapping[str, Any]
    sources: Mapping[str, Source]
    """By the config key that names them."""
    prepare: Callable[[], BrewPlan]
    progress: Progress

    def fingerprints(self) -> dict[str, list[dict[str, str | int]]]:
        """Names, sizes and hashes of all files: the same wherever the files lie."""
        paths = {key: [file.path for file in source.files] for key, source in self.sources.items()}
        size = sum(path.stat().st_size for some in paths.values() for path in some)
        self.progress.begin("fingerprinting sources", size, "bytes")
        return {key: [fingerprint(path, self.progress.advance) for path in some] for key, some in paths.items()}


@dataclass(frozen=True)
class _Version:
    """One version of a table, before its rows are written."""

    before: Sequence[Manifest]
    table_id: str
    fingerprints: Any
    is_live: bool = False
    stop: int | None = None
    """The hour before which a live table will be complete; None: the end of its last hour with rows."""

    @property
    def number(self) -> int:
        return len(self.before) + 1

    @property
    def first_row(self) -> int:
        last = self.before[-1].segment if self.before else None
        return last.first_row + last.num_rows if last else 0

    @property
    def starts_at(self) -> int | None:
        """The hour before which a live table is complete already."""
        return self.before[-1].complete_until if self.before else None

    @property
    def can_be_empty(self) -> bool:
        """Whether hours without rows are something to tell: until when the table is complete."""
        return bool(self.before) and self.stop is not None

    def manifest(self, schema: TableSchema, compression: str, segment: Segment) -> Manifest:
        complete_until = self.stop
        if self.is_live and self.stop is None:
            last = segment.hours[-1].hour
            assert last is not None
            complete_until = last + HOUR_SECONDS
        brewed_from = {"sources": self.fingerprints}
        return Manifest(self.number, self.table_id, schema, compression, segment, complete_until, brewed_from)

    def without_rows(self, where: str) -> Manifest:
        assert self.stop is not None
        if self.starts_at is not None and self.stop <= self.starts_at:
            raise BadInput(
                f"{where}: is complete until {show_hour(self.starts_at)} already, and found no rows; expected rows, or "
                "a later end_date: there is nothing to append"
            )
        last = self.before[-1]
        return self.manifest(last.schema, last.compression, Segment(self.number, self.first_row, 0, 0, (), (), {}))


def brew(
    recipe: Recipe,
    config: Mapping[str, Any],
    folder: Path,
    result: Path,
    *,
    append: bool = False,
    progress: Progress | None = None,
) -> BrewResult:
    """`config` is the recipe as it was given; its relative paths begin at `folder`."""
    progress = progress or Progress()
    sources = find_recipe_sources(recipe, folder)
    if append:
        known = _known_types(LocalStore(result))
        sources = {key: replace(source, known_types=known) for key, source in sources.items()}
    kept = _with_paths({key: value for key, value in config.items() if key != "result"}, folder)
    job = Job(result, kept, sources, lambda: prepare_recipe(recipe, sources, progress=progress), progress)
    if not append:
        return brew_whole(job)
    if not recipe.order.is_online:
        raise ConfigError("--append: the recipe has no time_field; only a table of hours can grow: brew it anew")
    return _brew_more(job, recipe.hours[1])


def find_raw_ids(config: Mapping[str, Any]) -> dict[str, str]:
    """What the raw files of a table's own recipe are now, by the key that names them: as lineage records them."""
    sources = find_recipe_sources(Recipe.load(config, "recipe"), Path())
    return {key: _digest([fingerprint(file.path) for file in source.files]) for key, source in sources.items()}


def brew_whole(job: Job) -> BrewResult:
    directory = ResultDirectory(LocalStore(job.directory))
    fingerprints = job.fingerprints()
    plan = ResultPlan(TABLE_KIND, job.config, sources=_lineage(job, fingerprints))
    job.progress.begin("learning types")
    dish = None if directory.is_finished else job.prepare()  # a mistake is told before there is a directory
    with _begun(directory, plan) as result:
        if dish is None or result.is_finished:
            return BrewResult(job.directory, list_versions(directory.store)[-1], None, result.notes)
        result.restore()
        tally = Tally()
        if not list_versions(directory.store):  # a kill may have come between the manifest and the finish
            _write(result, dish, _Version([], directory.id, fingerprints), tally, job.progress)
        result.finish(None, {"version": 1}, table_inventory(directory.store))
        return BrewResult(job.directory, 1, tally, [*result.notes, *_notes(dish, tally)])


def _known_types(store: Store) -> dict[str, str]:
    """Of the columns of a table that is there already."""
    versions = list_versions(store)
    columns = read_manifests(store)[-1].schema.columns if versions else ()
    return {column.name: column.source_type for column in columns}


def _brew_more(job: Job, stop: int | None) -> BrewResult:
    """A live table: each call adds a version of whole hours, and none finishes it."""
    directory = ResultDirectory(LocalStore(job.directory))
    config = {key: value for key, value in job.config.items() if key not in _NOT_OF_A_LIVE_TABLE}
    fingerprints = job.fingerprints()
    job.progress.begin("learning types")
    is_empty = stop is not None and all(map(has_no_lines, job.sources.values())) and list_versions(directory.store)
    dish = None if is_empty else job.prepare()
    with _begun(directory, ResultPlan(TABLE_KIND, {"live": True, **config})) as result:
        result.restore()
        before = read_manifests(directory.store) if list_versions(directory.store) else []
        table_id = before[0].table_id if before else _digest([directory.id, fingerprints])
        version, tally = _Version(before, table_id, fingerprints, True, stop), Tally()
        if dish is None:
            commit_manifest(directory.store, result.commit, version.without_rows(directory.name))
        else:
            _write(result, dish, version, tally, job.progress)
        return BrewResult(job.directory, version.number, tally, [*result.notes, *_notes(dish, tally)])


@contextmanager
def _begun(directory: ResultDirectory, plan: ResultPlan) -> Iterator[OpenResult]:
    """The directory, to work in. A failure before the table's first version leaves it empty, so that a mended recipe
    or source does not meet another one's directory."""
    result = begin(directory, plan)
    try:
        with result:
            yield result
    except Exception:  # one that was interrupted is stopped, and goes on
        with suppress(SamovarError):  # the failure itself is told; who took the directory over keeps it
            _empty(directory)
        raise


def _empty(directory: ResultDirectory) -> None:
    """Remove what a brewing made and nothing else. The store's own folder stays: its epoch shuts late writers out."""
    with take_lease(directory.store):
        if list_versions(directory.store) or directory.is_finished:
            return
        for name in (CONFIG, LINEAGE, ENVIRONMENT, STATUS):
            directory.store.remove(name)
        for name in (SEGMENTS, MANIFESTS):
            directory.store.remove_tree(name)


def _write(result: OpenResult, dish: BrewPlan, version: _Version, tally: Tally, progress: Progress) -> None:
    """One segment, and the manifest that makes it count."""
    store, schema = result.directory.store, dish.schema
    store.remove_tree(f"{SEGMENTS}/{version.number:06d}")  # what a killed brewing left
    with closing(make_minibatches(dish.ingredients, dish.order, dish.batch_size, tally)) as rows:
        segment = write_segment(
            store,
            schema,
            _watched(_fitting(rows, version, schema, store.name), tally, dish, progress),
            number=version.number,
            first_row=version.first_row,
            compression=Compression.parse(dish.compression),
        )
    if segment.num_rows > 0:
        manifest = version.manifest(schema, dish.compression, segment)
    elif version.can_be_empty:
        manifest = version.without_rows(store.name)
    else:
        raise no_rows([each.source for each in dish.ingredients])
    commit_manifest(store, result.commit, manifest)


def _fitting(rows: Iterator[Minibatch], version: _Version, schema: TableSchema, where: str) -> Iterator[Minibatch]:
    """The same rows; an error at the first that the table's earlier versions do not allow."""
    for row in rows:
        if version.before and (problem := _differs(version.before[-1].schema, schema)):
            raise Conflict(
                f"{where}: {problem}; expected the columns that it has: mend the source, or brew a new table"
            )
        if version.starts_at is not None and row.hour is not None and row.hour < version.starts_at:
            raise BadInput(
                f"{where}: is complete until {show_hour(version.starts_at)}, and found a row of the hour "
                f"{show_hour(row.hour)}; expected later rows only: give start_date, or leave the old files out"
            )
        yield row


def _differs(old: TableSchema, new: TableSchema) -> str | None:
    """In what the columns of a new version are others. Real ones are kept as floats, and ids as 64 bits, whatever
    numbers they were."""
    before, after = ({column.name: column for column in schema.columns} for schema in (old, new))
    for name in [*before, *(name for name in after if name not in before)]:
        if name not in after or name not in before:
            return f"column {name!r} is only in {'the table' if name in before else 'what this recipe makes'}"
        left, right = before[name], after[name]
        alike = _ALIKE.get(left.kind, _NOTHING)
        types = [alike.sub("number", column.source_type) for column in (left, right)]
        if (left.kind, left.rank, types[0]) != (right.kind, right.rank, types[1]):
            return f"column {name!r} is {left.source_type} in the table and {right.source_type} in the source"
    if (old.names, old.sort_key) != (new.names, new.sort_key):
        return "this recipe gives its columns or its rows another order"
    return None


def _watched(rows: Iterator[Minibatch], tally: Tally, dish: BrewPlan, progress: Progress) -> Iterator[Minibatch]:
    """The first minibatch comes when all is sorted."""
    for index, row in enumerate(rows):
        if index == 0:
            progress.begin("writing", dish.num_rows())
        progress.reach(tally.num_rows)
        yield row


def _notes(dish: BrewPlan | None, tally: Tally) -> list[str]:
    zeroed = ", ".join(f"{name} {count}" for name, count in sorted(tally.num_zeroed.items()))
    notes = [] if dish is None else list(dish.notes)
    return [*notes, f"nulls that became 0: {zeroed}"] if zeroed else notes


def _lineage(job: Job, fingerprints: Mapping[str, Any]) -> list[LineageSource]:
    named = flatten(job.config)
    paths = {key: named[key] if isinstance(named[key], str) else ", ".join(named[key]) for key in job.sources}
    return [LineageSource(key, path, _digest(fingerprints[key]), is_raw=True) for key, path in paths.items()]


def _with_paths(config: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The recipe with whole paths, so that it can be brewed again from anywhere."""
    listed = config["source"]
    patterns = [listed] if isinstance(listed, str) else listed
    paths = [str(resolve_path(each, folder, symlinks="keep")) for each in patterns]
    whole = {**config, "source": paths[0] if isinstance(listed, str) else paths}
    if config.get("tables"):
        whole["tables"] = [_with_paths(table, folder) for table in config["tables"]]
    return whole


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:32]
