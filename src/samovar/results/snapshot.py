"""Snapshots: one commit of a state tree, a position and the artifacts' inventory. Knows no runs and no models.

snapshot/000012.e3/state.json, arrays.safetensors   number 12, written under lease epoch 3
snapshot/000012.e3/manifest.json                    sizes and checksums of these, position, inventory
attribute `snapshots`: [{name, manifest}, …]        newest first, two of them: this is the commit
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
KEPT = 2


@dataclass(frozen=True)
class SnapshotName:
    """A committed snapshot: its folder, and what its manifest must be."""

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
    """A snapshot read back and proven whole."""

    number: int
    tree: Any
    position: Any
    inventory: Inventory


def committed_snapshots(store: Store) -> list[SnapshotName]:
    """Newest first."""
    return [SnapshotName.from_json(record) for record in store.attributes().values.get(ATTRIBUTE, [])]


def write_snapshot(
    store: Store, lease: Lease, tree: object, position: Any, inventory: Inventory, bad: Set[str] = frozenset()
) -> SnapshotName:
    """Files first, then the manifest, then the commit; then the third newest is removed, and before it the bad ones."""
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
    kept = [newest, *(name for name in earlier if name.name not in bad)][:KEPT]
    lease.commit(**{ATTRIBUTE: [asdict(name) for name in kept]})
    remove_uncommitted(store, kept)
    return newest


def remove_uncommitted(store: Store, kept: Sequence[SnapshotName]) -> None:
    """Remove the folders that no commit names: older ones, and those of killed or replaced writers."""
    names = {entry.path.split("/")[1] for entry in store.list(SNAPSHOTS)}
    for name in sorted(names - {snapshot.name for snapshot in kept}):
        store.remove_tree(f"{SNAPSHOTS}/{name}")


def read_manifest(store: Store, name: SnapshotName) -> dict[str, Any]:
    data = map_checked(store, f"{SNAPSHOTS}/{name.name}/manifest.json", name.manifest)
    manifest: dict[str, Any] = json.loads(bytes(data))
    return manifest


def read_snapshot(store: Store, name: SnapshotName) -> Snapshot:
    """Everything in it, after checking every byte; `CorruptData` otherwise."""
    prefix = f"{SNAPSHOTS}/{name.name}"
    manifest = read_manifest(store, name)
    files = {path: FileRecord.from_json(record) for path, record in manifest["files"].items()}
    return Snapshot(
        number=manifest["number"],
        tree=read_state(store, prefix, files),
        position=manifest["position"],
        inventory={path: FileRecord.from_json(record) for path, record in manifest["artifacts"].items()},
    )
