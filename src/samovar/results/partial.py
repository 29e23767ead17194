"""Directories in which no result may be begun: half a copy, half a removal, or with files of others.

Half a copy has the attribute `copy`, and no config yet. What is being removed has the attribute `removed`.
"""

from dataclasses import dataclass

from samovar.config.records import check_record
from samovar.errors import Conflict, NotAResult
from samovar.results.directory import CONFIG, EXTERNAL, ResultDirectory
from samovar.store import Lease, Store
from samovar.store.lease import LEASE

COPY = "copy"
_REMOVED = "removed"


@dataclass(frozen=True)
class CopyRecord:
    """The attribute `copy`."""

    source: str
    """The place that it was copied from."""
    id: str
    """Of the result there."""
    is_whole: bool
    """Whether all files are here. It is a result once it has a config, too."""


def find_copy(directory: ResultDirectory) -> CopyRecord | None:
    """Where `samovar copy` took a directory from; None if it was made where it is."""
    found = directory.store.attributes().values.get(COPY)
    return check_record(CopyRecord, found, f"{directory.name}: the attribute {COPY!r}") if found else None


def is_removed(store: Store) -> bool:
    """Whether somebody has begun to remove a directory."""
    return _REMOVED in store.attributes().values


def describe_partial(directory: ResultDirectory) -> str | None:
    """Half a copy or half a removal, in words; None if it is neither."""
    if is_removed(directory.store):
        return "half removed"
    known = find_copy(directory)
    return None if known is None or directory.is_created else f"an unfinished copy of {known.source}"


def refuse_foreign(directory: ResultDirectory) -> None:
    """Refuse a directory with files that Samovar did not make."""
    if directory.store.attributes().version > 0:
        return
    foreign = [entry.path for entry in directory.store.list() if not entry.path.startswith(f"{EXTERNAL}/")]
    if CONFIG in foreign:
        raise NotAResult(
            f"{directory.name} has a {CONFIG} but no hidden .samovar folder. Copy the directory again, with "
            "hidden files (cp -r DIR, not DIR/*)"
        )
    if foreign:
        raise NotAResult(
            f"{directory.name} has files that Samovar did not make, such as {foreign[0]}. Use a new or empty directory"
        )


def refuse_partial(directory: ResultDirectory) -> None:
    """Refuse half a copy, and half a removal."""
    found = describe_partial(directory)
    if found is not None:
        hint = "" if is_removed(directory.store) else "Run samovar copy again, or "
        command = f"samovar rm {directory.name}"
        raise Conflict(f"{directory.name} is {found}. {hint}{'remove' if hint else 'Remove'} the rest with {command}")


def mark_removed(store: Store, lease: Lease) -> None:
    """Make a directory no result any more, before its files are removed one by one. Only the lease is left of its
    attributes."""
    while True:
        attributes = lease.check()
        if store.compare_and_set("", attributes, {LEASE: attributes.values[LEASE], _REMOVED: True}) is not None:
            break
    store.remove(CONFIG)
