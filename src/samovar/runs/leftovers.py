"""What killed processes left in results and beside them: found by the definitions of those who would remove it at the
next start, and removed only under the lease.
"""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from samovar.config.places import PathLike, Place, Url, as_place, suggest_path
from samovar.errors import BadInput, LeaseHeld, SamovarError, StoreError
from samovar.results import ResultDirectory
from samovar.results.artifacts import find_unlisted
from samovar.results.directory import CONFIG
from samovar.results.inventory import FileList
from samovar.results.partial import is_removed
from samovar.results.snapshot import committed_snapshots, find_uncommitted, find_unused_lists, read_manifest
from samovar.runs.find import find_results
from samovar.store import Entry, Lease, Store, open_store, take_lease
from samovar.tables.manifest import find_leftovers as find_in_table

_REMOVED_FOLDER = re.compile(r"\..+\.removed-[0-9a-f]{8}")
_WHOLE = "half removed"
_SCRATCH = "unfinished files"


@dataclass(frozen=True)
class Leftover:
    """Files that nobody needs.

    Attributes:
        place: The directory that they are in.
        kind: In words, such as "uncommitted snapshots".
        paths: The files, relative to the directory.
        size_bytes: Their sizes together.

    Example:
        >>> sorted(leftover.kind for leftover in find_leftovers("models").found)
        []
    """

    place: Place
    kind: str
    paths: tuple[str, ...]
    size_bytes: int


@dataclass(frozen=True)
class Leftovers:
    """What `find_leftovers` found.

    Attributes:
        found: By directory and kind.
        skipped: One sentence per directory that is in use or cannot be read.

    Example:
        >>> left = find_leftovers("models")
        >>> left.found, left.skipped, left.size_bytes
        ([], [], 0)
    """

    found: list[Leftover]
    skipped: list[str]

    @property
    def size_bytes(self) -> int:
        """The sizes of all together."""
        return sum(each.size_bytes for each in self.found)


def find_leftovers(place: PathLike, *, delete: bool = False) -> Leftovers:
    """Find what killed processes left in a result, or in all results of a folder.

    These are files that the next start would remove, too: uncommitted snapshots, files that neither a snapshot nor the
    inventory lists, parts of a table that no version names, unfinished files; and what an interrupted `rm` left.
    Directories that a process works in are skipped, and `external_stuff` is never touched.

    Args:
        place: A path or URL.
        delete: Remove what is found, under the lease of each directory.

    Raises:
        BadInput: There is no such folder.

    Example:
        >>> find_leftovers("models").found
        []
    """
    folder = as_place(place, "the directory")
    if not (open_store(folder).exists() if isinstance(folder, Url) else folder.is_dir()):
        raise BadInput(f"{folder}: no such folder{suggest_path(folder, is_folder=True)}")
    found: list[Leftover] = []
    skipped: list[str] = []
    for each in [*_find_removed(folder), *find_results(folder)]:
        try:
            found += _delete(each) if delete else _look(each)
        except LeaseHeld as error:
            skipped.append(str(error))
        except SamovarError as error:
            skipped.append(f"{each}: {error}")
    return Leftovers(found, skipped)


def _find_removed(folder: Place) -> Iterator[Place]:
    """What interrupted removals left: a renamed folder, or a place in an object store that says so itself."""
    if isinstance(folder, Url):
        store = open_store(folder)
        if is_removed(store):
            yield folder
            return
        names = store.names()
        for name in (name for name, is_folder in names.items() if is_folder and CONFIG not in names):
            yield from _find_removed(folder / name)
        return
    for where, folders, files in os.walk(folder):
        yield from (Path(where, name) for name in sorted(folders) if _REMOVED_FOLDER.fullmatch(name))
        folders[:] = [] if CONFIG in files else [name for name in folders if not name.startswith(".")]


def _is_half_removed(place: Place) -> bool:
    return is_removed(open_store(place)) if isinstance(place, Url) else bool(_REMOVED_FOLDER.fullmatch(place.name))


def _look(place: Place) -> list[Leftover]:
    store = open_store(place)
    lease = ResultDirectory(store).lease
    if lease.is_held:
        raise LeaseHeld(f"{place} is in use by {lease.holder}")
    if _is_half_removed(place):
        return [_add_up(place, _WHOLE, store.list())]
    return [_add_up(place, kind, entries) for kind, entries in _list_kinds(store, lease.epoch + 1) if entries]


def _delete(place: Place) -> list[Leftover]:
    if not _look(place):
        return []  # the lease is not taken for nothing
    store = open_store(place)
    if isinstance(place, Url) and not store.exists():
        return []
    with ExitStack() as stack:
        lease = take_lease(store)
        stack.callback(_release, lease)
        if _is_half_removed(place):
            found = [_add_up(place, _WHOLE, store.list())]
            store.erase()
            return found
        lease.keep_beating(lambda: None)
        found = []
        for kind, entries in _list_kinds(store, lease.epoch):
            found.append(_add_up(place, kind, entries))
            if kind == _SCRATCH:
                store.sweep()
            for entry in entries if kind != _SCRATCH else ():
                store.remove(entry.path)
    return [each for each in found if each.paths]


def _release(lease: Lease) -> None:
    with suppress(StoreError):  # its record is gone with the directory
        lease.release()


def _add_up(place: Place, kind: str, entries: Sequence[Entry]) -> Leftover:
    return Leftover(place, kind, tuple(entry.path for entry in entries), sum(entry.size for entry in entries))


def _list_kinds(store: Store, epoch: int) -> Iterator[tuple[str, Sequence[Entry]]]:
    """The leftovers of a result by kind, as a holder of the lease of this epoch sees them."""
    directory = ResultDirectory(store)
    kept = [] if directory.is_finished else committed_snapshots(store)
    if directory.is_finished:
        listed = set(directory.inventory())
    else:
        manifests = [read_manifest(store, name) for name in kept]
        listed = {path for each in manifests for path in FileList.read(store, each.sealed, each.artifacts).files}
    yield "uncommitted snapshots", [*find_uncommitted(store, kept), *find_unused_lists(store, kept)]
    yield "files that no snapshot lists", find_unlisted(store, listed)
    yield "parts of no version", find_in_table(store, epoch)
    yield _SCRATCH, store.leftovers()
