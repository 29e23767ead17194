"""Removes a result, a table or an experiment as a whole, and nothing that somebody works in."""

import os
import shutil
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from samovar.config.document import as_path
from samovar.errors import BadInput, Conflict, LeaseHeld, StoreError
from samovar.results.directory import CONFIG, EXPERIMENT_CONFIGS, ResultDirectory, open_directory
from samovar.runs.find import find_results
from samovar.store import Lease, LocalStore, take_lease


@dataclass(frozen=True)
class Removable:
    """What `remove` would remove.

    Attributes:
        path: The folder.
        kind: In words: "a model", "a table", "an experiment with 12 results".
        num_files: All files in it.
        size_bytes: Their sizes together.
    """

    path: Path
    kind: str
    num_files: int
    size_bytes: int


def find_removable(path: Path | str) -> Removable:
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
    folder = as_path(path, "the directory")
    if folder.is_symlink():
        raise BadInput(f"{folder} is a symbolic link. Name the directory itself: {folder.resolve()}")
    results = list(find_results(folder)) if folder.is_dir() else []
    if (folder / CONFIG).exists() or not (folder / EXPERIMENT_CONFIGS / "0.json").exists():
        kind = open_directory(folder).describe_kind()
        others = [each for each in results if each.resolve() != folder.resolve()]
        if others:
            raise Conflict(f"{folder} contains {others[0]}, which is another result. Move or remove it first")
    else:
        kind = f"an experiment with {len(results)} result{'' if len(results) == 1 else 's'}"
    for each in results:
        lease = ResultDirectory(LocalStore(each)).lease
        if lease.is_held:
            raise Conflict(f"{each} is in use by {lease.holder}. Stop that process first")
    files = [os.path.join(where, name) for where, _, names in os.walk(folder) for name in names]
    return Removable(folder, kind, len(files), sum(os.lstat(file).st_size for file in files))


def _release(lease: Lease) -> None:
    with suppress(StoreError):  # its record is gone with the folder
        lease.release()


def remove(path: Path | str) -> Removable:
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
    gone = found.path.with_name(f".{found.path.name}.removed-{uuid4().hex[:8]}")
    with ExitStack() as stack:
        try:
            for each in find_results(found.path):  # from here on nobody can begin to work in it
                stack.callback(_release, take_lease(LocalStore(each)))
            os.rename(found.path, gone)
        except LeaseHeld as error:
            raise Conflict(f"{found.path} is in use: {error}") from error
        except OSError as error:
            raise StoreError(f"{found.path}: cannot be removed: {error.strerror}") from error
    try:
        shutil.rmtree(gone)
    except OSError as error:
        raise StoreError(f"{found.path} is gone, but some of its files could not be deleted: {error}") from error
    return found
