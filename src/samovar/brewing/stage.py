"""Brewing as a stage: recipe → result directory. The only module of brewing that writes tables and result directories.

segments/000001.e1/…       the rows of version 1, written under lease epoch 1
manifest/000001.e1.json    written after all files of its segment; the commit names it
"""

import hashlib
import json
import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from samovar.brewing.engines import Engine
from samovar.brewing.parts import OnRows, Part
from samovar.brewing.plan import BrewPlan, find_recipe_sources, recipe_tables
from samovar.brewing.progress import BrewCounts
from samovar.brewing.recipe import Recipe
from samovar.brewing.sources import Fingerprint, FingerprintFile, ScanFile, ScannedSource, Source, join_scans, no_rows
from samovar.config import flatten
from samovar.config.places import Place
from samovar.errors import BadInput, Conflict, SamovarError, StoreError
from samovar.hours import DAY_SECONDS, Period
from samovar.results import OpenResult, ResultDirectory, ResultPlan, begin
from samovar.results import Source as LineageSource
from samovar.results.directory import CONFIG, ENVIRONMENT
from samovar.results.lineage import LINEAGE, is_in_memory
from samovar.results.status import STATUS
from samovar.store import Fence, Store, open_store, place_of, take_lease
from samovar.tables.cell import Compression
from samovar.tables.manifest import (
    TABLE_ROOTS,
    Manifest,
    Segment,
    commit_manifest,
    list_versions,
    read_manifests,
    remove_leftovers,
    segment_folder,
    table_inventory,
)
from samovar.tables.schema import GROUP_START, ColumnSchema, Minibatch, TableSchema
from samovar.tables.writer import join_parts, write_segment

TABLE_KIND = "table"
_SAME_NUMBERS = {"real": re.compile("double|u?int64"), "categorical": re.compile("u?int64")}
"""Source types that give the same column, by its kind: real values are stored as floats, and ids as 64 bits."""
_NO_TYPE = re.compile("(?!)")
_KEYS_PER_APPEND = ("source", "start_date", "end_date")
_FEWEST_DAYS = 3


@dataclass(frozen=True)
class BrewResult:
    """What a brew made.

    Attributes:
        directory: The tensor table.
        version: The version of the table that it made or found.
        counts: What it counted; None if the table was finished already.
        notes: What the user should look at.

    Example:
        >>> from samovar.brewing import brew_recipe
        >>> recipe = {"source": "clicks.csv", "columns": {"user": "id"}, "batch_size": 64}
        >>> done = brew_recipe(recipe, "users_result", progress=False)
        >>> done.version, done.counts.num_batches
        (1, 4)
    """

    directory: Place
    version: int
    counts: BrewCounts | None
    notes: Sequence[str]


@dataclass(frozen=True)
class BrewRequest:
    """What is to be brewed, and where the table is to be."""

    directory: Place
    config: Mapping[str, Any]
    sources: Mapping[str, Source]
    """By the config key that names them."""
    plan: Callable[[Mapping[str, ScannedSource]], BrewPlan]
    """Makes the plan from the scanned sources. Finds mistakes."""
    engine: Engine
    links: Sequence[LineageSource] = ()
    """Other results that the table is made from."""


def find_raw_ids(config: Mapping[str, Any]) -> dict[str, str]:
    """The ids that the raw files of a table's recipe have now, as lineage records them, by the key that names them.
    Rows in memory have none."""
    recipe = Recipe.load(config, "recipe")
    in_memory = {key: Source("", ()) for key, each in recipe_tables(recipe).items() if is_in_memory(each.source)}
    sources = find_recipe_sources(recipe, Path(), in_memory)
    return {
        key: _digest([file.fingerprint() for file in source.files])
        for key, source in sources.items()
        if key not in in_memory
    }


def brew_whole(request: BrewRequest) -> BrewResult:
    """Make a table in one go, or find it finished."""
    directory = ResultDirectory(open_store(request.directory))
    if _is_live(directory) is True:
        raise Conflict(f"{directory.name} is a live table: add hours with append, or brew into another directory")
    plan: BrewPlan | None = None
    notes: list[str] = []
    if directory.is_finished:  # only the fingerprints matter
        fingerprints = _fingerprint_all(request)
    else:
        scanned = _scan_all(request)
        fingerprints = {key: each.fingerprints for key, each in scanned.items()}
        notes = [note for each in scanned.values() for note in each.notes]
        plan = request.plan(scanned)  # a mistake is found before there is a directory
        notes += plan.notes
    lineage = _lineage(request, fingerprints)
    with _open_directory(directory, ResultPlan(TABLE_KIND, request.config, sources=lineage)) as result:
        if plan is None or result.is_finished:
            return BrewResult(request.directory, list_versions(directory.store)[-1], None, result.notes)
        result.restore()
        remove_leftovers(directory.store, result.epoch)
        counts = BrewCounts()
        if not list_versions(directory.store):  # a kill may have come between the manifest and the finish
            version = _NextVersion(result.epoch, None, directory.id, fingerprints, plan.order.period)
            _write_version(result, plan, version, counts, request.engine)
        result.finish(None, {"version": 1}, table_inventory(directory.store))
        notes += [*_zeroed(counts), *_one_hour_per_day(directory.store)]
        return BrewResult(request.directory, 1, counts, [*result.notes, *notes])


def append_hours(request: BrewRequest, hours: tuple[int | None, int | None], *, allow_gap: bool = False) -> BrewResult:
    """Add a version of whole hours to a live table, which is never finished. `hours` are those that the recipe takes,
    a half-open range."""
    start, stop = hours
    directory = ResultDirectory(open_store(request.directory))
    if _is_live(directory) is False:
        raise Conflict(
            f"{directory.name} was brewed whole, so no hours can be appended. Only a table that append made can grow: "
            "brew into another directory"
        )
    config = {key: value for key, value in request.config.items() if key not in _KEYS_PER_APPEND}
    scanned = _scan_all(request)
    fingerprints = {key: each.fingerprints for key, each in scanned.items()}
    has_lines = any(each.known_schema is not None for each in scanned.values())
    is_quiet = stop is not None and not has_lines and bool(list_versions(directory.store))
    plan = None if is_quiet else request.plan(scanned)
    with _open_directory(directory, ResultPlan(TABLE_KIND, {"live": True, **config})) as result:
        result.restore()
        remove_leftovers(directory.store, result.epoch)
        before = read_manifests(directory.store) if list_versions(directory.store) else []
        if before and request.config.get("rates") and request.config.get("start_date") is None:
            raise BadInput(
                f"{directory.name}: rates count earlier rows too. Give the files of the whole window as the source, "
                "and the first new hour as start_date"
            )
        table_id = before[0].table_id if before else _digest([directory.id, fingerprints])
        period = before[-1].period if plan is None else plan.order.period
        last = before[-1] if before else None
        version = _NextVersion(result.epoch, last, table_id, fingerprints, period, True, start, stop, allow_gap)
        counts = BrewCounts()
        if plan is None:
            manifest = version.manifest_without_rows(directory.name)
            commit_manifest(directory.store, result.commit, manifest, result.check)
        else:
            _write_version(result, plan, version, counts, request.engine)
        notes = [note for each in scanned.values() for note in each.notes] + list(plan.notes if plan else ())
        notes += [*_zeroed(counts), *_one_hour_per_day(directory.store)]
        return BrewResult(request.directory, version.number, counts, [*result.notes, *notes])


# Sources


def _scan_all(request: BrewRequest) -> dict[str, ScannedSource]:
    _begin_scan(request)
    return {
        key: join_scans(source, request.engine.map_files(source, ScanFile(source)))
        for key, source in request.sources.items()
    }


def _fingerprint_all(request: BrewRequest) -> dict[str, Sequence[Fingerprint]]:
    _begin_scan(request)
    return {
        key: list(request.engine.map_files(source, FingerprintFile(source))) for key, source in request.sources.items()
    }


def _begin_scan(request: BrewRequest) -> None:
    size_bytes = sum(source.size_bytes for source in request.sources.values())
    request.engine.progress.begin("scanning sources", size_bytes, "bytes")


def known_columns(store: Store) -> tuple[ColumnSchema, ...]:
    """The columns that a live table has so far."""
    return read_manifests(store)[-1].schema.columns if list_versions(store) else ()


def _lineage(request: BrewRequest, fingerprints: Mapping[str, Any]) -> list[LineageSource]:
    named = flatten(request.config)
    paths = {key: named[key] if isinstance(named[key], str) else ", ".join(named[key]) for key in request.sources}
    raw = [LineageSource(key, path, _digest(fingerprints[key]), is_raw=True) for key, path in paths.items()]
    return [*raw, *request.links]


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:32]


def _zeroed(counts: BrewCounts) -> list[str]:
    zeroed = ", ".join(f"{name} {count}" for name, count in sorted(counts.num_zeroed.items()))
    return [f"nulls that became 0: {zeroed}"] if zeroed else []


def _one_hour_per_day(store: Store) -> list[str]:
    """What to do about daily data in a table of hours."""
    manifests = read_manifests(store)
    period = manifests[-1].period
    starts = {entry.hour for manifest in manifests for entry in manifest.segment.hours if entry.hour is not None}
    num_empty = DAY_SECONDS // period.seconds - 1
    if num_empty < 1 or len(starts) < _FEWEST_DAYS or len({start % DAY_SECONDS for start in starts}) > 1:
        return []
    return [
        f"all rows are in the same {period.name} of their days, so {num_empty} URIs per day are empty. "
        'For daily data, add "uri": "day" to the recipe'
    ]


# The directory


def _is_live(directory: ResultDirectory) -> bool | None:
    """Whether the table there grows; None if there is no table."""
    if not directory.is_created or directory.lineage.kind != TABLE_KIND:
        return None
    return bool(directory.config.get("live", False))


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
        for name in TABLE_ROOTS:
            directory.store.remove_tree(name)


# Versions


@dataclass(frozen=True)
class _NextVersion:
    """A version of a table before its rows are written."""

    epoch: int
    last: Manifest | None
    """The version before."""
    table_id: str
    fingerprints: Any
    period: Period
    is_live: bool = False
    given_start: int | None = None
    """The first hour that the recipe takes."""
    stop: int | None = None
    """The hour until which a live table will be complete; None: until the end of its last hour with rows."""
    allow_gap: bool = False

    @property
    def number(self) -> int:
        return self.last.version + 1 if self.last else 1

    @property
    def first_minibatch(self) -> int:
        return self.last.segment.first_minibatch + self.last.segment.num_minibatches if self.last else 0

    @property
    def start(self) -> int | None:
        """The hour until which a live table is complete already."""
        return self.last.complete_until if self.last else None

    def refuse_gap(self, first: int | None, where: str) -> None:
        """Refuse hours after a gap: the hours between may only be late. `first` is the first hour with rows."""
        begin = self.given_start if self.given_start is not None else first
        if self.allow_gap or self.start is None or begin is None or begin <= self.start:
            return
        show = self.period.show
        missing = show(self.start)
        if begin > self.period.shift(self.start, 1):
            missing = f"{missing} to {show(self.period.shift(begin, -1))}"
        raise BadInput(
            f"{where} is complete until {show(self.start)}, but the new rows begin at {show(begin)}. If "
            f"{missing} may still come, wait for it; if there is nothing, append with --allow-gap (allow_gap=True)"
        )

    @property
    def can_be_empty(self) -> bool:
        """Whether hours without rows are worth a version, which only moves the hour until which it is complete."""
        return self.last is not None and self.stop is not None

    def manifest(self, schema: TableSchema, compression: str, segment: Segment) -> Manifest:
        complete_until = self.stop
        if self.is_live and self.stop is None:
            last = segment.hours[-1].hour
            assert last is not None
            complete_until = self.period.shift(last, 1)
        brewed_from = {"sources": self.fingerprints}
        return Manifest(
            self.number,
            self.table_id,
            schema,
            compression,
            segment,
            complete_until,
            brewed_from,
            self.period.seconds,
            self.period.zone,
        )

    def manifest_without_rows(self, where: str) -> Manifest:
        assert self.stop is not None
        assert self.last is not None
        self.refuse_gap(None, where)
        if self.start is not None and self.stop <= self.start:
            raise BadInput(
                f"{where}: nothing to append: the source has no rows, and the table is complete until "
                f"{self.period.show(self.start)} already"
            )
        segment = Segment(self.number, self.first_minibatch, 0, 0, (), (), {}, self.epoch)
        return self.manifest(self.last.schema, self.last.compression, segment)


def _write_version(
    result: OpenResult, plan: BrewPlan, version: _NextVersion, counts: BrewCounts, engine: Engine
) -> None:
    """Write one segment, and the manifest that makes it count."""
    if version.last is not None and GROUP_START not in version.last.schema.names:
        plan = replace(plan, marks_groups=False)
    store = result.directory.store
    make_part = _PartMaker(plan, version, store.name, str(place_of(store).resolve()), store, result.check)
    queries = [table.query for table in plan.tables]
    written: list[Segment] = []
    with closing(engine.map_parts(queries, plan.find_parts(engine), make_part)) as records:
        for record in records:
            written.append(record.segment)
            counts.add(record.counts)
    segment = join_parts(written)
    if engine.is_remote:
        _require_files(store, segment)
    if segment.num_minibatches > 0:
        manifest = version.manifest(plan.schema, plan.compression, segment)
    elif version.can_be_empty:
        manifest = version.manifest_without_rows(store.name)
    else:
        raise no_rows([query.source for query in queries])
    commit_manifest(store, result.commit, manifest, result.check)


def _require_files(store: Store, segment: Segment) -> None:
    """Refuse a segment whose files other machines have written to disks of their own."""
    found = {entry.path: entry.size for entry in store.list(segment_folder(segment.number, segment.epoch))}
    for file in segment.files:
        if found.get(file.path) != file.size:
            raise StoreError(
                f"{store.name}/{file.path}: an executor has written it, but it is not here. The table must be in a "
                "place that this machine and all executors reach, such as a shared folder or an object store"
            )


@dataclass(frozen=True)
class PartRecord:
    """A part of a segment that was written."""

    segment: Segment
    counts: BrewCounts


@dataclass(frozen=True)
class _PartMaker:
    """Writes the files of one part, in this process or in another one, which has no lease: the lease epoch in the names
    of its files is enough to keep them apart from those of any other brewer."""

    plan: BrewPlan
    version: _NextVersion
    name: str
    """Of the table, for messages."""
    place: str
    """Where other processes find its store."""
    store: Store | None
    fence: Fence | None

    def __getstate__(self) -> dict[str, Any]:
        last = self.version.last
        bare = None if last is None else replace(last, segment=replace(last.segment, files=(), hours=()))
        version = replace(self.version, last=bare, fingerprints=None)
        return {**self.__dict__, "version": version, "store": None, "fence": None}

    def __call__(self, part: Part, streams: Sequence[Generator[pa.RecordBatch]], on_rows: OnRows) -> PartRecord:
        counts = BrewCounts()
        with closing(self._minibatches(part, streams, counts, on_rows)) as minibatches:
            segment = write_segment(
                open_store(self.place) if self.store is None else self.store,
                self.plan.schema,
                minibatches,
                number=self.version.number,
                first_minibatch=self.version.first_minibatch,
                compression=Compression.parse(self.plan.compression),
                threads=1 if self.store is None else 2,
                epoch=self.version.epoch,
                fence=self.fence,
                part=part.number,
            )
        return PartRecord(segment, counts)

    def _minibatches(
        self, part: Part, streams: Sequence[Generator[pa.RecordBatch]], counts: BrewCounts, on_rows: OnRows
    ) -> Generator[Minibatch]:
        """All minibatches of a part. Refuses those that do not fit the table's earlier versions, and reports rows."""
        version = self.version
        with closing(self.plan.minibatches(streams, counts)) as minibatches:
            for number, minibatch in enumerate(minibatches):
                if number == 0 and part.number == 0:
                    _refuse_other_columns(version, self.plan.schema, self.name)
                    version.refuse_gap(minibatch.hour, self.name)
                if version.start is not None and minibatch.hour is not None and minibatch.hour < version.start:
                    raise BadInput(
                        f"{self.name} is complete until {version.period.show(version.start)}, but there is a row of "
                        f"the {version.period.name} {version.period.show(minibatch.hour)}. Give start_date, or leave "
                        "out the old files"
                    )
                on_rows(minibatch.num_examples)
                yield minibatch


def _refuse_other_columns(version: _NextVersion, schema: TableSchema, where: str) -> None:
    problem = _find_difference(version.last.schema, schema) if version.last is not None else None
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
        crossed = [list((column.converter or {}).get("types", ())) for column in (left, right)]
        if [kind == "string" for kind in crossed[0]] != [kind == "string" for kind in crossed[1]]:
            made = [", ".join(kinds) for kinds in crossed]
            return f"column {name!r} is made from {made[0]} in the table and from {made[1]} in the source"
    if (old.names, old.sort_key) != (new.names, new.sort_key):
        return "the recipe orders the columns or the rows differently"
    return None
