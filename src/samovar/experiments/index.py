"""What was read of very many result directories, remembered until their files change. Knows neither what is read nor
what it means. The files are the truth: without an index the answers are the same, only later.

An answer counts as long as size, times and inode of all files that it was read from are those of then. A file that was
written less than two seconds before it was read is not trusted: it could change again without its time moving.
"""

import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from samovar.errors import Damaged, SamovarError
from samovar.experiments.parallel import map_many
from samovar.experiments.throwaway import keep_arrays, load_arrays
from samovar.native import stamps_of
from samovar.native.files import CTIME

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
        return Damaged(
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
