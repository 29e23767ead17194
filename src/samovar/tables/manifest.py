"""Versions of a table, each a manifest that names the one segment that it adds. Knows no cells.

manifest/000002.e7.json           version 2, written under lease epoch 7
segments/000002.e7/…              the files that it adds; the manifest lists them without the epoch
attribute `versions`: [3, 7, …]   the epoch of each version: adding one is the commit

The attribute is set under the lease, after all files are written, so a brewer that lost its lease cannot add a version;
and what it writes late has names of its own, which the attribute does not lead to. A manifest does not repeat earlier
segments: the table is the chain of all manifests up to a version.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field

from samovar.config.records import Checksum, Count, Hour, Size, read_format, read_record
from samovar.errors import BadInput, CorruptData, NotAResult, NotFound
from samovar.hours import DAY_SECONDS, HOUR_SECONDS, Period, find_zone
from samovar.results.checked import FileRecord, StorePath, write_checked
from samovar.results.directory import VERSIONS, ResultDirectory
from samovar.store import Entry, Fence, Store, read_small
from samovar.store.lease import with_epoch, without_epoch
from samovar.tables.schema import TableSchema

FORMAT = 3
_MADE_BY = {1: "Samovar 0.1", 2: "a Samovar before 0.2"}
MANIFESTS = "manifest"
SEGMENTS = "segments"
TABLE_ROOTS = (MANIFESTS, SEGMENTS)
_LEFTOVER = re.compile(rf"((?:{MANIFESTS}|{SEGMENTS})/\d{{6,}}\.e(\d+))[./].+", re.ASCII)

# The fields of the next three classes are JSON keys on disk.


@dataclass(frozen=True)
class FileEntry:
    """A Parquet file of cells. Its index is between the last row group and the footer."""

    path: StorePath
    """With the epoch, where the file is; a manifest has it without."""
    size: Size
    checksum: Checksum
    num_minibatches: Count
    index_at: Size
    index_checksum: Checksum


@dataclass(frozen=True)
class HourEntry:
    """The minibatches of one hour; an offline table has one entry, with hour None."""

    hour: Hour | None
    first_minibatch: Count
    num_minibatches: Count
    num_examples: Count


@dataclass(frozen=True)
class Segment:
    """The minibatches that one version adds."""

    number: Count
    first_minibatch: Count
    num_minibatches: Count
    num_examples: Count
    files: tuple[FileEntry, ...]
    hours: tuple[HourEntry, ...]
    column_bytes: Mapping[str, Size]
    """Stored bytes of each column's cells."""
    epoch: int = 0
    """The lease epoch that it was written under; not in the manifest, so that manifests of equal tables are equal."""

    def to_json(self) -> dict[str, Any]:
        files = tuple(replace(entry, path=without_epoch(entry.path)) for entry in self.files)
        record = asdict(replace(self, files=files))
        del record["epoch"]
        return record

    def find_fault(self) -> str | None:
        """What does not add up in it, as a manifest has it."""
        folder = f"{SEGMENTS}/{self.number:06d}/"
        for file in self.files:
            if not file.path.startswith(folder):
                return f"its file {file.path} is not in {folder}"
        rows = {sum(entry.num_minibatches for entry in self.files), sum(entry.num_minibatches for entry in self.hours)}
        if rows != {self.num_minibatches}:
            return f"its files and hours do not have its {self.num_minibatches} minibatches"
        if sum(entry.num_examples for entry in self.hours) != self.num_examples:
            return f"its hours do not have its {self.num_examples} examples"
        first = self.first_minibatch
        for entry in self.hours:
            if entry.first_minibatch != first or entry.num_examples < entry.num_minibatches:
                first = entry.first_minibatch
                return f"its hour {entry.hour} has {entry.num_examples} examples in minibatches from {first}"
            first += entry.num_minibatches
        return None

    def at_epoch(self, epoch: int) -> Self:
        """The segment of a manifest, with the paths where its files are."""
        plain, folder = f"{SEGMENTS}/{self.number:06d}/", f"{segment_folder(self.number, epoch)}/"
        files = (replace(entry, path=folder + entry.path.removeprefix(plain)) for entry in self.files)
        return replace(self, files=tuple(files), epoch=epoch)


def _check_zone(name: str) -> str:
    find_zone(name)
    return name


@dataclass(frozen=True)
class Manifest:
    """One version of a table."""

    version: Count
    table_id: str
    schema: TableSchema
    compression: str
    segment: Segment
    complete_until: Hour | None = None
    """Of a live table: all hours before this one are present. Seconds since 1970 UTC."""
    brewed_from: Any = None
    uri_seconds: Annotated[int, Field(ge=60, le=7 * DAY_SECONDS)] = HOUR_SECONDS
    """What an online table is split by. `hour` means the start of such a period everywhere."""
    uri_zone: Annotated[str, AfterValidator(_check_zone)] | None = None
    """The time zone whose days or weeks those are; None: UTC."""

    def __post_init__(self) -> None:
        if self.uri_zone is not None and self.uri_seconds % DAY_SECONDS:
            raise ValueError("only days and weeks have a time zone")

    @property
    def period(self) -> Period:
        return Period(self.uri_seconds, self.uri_zone)

    def to_bytes(self) -> bytes:
        document = {
            "format": FORMAT,
            **{name: getattr(self, name) for name in ("version", "table_id", "compression")},
            "schema": self.schema.to_json(),
            "segment": self.segment.to_json(),
            "complete_until": self.complete_until,
            "brewed_from": self.brewed_from,
            **({} if self.uri_seconds == HOUR_SECONDS else {"uri_seconds": self.uri_seconds}),
            **({} if self.uri_zone is None else {"uri_zone": self.uri_zone}),
        }
        return json.dumps(document, indent=1, allow_nan=False).encode() + b"\n"

    @classmethod
    def from_bytes(cls, data: bytes, where: str, epoch: int = 0) -> Self:
        number = read_format(data, where)
        if number != FORMAT:
            raise _other_format(where, number)
        manifest = read_record(cls, data, where)
        fault = manifest.segment.find_fault()
        if fault is not None:
            raise CorruptData(f"{where}: {fault}. Restore it from a copy")
        return replace(manifest, segment=manifest.segment.at_epoch(epoch))


def commit_manifest(store: Store, commit: Callable[..., None], manifest: Manifest, fence: Fence | None = None) -> None:
    """Publish a version. `commit` sets attributes under the lease that the segment was written under."""
    epochs = _epochs(store)[: manifest.version - 1]  # there are more if a successor was faster; then the commit fails
    write_checked(store, _path(manifest.version, manifest.segment.epoch), manifest.to_bytes(), fence)
    commit(**{VERSIONS: [*epochs, manifest.segment.epoch], "id": manifest.table_id})


def _epochs(store: Store) -> list[int]:
    """The lease epoch of each committed version."""
    epochs = ResultDirectory(store).version_epochs
    if not epochs and "version" in store.attributes().values:
        raise _other_format(store.name, 2)
    return epochs


def _other_format(where: str, number: int) -> CorruptData:
    made_by = _MADE_BY.get(number, "a newer Samovar")
    return CorruptData(
        f"{where} was made by {made_by} in table format {number}; this version reads format {FORMAT}. Use the version "
        "that made it, or brew the table again"
    )


def list_versions(store: Store) -> range:
    return range(1, len(_epochs(store)) + 1)


def read_manifests(store: Store, version: int | None = None) -> list[Manifest]:
    """All manifests up to a version, the newest by default."""
    epochs = _epochs(store)
    if not epochs:
        directory = ResultDirectory(store)
        if directory.is_created and directory.kind != "table":
            raise directory.is_not("table")
        raise NotAResult(f"{store.name}: no tensor table there, or none that was brewed to the end")
    newest = len(epochs) if version is None else version
    if not 1 <= newest <= len(epochs):
        raise BadInput(f"{store.name} has no version {newest}: it has 1 to {len(epochs)}")
    manifests: list[Manifest] = []
    for number, epoch in enumerate(epochs[:newest], 1):
        manifest = _read(store, number, epoch)
        before = manifests[-1].segment if manifests else None
        first = 0 if before is None else before.first_minibatch + before.num_minibatches
        segment = manifest.segment
        if (manifest.version, segment.number, segment.first_minibatch) != (number, number, first):
            raise CorruptData(
                f"{store.name}/{_path(number, epoch)}: says version {manifest.version} with segment {segment.number} "
                f"from minibatch {segment.first_minibatch} on, not {number} from {first} on. Restore it from a copy"
            )
        manifests.append(manifest)
    return manifests


def _read(store: Store, version: int, epoch: int) -> Manifest:
    path = _path(version, epoch)
    where = f"{store.name}/{path}"
    try:
        return Manifest.from_bytes(read_small(store, path), where, epoch)
    except NotFound as error:
        raise CorruptData(f"{where}: the manifest is missing. Restore it from a copy") from error


def table_inventory(store: Store) -> dict[str, FileRecord]:
    """All files of a table, with the size and checksum that each must have."""
    files: dict[str, FileRecord] = {}
    for manifest in read_manifests(store):
        path = _path(manifest.version, manifest.segment.epoch)
        files[path] = FileRecord.of(read_small(store, path))
        files.update({file.path: FileRecord(file.size, file.checksum) for file in manifest.segment.files})
    return files


def find_leftovers(store: Store, epoch: int) -> list[Entry]:
    """The files that killed or replaced brewers left, as seen by a holder of the lease of this epoch: no version of an
    earlier epoch can still be committed."""
    committed = {part for number, each in enumerate(_epochs(store), 1) for part in _parts(number, each)}
    return [
        entry
        for root in TABLE_ROOTS
        for entry in store.list(root)
        if (match := _LEFTOVER.fullmatch(entry.path)) is not None
        and int(match[2]) < epoch
        and match[1] not in committed
    ]


def remove_leftovers(store: Store, epoch: int) -> None:
    """Remove what killed or replaced brewers left. For the holder of the lease of this epoch."""
    found = {match[1] for entry in find_leftovers(store, epoch) if (match := _LEFTOVER.fullmatch(entry.path))}
    for name in sorted(found):
        store.remove(f"{name}.json") if name.startswith(MANIFESTS) else store.remove_tree(name)


def _parts(version: int, epoch: int) -> tuple[str, str]:
    return _path(version, epoch).removesuffix(".json"), segment_folder(version, epoch)


def _path(version: int, epoch: int) -> str:
    return f"{MANIFESTS}/{with_epoch(f'{version:06d}', epoch)}.json"


def segment_folder(number: int, epoch: int) -> str:
    """The folder of the files that a version adds."""
    return f"{SEGMENTS}/{with_epoch(f'{number:06d}', epoch)}"
