"""What was read of very many result directories, remembered until their files change. Knows neither what is read nor
what it means. The files are the truth: without an index the answers are the same, only later.

An answer counts as long as size, times and inode of all files that it was read from are those of then. A file that was
written less than two seconds before it was read is not trusted: it could change again without its time moving.

Python's garbage collector at rest while very many small objects are made at once: none of them is garbage, and it
would look at all of them again and again.

The same small work on very many items, on all cores. Knows nothing of the work.

Caches in the system's temporary folder: small, of this user only, and no loss when they are gone.
"""

import gc
import hashlib
import json
import multiprocessing
import os
import signal
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from samovar.errors import CorruptData, SamovarError, StoreError
from samovar.native import stamps_of
from samovar.native.files import CTIME
from samovar.signals import NUMBERS
from samovar.store.disk import publish


@contextmanager
def paused_gc() -> Iterator[None]:
    """Around a block, or as a decorator; at the end all is as it was."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


Item = TypeVar("Item")
Answer = TypeVar("Answer")

_MOST_IN_CHUNK = 250
_LEAST_TO_FORK = 500  # below, starting the workers costs more than they save


def map_many(
    work: Callable[[Item], Answer], items: Sequence[Item], least_to_fork: int = _LEAST_TO_FORK
) -> list[Answer]:
    """The answers in the order of the items. Few items, one core, or a process with threads, which must not fork: then
    they are worked off here."""
    num_workers = min(len(os.sched_getaffinity(0)), len(items))
    if num_workers < 2 or len(items) < least_to_fork or threading.active_count() > 1:
        return [work(item) for item in items]
    chunk = max(1, min(_MOST_IN_CHUNK, len(items) // (4 * num_workers)))
    heard = signal.pthread_sigmask(signal.SIG_BLOCK, NUMBERS)  # half a pool would replace its ended workers for ever
    try:
        with multiprocessing.get_context("fork").Pool(num_workers, _leave_interrupts_to_the_parent) as pool:
            signal.pthread_sigmask(signal.SIG_SETMASK, heard)
            return pool.map(work, items, chunk)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, heard)


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # by which the parent ends them
    signal.pthread_sigmask(signal.SIG_UNBLOCK, NUMBERS)


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
    with (
        suppress(StoreError),
        publish(_file(folder, purpose, key), durable=False) as file,
        file.path.open("wb") as output,  # numpy would add .npz to a name
    ):
        np.savez(output, allow_pickle=False, **arrays)


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


SETTLED_SECONDS = 2.0
LEAST_TO_REMEMBER = 100
"""Fewer are read in no time."""

Json = Any
Stamps = list[list[int] | None]
"""One for each file, None where there is none."""
Kept = dict[str, tuple[Stamps, Json]]


@dataclass(frozen=True)
class Reading:
    """One thing that many directories are asked for."""

    name: str
    """Of the index, with the number of its format."""
    files: Sequence[str]
    """All that the answer depends on, below the directory, there or not; a folder counts by its entries."""
    read: Callable[[Path], Json]
    """Only JSON can be remembered."""
    is_lasting: Callable[[Json], bool] = lambda answer: True
    """Whether the answer depends on these files alone."""


def read_many(reading: Reading, folders: Sequence[Path]) -> list[Json | SamovarError]:
    """An answer for each directory, or the error that it gave instead."""
    if len(folders) < LEAST_TO_REMEMBER:
        return map_many(partial(_read, reading.read), folders)
    names = [os.path.abspath(folder) for folder in folders]
    key = os.path.commonpath(names)
    newest = time.time_ns() - int(SETTLED_SECONDS * 1e9)
    stamps = [[_stamp(name, file) for file in reading.files] for name in names]  # before anything is read
    kept = _load(reading.name, key)
    answers: list[Any] = [None] * len(names)
    missing = []
    for number, name in enumerate(names):
        old = kept.get(name)
        if old is not None and old[0] == stamps[number]:
            answers[number] = old[1]
        else:
            missing.append(number)
    found = map_many(partial(_read, reading.read), [folders[number] for number in missing])
    is_worth_keeping = False
    for number, answer in zip(missing, found, strict=True):
        answers[number] = answer
        is_settled = all(each is None or each[CTIME] < newest for each in stamps[number])
        if is_settled and not isinstance(answer, SamovarError) and reading.is_lasting(answer):
            kept[names[number]], is_worth_keeping = (stamps[number], answer), True
    if is_worth_keeping:
        asked = set(names)
        _keep(reading.name, key, {name: kept[name] for name in kept if name in asked or os.path.isdir(name)})
    return answers


def _read(read: Callable[[Path], Json], folder: Path) -> Json | SamovarError:
    try:
        return read(folder)
    except SamovarError as error:
        return error
    except (ValueError, KeyError) as error:
        return CorruptData(
            f"{folder}: cannot be read ({error!r}); expected the files as Samovar wrote them: restore them from a copy"
        )


def _stamp(folder: str, file: str) -> list[int] | None:
    try:
        return list(stamps_of(os.lstat(f"{folder}/{file}")))
    except OSError:
        return None


def _load(name: str, key: str) -> Kept:
    arrays = load_arrays(name, key)
    try:
        return {} if arrays is None else dict(json.loads(arrays["index"].tobytes()))
    except (KeyError, ValueError):  # not ours: it is made anew
        return {}


def _keep(name: str, key: str, kept: Kept) -> None:
    keep_arrays(name, key, {"index": np.frombuffer(json.dumps(kept).encode(), np.uint8)})
