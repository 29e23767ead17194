"""The lines of a log, while it grows and when it is joined. Reads only."""

import json
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from samovar.results.directory import ResultDirectory


def read_log(directory: ResultDirectory, name: str) -> Iterator[dict[str, Any]]:
    """For example `metrics.jsonl`: joined when the result is finished, else the segments that snapshots sealed."""
    store = directory.store
    paths = [f"logs/{name}"] if store.size(f"logs/{name}") is not None else []
    for path in paths or [entry.path for entry in store.list(f"logs/{PurePosixPath(name).stem}")]:
        for line in store.read(path).splitlines():
            yield json.loads(line)
