"""Reading a run's log: whole when the run is finished, else as far as its snapshots sealed it. Knows that a line is
a JSON object, and nothing of what stands in it."""

import json
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from samovar.errors import Damaged, NotFound
from samovar.store import Store

_END_LINES = 16


def read_log(store: Store, log: str) -> Iterator[dict[str, Any]]:
    """Every line of, for example, `metrics.jsonl`; none when there is no such log."""
    for path, data in _read_files(store, log):
        yield from _parse(f"{store.name}/{path}", data.splitlines(), 1)


def read_log_end(store: Store, log: str) -> list[dict[str, Any]]:
    """The last few lines: enough to know how a run stands."""
    path, data = next(iter(_read_files(store, log, newest_only=True)), ("", b""))
    data = data.rstrip(b"\n")
    lines = data.rsplit(b"\n", _END_LINES)[-_END_LINES:] if data else []
    return list(_parse(f"{store.name}/{path}", lines, data.count(b"\n") + 2 - len(lines)))


def _read_files(store: Store, log: str, newest_only: bool = False) -> list[tuple[str, bytes]]:
    whole = f"logs/{log}"
    for _ in range(2):  # the run may finish while we look: then its segments are gone, and the whole log is there
        try:
            return [(whole, store.read(whole))]
        except NotFound:
            segments = [entry.path for entry in store.list(f"logs/{PurePosixPath(log).with_suffix('')}")]
        try:
            return [(path, store.read(path)) for path in (segments[-1:] if newest_only else segments)]
        except NotFound:
            continue
    return []


def _parse(where: str, lines: list[bytes], first_number: int) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(lines, first_number):
        try:
            record = json.loads(line)
        except ValueError:
            record = None
        if not isinstance(record, dict):
            found = line[:60].decode(errors="replace")
            raise Damaged(
                f"{where}, line {number}: found {found!r}; expected a JSON object: restore the file from a copy"
            )
        yield record
