"""Caches in the system's temporary folder: small, of this user only, and no loss when they are gone."""

import hashlib
import os
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

Arrays = Mapping[str, NDArray[Any]]


def load_arrays(purpose: str, key: str) -> Arrays | None:
    """What was kept; None when there is nothing that can be used."""
    folder = _own_folder()
    if folder is None:
        return None
    try:
        with _file(folder, purpose, key).open("rb") as file, np.load(file, allow_pickle=False) as kept:
            return {name: kept[name] for name in kept.files}
    except (OSError, ValueError, EOFError, BadZipFile):  # not there, or torn: it is made anew
        return None


def keep_arrays(purpose: str, key: str, arrays: Arrays) -> None:
    """Whole or not at all; a disk that is full keeps nothing, and that is no error."""
    folder = _own_folder()
    if folder is None:
        return
    target = _file(folder, purpose, key)
    scratch = target.with_suffix(f".{os.getpid()}")
    try:
        with scratch.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)
        scratch.replace(target)
    except OSError:
        scratch.unlink(missing_ok=True)


def _file(folder: Path, purpose: str, key: str) -> Path:
    return folder / f"{purpose}-{hashlib.sha256(os.fsencode(key)).hexdigest()[:32]}.npz"


def _own_folder() -> Path | None:
    """None when the name is taken by somebody else, whose words must not be believed."""
    folder = Path(tempfile.gettempdir()) / f"samovar-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return None
    is_ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022
    return folder if is_ours else None
