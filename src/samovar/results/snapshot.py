"""Snapshots: one commit of a state tree, a position and the inventory of all files. Knows no runs and no models.

snapshot/000012.e3/state.json, arrays.safetensors   number 12, written under lease epoch 3
snapshot/000012.e3/manifest.json                    sizes and checksums of these, position, inventory
attribute `snapshots`: [{name, manifest}, …]        the newest two, newest first: setting this is the commit
"""

import json
from collections.abc import Sequence, Set
from dataclasses import asdict, dataclass
from typing import Any, Self

from samovar.results.artifacts import Inventory
from samovar.results.checked import FileRecord, map_checked, write_checked
from samovar.results.state import read_state, write_state
from samovar.store import Lease, Store

SNAPSHOTS = "snapshot"
ATTRIBUTE = "snapshots"
NUM_KEPT = 2


@dataclass(frozen=True)
class SnapshotName:
    """A committed snapshot: its folder, and the record of its manifest."""

    name: str
    manifest: FileRecord

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Self:
        return cls(record["name"], FileRecord.from_json(record["manifest"]))

    @property
    def number(self) -> int:
        return int(self.name.partition(".")[0])


@dataclass(frozen=True)
class Snapshot:
    """A snapshot that was read back and verified.

    Attributes:
        number: Counts snapshots from 1; 0 for a final model.
        tree: The state, as it was saved.
        position: Where the run was, as the stage counts it.
        inventory: All files of the run at that moment.
    """

    number: int
    tree: Any
    position: Any
    inventory: Inventory


def committed_snapshots(store: Store) -> list[SnapshotName]:
    """The committed snapshots, newest first."""
    return [SnapshotName.from_json(record) for record in store.attributes().values.get(ATTRIBUTE, [])]


def write_snapshot(
    store: Store, lease: Lease, tree: object, position: Any, inventory: Inventory, bad: Set[str] = frozenset()
) -> SnapshotName:
    """Write the files, then the manifest, then commit. Only the newest two snapshots that are not `bad` are kept."""
    earlier = committed_snapshots(store)
    number = earlier[0].number + 1 if earlier else 1
    prefix = f"{SNAPSHOTS}/{number:06d}.e{lease.epoch}"
    manifest = {
        "format": 1,
        "number": number,
        "epoch": lease.epoch,
        "position": position,
        "files": {path: asdict(record) for path, record in write_state(store, prefix, tree).items()},
        "artifacts": {path: asdict(record) for path, record in sorted(inventory.items())},
    }
    text = json.dumps(manifest, allow_nan=False, indent=1).encode()
    record = write_checked(store, f"{prefix}/manifest.json", text)
    newest = SnapshotName(prefix.removeprefix(f"{SNAPSHOTS}/"), record)
    kept = [newest, *(name for name in earlier if name.name not in bad)][:NUM_KEPT]
    lease.commit(**{ATTRIBUTE: [asdict(name) for name in kept]})
    remove_uncommitted(store, kept)
    return newest


def remove_uncommitted(store: Store, kept: Sequence[SnapshotName]) -> None:
    """Remove the folders of older snapshots, and of killed or replaced writers."""
    names = {entry.path.split("/")[1] for entry in store.list(SNAPSHOTS)}
    for name in sorted(names - {snapshot.name for snapshot in kept}):
        store.remove_tree(f"{SNAPSHOTS}/{name}")


def read_manifest(store: Store, name: SnapshotName) -> dict[str, Any]:
    """The manifest of a snapshot, verified."""
    data = map_checked(store, f"{SNAPSHOTS}/{name.name}/manifest.json", name.manifest)
    manifest: dict[str, Any] = json.loads(bytes(data))
    return manifest


def read_snapshot(store: Store, name: SnapshotName) -> Snapshot:
    """Read a snapshot and verify every byte; `CorruptData` if one differs."""
    prefix = f"{SNAPSHOTS}/{name.name}"
    manifest = read_manifest(store, name)
    files = {path: FileRecord.from_json(record) for path, record in manifest["files"].items()}
    return Snapshot(
        number=manifest["number"],
        tree=read_state(store, prefix, files),
        position=manifest["position"],
        inventory={path: FileRecord.from_json(record) for path, record in manifest["artifacts"].items()},
    )
