"""Versions of a table: `manifest/<version>.json`, each naming the one segment that it adds. Knows no rows' content.

A version counts when its manifest exists; it is made by create-if-absent after all its files. A manifest does not
repeat earlier segments: the table is the chain of all manifests up to a version.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from samovar.errors import Damaged, NotOurs
from samovar.results.checked import FileRecord
from samovar.store import Store
from samovar.tables.schema import TableSchema

FORMAT = 1
FOLDER = "manifest"


@dataclass(frozen=True)
class FileEntry:
    """A Parquet file of cells. Its index stands between the last row group and the footer."""

    path: str
    size: int
    checksum: str
    num_rows: int
    index_at: int
    index_checksum: str


@dataclass(frozen=True)
class HourEntry:
    """Rows of one hour; an offline table has one entry, of hour None."""

    hour: int | None
    first_row: int
    num_rows: int
    num_examples: int


@dataclass(frozen=True)
class Segment:
    """What one version adds."""

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
    """One version."""

    version: int
    table_id: str
    schema: TableSchema
    compression: str
    segment: Segment
    complete_until: int | None = None
    """Of a live table: all hours before this one are here, seconds since 1970 UTC."""
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
                raise Damaged(
                    f"{where}: has table format {document['format']}; this Samovar reads {FORMAT}: "
                    "use a newer Samovar, or brew the table again"
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
            if isinstance(error, Damaged):
                raise
            raise Damaged(f"{where}: cannot be read ({error}); expected a manifest: restore it from a copy") from error


def commit_manifest(store: Store, manifest: Manifest) -> None:
    """Make a version count; `AlreadyExists` if somebody made it first."""
    store.create_if_absent(_path(manifest.version), manifest.to_bytes())


def list_versions(store: Store) -> list[int]:
    names = [entry.path.removeprefix(f"{FOLDER}/") for entry in store.list(FOLDER)]
    return sorted(int(name.removesuffix(".json")) for name in names if name.removesuffix(".json").isdigit())


def read_manifests(store: Store, version: int | None = None) -> list[Manifest]:
    """All manifests up to a version, the newest by default."""
    versions = list_versions(store)
    if not versions:
        raise NotOurs(f"{store.name}: has no manifest; expected a tensor table: brew one, or check the path")
    newest = versions[-1] if version is None else version
    if versions != list(range(1, versions[-1] + 1)) or newest not in versions:
        raise Damaged(
            f"{store.name}: has versions {', '.join(map(str, versions))}; expected all of 1 to "
            f"{max(newest, versions[-1])}: restore the missing manifest from a copy"
        )
    paths = [_path(number) for number in range(1, newest + 1)]
    return [Manifest.from_bytes(store.read(path), f"{store.name}/{path}") for path in paths]


def table_inventory(store: Store) -> dict[str, FileRecord]:
    """All files of a table, with what they must be."""
    files: dict[str, FileRecord] = {}
    for manifest in read_manifests(store):
        files[_path(manifest.version)] = FileRecord.of(store.read(_path(manifest.version)))
        files.update({file.path: FileRecord(file.size, file.checksum) for file in manifest.segment.files})
    return files


def _path(version: int) -> str:
    return f"{FOLDER}/{version:06d}.json"
