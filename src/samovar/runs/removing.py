"""Removes a result, a table or an experiment as a whole, and nothing that somebody works in."""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from uuid import uuid4

from samovar.config.places import PathLike, Place, Url, as_place
from samovar.errors import BadInput, Conflict, LeaseHeld, StoreError
from samovar.results.directory import CONFIG, EXPERIMENT_CONFIGS, ResultDirectory, open_directory
from samovar.results.partial import describe_partial, mark_removed
from samovar.runs.find import find_results
from samovar.store import Lease, open_store, take_lease


@dataclass(frozen=True)
class Removable:
    """What `remove` would remove.

    Attributes:
        path: The folder.
        kind: In words: "a model", "a table", "an experiment with 12 results".
        num_files: All files in it.
        size_bytes: Their sizes together.

    Example:
        >>> find_removable("models/click_1").kind
        'a model'
    """

    path: Place
    kind: str
    num_files: int
    size_bytes: int


def find_removable(path: PathLike) -> Removable:
    """Look at what would be removed, and refuse what must not be.

    Args:
        path: The directory of a result, a table or an experiment.

    Raises:
        NotAResult: There is none.
        Conflict: Other results are inside it, or somebody works in it.

    Example:
        >>> find_removable("models/click_1").kind
        'a model'
    """
    folder = as_place(path, "the directory")
    if isinstance(folder, Url):
        return _find_remote(folder)
    if folder.is_symlink():
        raise BadInput(f"{folder} is a symbolic link. Name the directory itself: {folder.resolve()}")
    results = list(find_results(folder)) if folder.is_dir() else []
    partial = describe_partial(ResultDirectory(open_store(folder))) if folder.is_dir() else None
    if partial is not None:
        kind, results = partial, _list_results(folder)
    elif (folder / CONFIG).exists() or not (folder / EXPERIMENT_CONFIGS / "0.json").exists():
        kind = open_directory(folder).describe_kind()
        others = [each for each in results if each.resolve() != folder.resolve()]
        if others:
            raise Conflict(f"{folder} contains {others[0]}, which is another result. Move or remove it first")
    else:
        kind = _describe_experiment(results)
    _refuse_used(results)
    files = [os.path.join(where, name) for where, _, names in os.walk(folder) for name in names]
    return Removable(folder, kind, len(files), sum(os.lstat(file).st_size for file in files))


def _find_remote(folder: Url) -> Removable:
    store, results = open_store(folder), _list_results(folder)
    is_experiment = store.size(f"{EXPERIMENT_CONFIGS}/0.json") is not None and folder not in results
    kind = describe_partial(ResultDirectory(store))
    if is_experiment:
        kind = _describe_experiment(results)
    elif kind is None:
        kind = open_directory(folder).describe_kind()
        if others := [each for each in results if each != folder]:
            raise Conflict(f"{folder} contains {others[0]}, which is another result. Move or remove it first")
    _refuse_used(results)
    entries = store.list()
    return Removable(folder, kind, len(entries), sum(entry.size for entry in entries))


def _list_results(folder: Place) -> list[Place]:
    """All results in a folder, and half of one."""
    is_partial = describe_partial(ResultDirectory(open_store(folder))) is not None
    return list(dict.fromkeys([*find_results(folder), *([folder] if is_partial else [])]))


def _describe_experiment(results: Sequence[Place]) -> str:
    return f"an experiment with {len(results)} result{'' if len(results) == 1 else 's'}"


def _refuse_used(results: Sequence[Place]) -> None:
    for each in results:
        lease = ResultDirectory(open_store(each)).lease
        if lease.is_held:
            raise Conflict(f"{each} is in use by {lease.holder}. Stop that process first")


@contextmanager
def _releasing(lease: Lease) -> Iterator[Lease]:
    try:
        yield lease
    finally:
        with suppress(StoreError):  # its record is gone with the folder
            lease.release()


def _remove_remote(folder: Url) -> None:
    """An object store cannot rename. The attributes go first, then the configs: what is left after a kill is no result
    any more, and says itself that it is to be removed."""
    with ExitStack() as stack:
        try:
            stores = [open_store(each) for each in dict.fromkeys([*find_results(folder), folder])]
            leases = [stack.enter_context(_releasing(take_lease(store))) for store in stores]
        except LeaseHeld as error:
            raise Conflict(f"{folder} is in use: {error}") from error
        for store, lease in zip(stores, leases, strict=True):
            mark_removed(store, lease)
        for store in stores:
            store.erase()


def remove(path: PathLike) -> Removable:
    """Remove the directory of a result, a table or an experiment.

    It vanishes at once: the folder is renamed before its files are deleted, so that a kill leaves no half of it under
    its name.

    Args:
        path: The directory.

    Returns:
        What was removed.

    Raises:
        NotAResult: There is no such directory.
        Conflict: Other results are inside it, or somebody works in it.

    Example:
        >>> remove("models/click_1").kind
        'a model'
    """
    found = find_removable(path)
    if isinstance(found.path, Url):
        _remove_remote(found.path)
        return found
    gone = found.path.with_name(f".{found.path.name}.removed-{uuid4().hex[:8]}")
    with ExitStack() as stack:
        try:
            for each in _list_results(found.path):  # from here on nobody can begin to work in it
                stack.enter_context(_releasing(take_lease(open_store(each))))
            os.rename(found.path, gone)
        except LeaseHeld as error:
            raise Conflict(f"{found.path} is in use: {error}") from error
        except OSError as error:
            raise StoreError(f"{found.path} cannot be removed: {error.strerror}") from error
    try:
        shutil.rmtree(gone)
    except OSError as error:
        raise StoreError(f"{found.path} is gone, but some of its files could not be deleted: {error}") from error
    return found
