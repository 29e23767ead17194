"""Answers from very many result directories (config, kind, code, facts, metrics), remembered until their files change.
The files are the truth: without the cache the answers are the same, only later.

An answer counts as long as size, times and inode of every file it was read from are unchanged. A file written less
than two seconds before it was read is not trusted: it could change again without its time moving.
"""

import json
import os
import struct
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from samovar.config.places import Place
from samovar.errors import CorruptData, SamovarError
from samovar.native import stamps_of
from samovar.native.files import CTIME
from samovar.results import ResultDirectory, open_directory
from samovar.results.artifacts import METRICS_LOG
from samovar.results.code import name_code
from samovar.results.directory import CONFIG
from samovar.results.lineage import LINEAGE
from samovar.results.status import STATUS
from samovar.runs.cache import Change, read_rows, write_rows
from samovar.runs.metrics import read_last, read_reductions, read_series
from samovar.runs.parallel import map_many
from samovar.store import open_store
from samovar.store.base import RESERVED

SETTLED_SECONDS = 2.0
_THREADS = 16  # that wait for an object store
MIN_TO_REMEMBER = 100
"""Reading fewer directories is faster than the cache."""

Json = Any
Answer = dict[str, Any]
Reply = Answer | SamovarError


def read_configs(folders: Sequence[Place]) -> list[Reply]:
    return read_many(_CONFIGS, folders)


def read_kinds(folders: Sequence[Place]) -> list[Reply]:
    """`kind`, as the lineage names it."""
    return read_many(_KINDS, folders)


def read_codes(folders: Sequence[Place]) -> list[Reply]:
    """`code`: the short name of the result's code, None if it has none."""
    return read_many(_CODES, folders)


def read_facts(folders: Sequence[Place]) -> list[Reply]:
    """`state` and `kind`, `heartbeat`, `position` and `error` of the status, each None if absent, and `is_settled`:
    whether they stay as they are until a file changes."""
    return read_many(_FACTS, folders)


def read_metrics(folders: Sequence[Place]) -> list[Reply]:
    """The last value of each metric."""
    return read_many(_METRICS, folders)


def read_whole_metrics(folders: Sequence[Place]) -> list[Reply]:
    """The last value of each metric, found in the whole log: also of those that were not logged lately."""
    return read_many(_WHOLE_METRICS, folders)


def read_all_reductions(folders: Sequence[Place]) -> list[Reply]:
    """Of each metric the last, mean, least, greatest and best value, from the whole log."""
    return read_many(_REDUCTIONS, folders)


def require_answers(replies: Iterable[Reply]) -> list[Answer]:
    """All replies, if none is an error; else raise the first error."""
    found = []
    for reply in replies:
        if isinstance(reply, SamovarError):
            raise reply
        found.append(reply)
    return found


@dataclass(frozen=True)
class Question:
    """One thing to ask many directories."""

    name: str
    """With the number of its format: answers to another format are not read."""
    files: Sequence[str]
    """All that the answer depends on, below the directory, present or not; for a folder, its list of entries."""
    read: Callable[[Place], Json]
    """Gives JSON: nothing else can be remembered."""
    is_lasting: Callable[[Json], bool] = lambda answer: True
    """Whether the answer depends on these files alone."""


def read_many(question: Question, folders: Sequence[Place]) -> list[Json | SamovarError]:
    """The answer of each directory, or the error that it gave instead."""
    read = partial(_read, question.read)
    local = [folder for folder in folders if isinstance(folder, Path)]
    if len(local) < len(folders):  # threads, because an object store cannot be used in a forked process
        known = dict(zip(local, read_many(question, local), strict=True))
        with ThreadPoolExecutor(_THREADS) as threads:
            return list(
                threads.map(lambda folder: known[folder] if isinstance(folder, Path) else read(folder), folders)
            )
    return _read_local(question, local)


def _read_local(question: Question, folders: Sequence[Path]) -> list[Json | SamovarError]:
    read = partial(_read, question.read)
    if len(folders) < MIN_TO_REMEMBER:
        return map_many(read, folders)
    names = [os.fsencode(os.path.abspath(folder)) for folder in folders]
    newest_settled = time.time_ns() - int(SETTLED_SECONDS * 1e9)
    stamps = [_stamp(name, question.files) for name in names]  # before anything is read
    known = _recall(question.name, names)
    answers: list[Any] = [None] * len(names)
    missing = []
    for number, name in enumerate(names):
        old = known.get(name)
        if old is not None and old[0] == stamps[number].data:
            answers[number] = old[1]
        else:
            missing.append(number)
    new = []
    for number, answer in zip(missing, map_many(read, [folders[number] for number in missing]), strict=True):
        answers[number] = answer
        is_settled = stamps[number].newest < newest_settled
        if is_settled and not isinstance(answer, SamovarError) and question.is_lasting(answer):
            new.append((question.name, names[number], stamps[number].data, json.dumps(answer)))
    if new:
        asked = set(names)
        gone = [(question.name, name) for name in known if name not in asked and not os.path.isdir(name)]
        write_rows(_TABLE, [Change(_INSERT, new), Change(_DELETE, gone)])
    return answers


def _read(read: Callable[[Place], Json], folder: Place) -> Json | SamovarError:
    try:
        return read(folder)
    except SamovarError as error:
        return error
    except (ValueError, KeyError) as error:
        return CorruptData(f"{folder}: cannot be read ({error!r}). Restore its files from a copy")


@dataclass(frozen=True, slots=True)
class _Stamps:
    data: bytes
    """Of all files of a question in one directory."""
    newest: int
    """When one of them last changed, in nanoseconds."""


_PACK = struct.Struct("4q").pack
_ABSENT = _PACK(-1, -1, -1, -1)


def _stamp(folder: bytes, files: Sequence[str]) -> _Stamps:
    data, newest = b"", 0
    for file in files:
        try:
            stamps = stamps_of(os.lstat(folder + b"/" + file.encode()))
        except OSError:
            data += _ABSENT
        else:
            data += _PACK(*stamps)
            newest = max(newest, stamps[CTIME])
    return _Stamps(data, newest)


# The number is the format: another version's table is left alone. Paths are bytes, because not all are text.
_TABLE = """
CREATE TABLE IF NOT EXISTS answers_1 (
    question TEXT, directory BLOB, stamps BLOB, answer TEXT, PRIMARY KEY (question, directory)
) WITHOUT ROWID
"""
_SELECT = "SELECT directory, stamps, answer FROM answers_1 WHERE question = ? AND directory BETWEEN ? AND ?"
_INSERT = "INSERT OR REPLACE INTO answers_1 VALUES (?, ?, ?, ?)"
_DELETE = "DELETE FROM answers_1 WHERE question = ? AND directory = ?"


def _recall(question: str, names: Sequence[bytes]) -> dict[bytes, tuple[bytes, Json]]:
    """Stamps and answer of every directory that is remembered at or below the folder that these share."""
    root = os.path.commonpath(names).rstrip(b"/")
    rows = read_rows(_TABLE, _SELECT, (question, root, root + b"0"))  # "0" is the character after "/"
    try:
        answers = json.loads(f"[{','.join(row[2] for row in rows)}]")  # one call is faster than ten thousand
        return {row[0]: (row[1], answer) for row, answer in zip(rows, answers, strict=True)}
    except (ValueError, TypeError):  # not what we wrote: it is read and written again
        return {}


def _read_config(folder: Place) -> Answer:
    return open_directory(folder).config


def _read_kind(folder: Place) -> Answer:
    return {"kind": ResultDirectory(open_store(folder)).lineage.kind}


def _read_code(folder: Place) -> Answer:
    return {"code": name_code(ResultDirectory(open_store(folder)).code)}


def _read_facts(folder: Place) -> Answer:
    directory = ResultDirectory(open_store(folder))
    found = directory.look()
    status, known = found.status, {"state": found.condition, "is_settled": found.is_settled}
    if status is None:
        return {**known, "kind": directory.lineage.kind, "heartbeat": None, "position": None, "error": None}
    error = None if status.error is None else f"{status.error['type']}: {status.error['message']}"
    return {
        **known,
        "kind": status.kind,
        "heartbeat": status.heartbeat,
        "position": status.position,
        "error": error,
    }


def _read_metrics(folder: Place) -> Answer:
    return read_last(ResultDirectory(open_store(folder)))


def _read_whole_metrics(folder: Place) -> Answer:
    series = read_series(ResultDirectory(open_store(folder)))
    return {metric: each.values[-1] for metric, each in series.items()}


def _read_reductions(folder: Place) -> Answer:
    return read_reductions(ResultDirectory(open_store(folder)))


_CONFIGS = Question("configs-1", (CONFIG,), _read_config)
_KINDS = Question("kinds-1", (LINEAGE,), _read_kind)
_CODES = Question("codes-1", (LINEAGE, f"{RESERVED}/attributes"), _read_code)
_FACTS = Question(
    "facts-2",
    (STATUS, f"{RESERVED}/attributes"),
    _read_facts,
    lambda facts: bool(facts["is_settled"]),
)
# The log is one file in a finished run, and a folder of segments before.
_LOG = (f"logs/{METRICS_LOG}", f"logs/{Path(METRICS_LOG).stem}")
_METRICS = Question("metrics-2", _LOG, _read_metrics)
_WHOLE_METRICS = Question("whole-metrics-2", _LOG, _read_whole_metrics)
_REDUCTIONS = Question("reductions-1", _LOG, _read_reductions)
