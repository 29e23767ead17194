"""Versions of a table: `manifest/<version>.json`, each naming the one segment that it adds. Knows no cells.

A version counts once the directory's attribute `version` names it. The attribute is set under the lease, after all
files are written, so a brewer that lost its lease cannot add a version. A manifest does not repeat earlier segments:
the table is the chain of all manifests up to a version.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from samovar.errors import BadInput, CorruptData, NotAResult, NotFound
from samovar.results.checked import FileRecord
from samovar.store import Store, write_file
from samovar.tables.schema import TableSchema

FORMAT = 1
MANIFESTS = "manifest"
ATTRIBUTE = "version"

# The fields of the next three classes are JSON keys on disk. There `row` means a row of the Parquet file, that is, one
# minibatch.


@dataclass(frozen=True)
class FileEntry:
    """A Parquet file of cells. Its index is between the last row group and the footer."""

    path: str
    size: int
    checksum: str
    num_rows: int
    index_at: int
    index_checksum: str


@dataclass(frozen=True)
class HourEntry:
    """The minibatches of one hour; an offline table has one entry, with hour None."""

    hour: int | None
    first_row: int
    num_rows: int
    num_examples: int


@dataclass(frozen=True)
class Segment:
    """The minibatches that one version adds."""

    number: int
    first_row: int
    num_rows: int
    num_examples: int
    files: tuple[FileEntry, ...]
    hours: tuple[HourEntry, ...]
    column_bytes: Mapping[str, int]
    """Stored bytes of each column's cells."""

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Self:
        files = tuple(FileEntry(**entry) for entry in record["files"])
        hours = tuple(HourEntry(**entry) for entry in record["hours"])
        return cls(**{**record, "files": files, "hours": hours})


@dataclass(frozen=True)
class Manifest:
    """One version of a table."""

    version: int
    table_id: str
    schema: TableSchema
    compression: str
    segment: Segment
    complete_until: int | None = None
    """Of a live table: all hours before this one are present. Seconds since 1970 UTC."""
    brewed_from: Any = None

    def to_bytes(self) -> bytes:
        document = {
            "format": FORMAT,
            **{name: getattr(self, name) for name in ("version", "table_id", "compression")},
            "schema": self.schema.to_json(),
            "segment": asdict(self.segment),
            "complete_until": self.complete_until,
            "brewed_from": self.brewed_from,
        }
        return json.dumps(document, indent=1, allow_nan=False).encode() + b"\n"

    @classmethod
    def from_bytes(cls, data: bytes, where: str) -> Self:
        try:
            document = json.loads(data)
            if document["format"] != FORMAT:
                raise CorruptData(
                    f"{where}: table format {document['format']} is not supported, this Samovar reads {FORMAT}. "
                    "Use a newer Samovar, or brew the table again"
                )
            return cls(
                document["version"],
                document["table_id"],
                TableSchema.from_json(document["schema"]),
                document["compression"],
                Segment.from_json(document["segment"]),
                document["complete_until"],
                document["brewed_from"],
            )
        except (ValueError, KeyError, TypeError) as error:
            if isinstance(error, CorruptData):
                raise
            raise CorruptData(f"{where}: not a valid manifest ({error}). Restore it from a copy") from error


def commit_manifest(store: Store, commit: Callable[..., None], manifest: Manifest) -> None:
    """Publish a version. `commit` sets attributes under a lease. A file of a brewer that lost its lease is replaced."""
    write_file(store, _path(manifest.version), manifest.to_bytes())
    commit(**{ATTRIBUTE: manifest.version, "id": manifest.table_id})


def list_versions(store: Store) -> list[int]:
    return list(range(1, store.attributes().values.get(ATTRIBUTE, 0) + 1))


def read_manifests(store: Store, version: int | None = None) -> list[Manifest]:
    """All manifests up to a version, the newest by default."""
    versions = list_versions(store)
    if not versions:
        raise NotAResult(f"{store.name}: no tensor table there, or none that was brewed to the end")
    newest = versions[-1] if version is None else version
    if newest not in versions:
        raise BadInput(f"{store.name} has versions 1 to {versions[-1]}, got {newest}")
    return [_read(store, number) for number in range(1, newest + 1)]


def _read(store: Store, version: int) -> Manifest:
    where = f"{store.name}/{_path(version)}"
    try:
        return Manifest.from_bytes(store.read(_path(version)), where)
    except NotFound as error:
        raise CorruptData(f"{where}: the manifest is missing. Restore it from a copy") from error


def table_inventory(store: Store) -> dict[str, FileRecord]:
    """All files of a table, with the size and checksum that each must have."""
    files: dict[str, FileRecord] = {}
    for manifest in read_manifests(store):
        files[_path(manifest.version)] = FileRecord.of(store.read(_path(manifest.version)))
        files.update({file.path: FileRecord(file.size, file.checksum) for file in manifest.segment.files})
    return files


def _path(version: int) -> str:
    return f"{MANIFESTS}/{version:06d}.json"
