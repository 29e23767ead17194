"""Brewing as a stage: recipe → result directory. The only module of brewing that touches results and writes tables.

manifest/000001.json    makes the table count; written after all files of its segment
segments/000001/…       the rows
"""

import hashlib
import json
import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from samovar.brewing.minibatches import make_minibatches
from samovar.brewing.plan import BrewPlan, find_recipe_sources, plan_recipe
from samovar.brewing.progress import BrewCounts, Progress
from samovar.brewing.recipe import Recipe
from samovar.brewing.sources import Fingerprint, ScannedSource, Source, fingerprint, no_rows, scan
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
_SAME_NUMBERS = {"real": re.compile("double|u?int64"), "categorical": re.compile("u?int64")}
"""Source types that give the same column, by its kind: real values are stored as floats, and ids as 64 bits."""
_NO_TYPE = re.compile("(?!)")
_KEYS_PER_APPEND = ("source", "start_date", "end_date")


@dataclass(frozen=True)
class BrewResult:
    """What a brew made.

    Attributes:
        directory: The tensor table.
        version: The version of the table that it made or found.
        counts: What it counted; None if the table was finished already.
        notes: What the user should look at.
    """

    directory: Path
    version: int
    counts: BrewCounts | None
    notes: Sequence[str]


@dataclass(frozen=True)
class BrewRequest:
    """What is to be brewed, and where the table is to be."""

    directory: Path
    config: Mapping[str, Any]
    sources: Mapping[str, Source]
    """By the config key that names them."""
    plan: Callable[[Mapping[str, ScannedSource]], BrewPlan]
    """Makes the plan from the scanned sources. Finds mistakes."""
    progress: Progress


def brew(
    recipe: Recipe,
    config: Mapping[str, Any],
    folder: Path,
    result: Path,
    *,
    append: bool = False,
    progress: Progress | None = None,
) -> BrewResult:
    """Brew a recipe into the directory `result`. `config` is the recipe as it was given; its relative paths start at
    `folder`."""
    progress = progress or Progress()
    sources = find_recipe_sources(recipe, folder)
    if append:
        known = _known_types(LocalStore(result))
        sources = {key: replace(source, known_types=known) for key, source in sources.items()}
    kept = _with_absolute_paths({key: value for key, value in config.items() if key != "result"}, folder)

    def plan(scanned: Mapping[str, ScannedSource]) -> BrewPlan:
        return plan_recipe(recipe, scanned, progress=progress)

    request = BrewRequest(result, kept, sources, plan, progress)
    if not append:
        return brew_whole(request)
    if not recipe.order.is_online:
        raise ConfigError("--append needs a recipe with time_field: a table without hours cannot grow")
    return _append(request, recipe.hours[1])


def find_raw_ids(config: Mapping[str, Any]) -> dict[str, str]:
    """The ids that the raw files of a table's recipe have now, as lineage records them, by the key that names them."""
    sources = find_recipe_sources(Recipe.load(config, "recipe"), Path())
    return {key: _digest([fingerprint(file.path) for file in source.files]) for key, source in sources.items()}


def brew_whole(request: BrewRequest) -> BrewResult:
    """Make a table in one go, or find it finished."""
    directory = ResultDirectory(LocalStore(request.directory))
    plan: BrewPlan | None = None
    notes: list[str] = []
    if directory.is_finished:  # only the fingerprints matter
        fingerprints = _fingerprint_all(request)
    else:
        scanned = _scan_all(request)
        fingerprints = {key: each.fingerprints for key, each in scanned.items()}
        notes = [note for each in scanned.values() for note in each.notes]
        plan = request.plan(scanned)  # a mistake is found before there is a directory
    lineage = _lineage(request, fingerprints)
    with _open_directory(directory, ResultPlan(TABLE_KIND, request.config, sources=lineage)) as result:
        if plan is None or result.is_finished:
            return BrewResult(request.directory, list_versions(directory.store)[-1], None, result.notes)
        result.restore()
        counts = BrewCounts()
        if not list_versions(directory.store):  # a kill may have come between the manifest and the finish
            _write_version(result, plan, _NextVersion([], directory.id, fingerprints), counts, request.progress)
        result.finish(None, {"version": 1}, table_inventory(directory.store))
        return BrewResult(request.directory, 1, counts, [*result.notes, *notes, *_zeroed(counts)])


def _append(request: BrewRequest, stop: int | None) -> BrewResult:
    """Add a version of whole hours to a live table, which is never finished."""
    directory = ResultDirectory(LocalStore(request.directory))
    config = {key: value for key, value in request.config.items() if key not in _KEYS_PER_APPEND}
    scanned = _scan_all(request)
    fingerprints = {key: each.fingerprints for key, each in scanned.items()}
    has_lines = any(each.known_schema is not None for each in scanned.values())
    is_quiet = stop is not None and not has_lines and bool(list_versions(directory.store))
    plan = None if is_quiet else request.plan(scanned)
    with _open_directory(directory, ResultPlan(TABLE_KIND, {"live": True, **config})) as result:
        result.restore()
        before = read_manifests(directory.store) if list_versions(directory.store) else []
        table_id = before[0].table_id if before else _digest([directory.id, fingerprints])
        version = _NextVersion(before, table_id, fingerprints, is_live=True, stop=stop)
        counts = BrewCounts()
        if plan is None:
            commit_manifest(directory.store, result.commit, version.manifest_without_rows(directory.name))
        else:
            _write_version(result, plan, version, counts, request.progress)
        notes = [note for each in scanned.values() for note in each.notes]
        return BrewResult(request.directory, version.number, counts, [*result.notes, *notes, *_zeroed(counts)])


# Sources


def _scan_all(request: BrewRequest) -> dict[str, ScannedSource]:
    _begin_scan(request)
    return {key: scan(source, request.progress.advance) for key, source in request.sources.items()}


def _fingerprint_all(request: BrewRequest) -> dict[str, Sequence[Fingerprint]]:
    _begin_scan(request)
    return {
        key: [fingerprint(file.path, request.progress.advance) for file in source.files]
        for key, source in request.sources.items()
    }


def _begin_scan(request: BrewRequest) -> None:
    size_bytes = sum(source.size_bytes for source in request.sources.values())
    request.progress.begin("scanning sources", size_bytes, "bytes")


def _known_types(store: Store) -> dict[str, str]:
    """The source types of the columns that a live table has so far."""
    columns = read_manifests(store)[-1].schema.columns if list_versions(store) else ()
    return {column.name: column.source_type for column in columns}


def _lineage(request: BrewRequest, fingerprints: Mapping[str, Any]) -> list[LineageSource]:
    named = flatten(request.config)
    paths = {key: named[key] if isinstance(named[key], str) else ", ".join(named[key]) for key in request.sources}
    return [LineageSource(key, path, _digest(fingerprints[key]), is_raw=True) for key, path in paths.items()]


def _with_absolute_paths(config: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The recipe, so that it can be brewed again from anywhere."""

    def absolute(path: str) -> str:
        return str(resolve_path(path, folder, symlinks="keep"))

    listed = config["source"]
    whole = {**config, "source": absolute(listed) if isinstance(listed, str) else [absolute(each) for each in listed]}
    if config.get("tables"):
        whole["tables"] = [_with_absolute_paths(table, folder) for table in config["tables"]]
    return whole


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:32]


def _zeroed(counts: BrewCounts) -> list[str]:
    zeroed = ", ".join(f"{name} {count}" for name, count in sorted(counts.num_zeroed.items()))
    return [f"nulls that became 0: {zeroed}"] if zeroed else []


# The directory


@contextmanager
def _open_directory(directory: ResultDirectory, plan: ResultPlan) -> Iterator[OpenResult]:
    """The directory to work in. A failure before the first version of the table leaves it empty, so that another
    attempt, with a corrected recipe or source, does not find the directory of the failed one."""
    result = begin(directory, plan)
    try:
        with result:
            yield result
    except Exception:  # not an interrupt: an interrupted brew can be resumed
        with suppress(SamovarError):  # the first error is the one to report; another holder keeps the directory
            _empty(directory)
        raise


def _empty(directory: ResultDirectory) -> None:
    """Remove what a brew made, and nothing else. The store's own folder stays: its epoch keeps late writers out."""
    with take_lease(directory.store):
        if list_versions(directory.store) or directory.is_finished:
            return
        for name in (CONFIG, LINEAGE, ENVIRONMENT, STATUS):
            directory.store.remove(name)
        for name in (SEGMENTS, MANIFESTS):
            directory.store.remove_tree(name)


# Versions


@dataclass(frozen=True)
class _NextVersion:
    """A version of a table before its rows are written."""

    before: Sequence[Manifest]
    table_id: str
    fingerprints: Any
    is_live: bool = False
    stop: int | None = None
    """The hour until which a live table will be complete; None: until the end of its last hour with rows."""

    @property
    def number(self) -> int:
        return len(self.before) + 1

    @property
    def first_row(self) -> int:
        last = self.before[-1].segment if self.before else None
        return last.first_row + last.num_rows if last else 0

    @property
    def start(self) -> int | None:
        """The hour until which a live table is complete already."""
        return self.before[-1].complete_until if self.before else None

    @property
    def can_be_empty(self) -> bool:
        """Whether hours without rows are worth a version, which only moves the hour until which it is complete."""
        return bool(self.before) and self.stop is not None

    def manifest(self, schema: TableSchema, compression: str, segment: Segment) -> Manifest:
        complete_until = self.stop
        if self.is_live and self.stop is None:
            last = segment.hours[-1].hour
            assert last is not None
            complete_until = last + HOUR_SECONDS
        brewed_from = {"sources": self.fingerprints}
        return Manifest(self.number, self.table_id, schema, compression, segment, complete_until, brewed_from)

    def manifest_without_rows(self, where: str) -> Manifest:
        assert self.stop is not None
        if self.start is not None and self.stop <= self.start:
            raise BadInput(
                f"{where}: nothing to append: the source has no rows, and the table is complete until "
                f"{show_hour(self.start)} already"
            )
        last = self.before[-1]
        return self.manifest(last.schema, last.compression, Segment(self.number, self.first_row, 0, 0, (), (), {}))


def _write_version(
    result: OpenResult, plan: BrewPlan, version: _NextVersion, counts: BrewCounts, progress: Progress
) -> None:
    """Write one segment, and the manifest that makes it count."""
    store, schema = result.directory.store, plan.schema
    store.remove_tree(f"{SEGMENTS}/{version.number:06d}")  # what a killed brew left behind
    with closing(_minibatches(plan, version, counts, progress, store.name)) as minibatches:
        segment = write_segment(
            store,
            schema,
            minibatches,
            number=version.number,
            first_row=version.first_row,
            compression=Compression.parse(plan.compression),
        )
    if segment.num_rows > 0:
        manifest = version.manifest(schema, plan.compression, segment)
    elif version.can_be_empty:
        manifest = version.manifest_without_rows(store.name)
    else:
        raise no_rows([table.source for table in plan.tables])
    commit_manifest(store, result.commit, manifest)


def _minibatches(
    plan: BrewPlan, version: _NextVersion, counts: BrewCounts, progress: Progress, where: str
) -> Generator[Minibatch]:
    """All minibatches of a plan. Refuses those that do not fit the table's earlier versions, and reports progress."""
    with closing(make_minibatches(plan.tables, plan.order, plan.batch_size, counts)) as minibatches:
        for number, minibatch in enumerate(minibatches):
            if number == 0:  # the first minibatch comes when all rows are sorted
                progress.begin("writing", plan.num_rows)
                _refuse_other_columns(version, plan.schema, where)
            if version.start is not None and minibatch.hour is not None and minibatch.hour < version.start:
                raise BadInput(
                    f"{where}: is complete until {show_hour(version.start)}, but there is a row of the hour "
                    f"{show_hour(minibatch.hour)}. Give start_date, or leave out the old files"
                )
            progress.reach(counts.num_rows)
            yield minibatch


def _refuse_other_columns(version: _NextVersion, schema: TableSchema, where: str) -> None:
    problem = _find_difference(version.before[-1].schema, schema) if version.before else None
    if problem is not None:
        raise Conflict(f"{where}: {problem}. Correct the recipe or the source, or brew a new table")


def _find_difference(old: TableSchema, new: TableSchema) -> str | None:
    """How the columns of a new version differ from those of the table."""
    before, after = ({column.name: column for column in schema.columns} for schema in (old, new))
    for name in [*before, *(name for name in after if name not in before)]:
        if name not in after or name not in before:
            return f"column {name!r} is only in {'the table' if name in before else 'the recipe'}"
        left, right = before[name], after[name]
        same = _SAME_NUMBERS.get(left.kind, _NO_TYPE)
        types = [same.sub("number", column.source_type) for column in (left, right)]
        if (left.kind, left.rank, types[0]) != (right.kind, right.rank, types[1]):
            return f"column {name!r} is {left.source_type} in the table and {right.source_type} in the source"
    if (old.names, old.sort_key) != (new.names, new.sort_key):
        return "the recipe orders the columns or the rows differently"
    return None
