"""Snapshots: one commit of a state tree, a position and the inventory of all files. Knows no runs and no models.

snapshot/000012.e3/state.json, arrays.safetensors   number 12, written under lease epoch 3
snapshot/000012.e3/manifest.json                    sizes and checksums of these, position, files of the run
snapshot/artifacts/…                                lists of earlier files (inventory.py)
attribute `snapshots`: [{name, manifest}, …]        the newest two, newest first: setting this is the commit
"""

import json
from collections.abc import Sequence, Set
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from pydantic import Field

from samovar.config.records import Count, check_record, read_format, read_record
from samovar.errors import CorruptData, SamovarError
from samovar.results.checked import FileRecord, StorePath, map_checked, write_checked
from samovar.results.inventory import SEALED_LISTS, FileList, Inventory, SealedPath
from samovar.results.state import read_state, write_state
from samovar.store import Entry, Lease, Store
from samovar.store.lease import with_epoch

FORMAT = 2
SNAPSHOTS = "snapshot"
ATTRIBUTE = "snapshots"
NUM_KEPT = 2


@dataclass(frozen=True)
class SnapshotName:
    """A committed snapshot: its folder, and the record of its manifest."""

    name: Annotated[str, Field(pattern=r"^[0-9]{6,15}\.e[0-9]{1,15}$")]
    manifest: FileRecord

    @property
    def number(self) -> int:
        return int(self.name.partition(".")[0])


@dataclass(frozen=True)
class SnapshotManifest:
    """`manifest.json` of a snapshot. Its fields are JSON keys on disk."""

    format: int
    number: Count
    epoch: Count
    position: Any
    files: dict[StorePath, FileRecord]
    sealed: dict[SealedPath, FileRecord]
    artifacts: dict[StorePath, FileRecord]


@dataclass(frozen=True)
class Snapshot:
    """A snapshot that was read back and verified.

    Attributes:
        number: Counts snapshots from 1; 0 for a final model.
        tree: The state, as it was saved.
        position: Where the run was, as the stage counts it.
        files: All files of the run at that moment.

    Example:
        >>> from samovar.results import open_directory
        >>> open_directory("models/click").load_model().position["next_uri"]
        1
    """

    number: int
    tree: Any
    position: Any
    files: FileList

    @property
    def inventory(self) -> Inventory:
        """The records of all files of the run at that moment, by path."""
        return self.files.files


def committed_snapshots(store: Store) -> list[SnapshotName]:
    """The committed snapshots, newest first."""
    found = store.attributes().values.get(ATTRIBUTE, [])
    return check_record(list[SnapshotName], found, f"{store.name}: the attribute {ATTRIBUTE!r}") if found else []


def write_snapshot(
    store: Store, lease: Lease, tree: object, position: Any, files: FileList, bad: Set[str] = frozenset()
) -> SnapshotName:
    """Write the files, then the manifest, then commit. Only the newest two snapshots that are not `bad` are kept."""
    earlier = committed_snapshots(store)
    number = earlier[0].number + 1 if earlier else 1
    prefix = f"{SNAPSHOTS}/{with_epoch(f'{number:06d}', lease.epoch)}"
    state = write_state(store, prefix, tree, lease.check)
    sealed, recent = files.write(store, number, lease.epoch, lease.check)
    manifest = SnapshotManifest(FORMAT, number, lease.epoch, position, state, sealed, recent)
    text = json.dumps(asdict(manifest), allow_nan=False, indent=1).encode()
    record = write_checked(store, f"{prefix}/manifest.json", text, lease.check)
    newest = SnapshotName(prefix.removeprefix(f"{SNAPSHOTS}/"), record)
    kept = [newest, *(name for name in earlier if name.name not in bad)][:NUM_KEPT]
    lease.commit(**{ATTRIBUTE: [asdict(name) for name in kept]})
    remove_uncommitted(store, kept)
    _remove_unused_lists(store, kept)
    return newest


def _remove_unused_lists(store: Store, kept: Sequence[SnapshotName]) -> None:
    for entry in find_unused_lists(store, kept):
        store.remove(entry.path)


def find_unused_lists(store: Store, kept: Sequence[SnapshotName]) -> list[Entry]:
    """Sealed lists that no snapshot names."""
    lists = store.list(SEALED_LISTS)
    used = {path for name in kept for path in read_manifest(store, name).sealed} if lists else set()
    return [entry for entry in lists if entry.path not in used]


def find_uncommitted(store: Store, kept: Sequence[SnapshotName]) -> list[Entry]:
    """The files of older snapshots, and of killed or replaced writers."""
    names = {*(snapshot.name for snapshot in kept), SEALED_LISTS.split("/")[1]}
    return [entry for entry in store.list(SNAPSHOTS) if entry.path.split("/")[1] not in names]


def remove_uncommitted(store: Store, kept: Sequence[SnapshotName]) -> None:
    """Remove the folders of older snapshots, and of killed or replaced writers."""
    for name in sorted({entry.path.split("/")[1] for entry in find_uncommitted(store, kept)}):
        store.remove_tree(f"{SNAPSHOTS}/{name}")


def read_manifest(store: Store, name: SnapshotName) -> SnapshotManifest:
    """The manifest of a snapshot, verified."""
    path = f"{SNAPSHOTS}/{name.name}/manifest.json"
    where = f"{store.name}/{path}"
    data = map_checked(store, path, name.manifest)
    number = read_format(data, where)
    if number != FORMAT:
        made_by = "Samovar 0.1" if number < FORMAT else "a newer Samovar"
        raise CorruptData(
            f"{where} was made by {made_by} in snapshot format {number}; this version reads format {FORMAT}. Continue "
            "the run with the version that made it, or start again in a new directory"
        )
    return read_record(SnapshotManifest, data, where)


def list_files(store: Store, names: Sequence[SnapshotName]) -> set[str]:
    """The files that any of these snapshots lists, as far as their lists can be read."""
    listed: set[str] = set()
    for name in names:
        with suppress(SamovarError):
            manifest = read_manifest(store, name)
            listed |= FileList.read(store, manifest.sealed, manifest.artifacts).files.keys()
    return listed


def read_snapshot(store: Store, name: SnapshotName) -> Snapshot:
    """Read a snapshot and verify every byte; `CorruptData` if one differs."""
    prefix = f"{SNAPSHOTS}/{name.name}"
    manifest = read_manifest(store, name)
    files = FileList.read(store, manifest.sealed, manifest.artifacts)
    return Snapshot(manifest.number, read_state(store, prefix, manifest.files), manifest.position, files)
