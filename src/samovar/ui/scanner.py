"""The child process that keeps looking at the folder. Finished runs are looked at again once a minute, others every two
seconds; if that takes long, it pauses longer. Sends summaries, and shows nothing.
"""

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from samovar.errors import SamovarError
from samovar.results import open_directory
from samovar.runs.find import find_folders
from samovar.runs.listing import RunSummary, summarize_runs
from samovar.runs.parallel import paused_gc
from samovar.ui.child import Pipe

LOOK_SECONDS = 2.0
WALK_SECONDS = 60.0
_REST = 4.0
"""For each second of work, it pauses for this many."""
_CHAIN_SECONDS = 0.5
_ENDED = ("finished", "unreadable")


@dataclass(frozen=True)
class News:
    """What changed since the last message.

    Attributes:
        runs: By path below the folder; None for one that is gone.
        stale: By path, whether a source of it is no longer what it was.
        is_complete: Whether every run below the folder was looked at.
        problem: Why the folder cannot be read.
    """

    runs: dict[str, RunSummary | None] = field(default_factory=dict)
    stale: dict[str, bool] = field(default_factory=dict)
    is_complete: bool = True
    problem: str | None = None


def scan(pipe: Pipe, root: str) -> None:
    """Look, send what changed, pause; until the server closes its end."""
    scanner = Scanner(Path(root))
    while True:
        began = time.monotonic()
        pipe.outward.send(scanner.look())
        pause = max(LOOK_SECONDS, _REST * (time.monotonic() - began))
        if pipe.inward.poll(pause):
            pipe.inward.recv()  # asks for a look now; raises EOFError at the end


class Scanner:
    """What is known of the runs below a folder.

    Args:
        root: The folder.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._runs: dict[str, RunSummary] = {}
        self._containers: dict[str, int] = {}
        """When each folder that is no result last changed: a new run shows there."""
        self._walked_at = float("-inf")
        self._stale: dict[str, bool] = {}
        self._to_follow: Iterator[str] = iter(())

    def look(self) -> News:
        """Look once at what may have changed."""
        try:
            os.chdir(self._root)
        except OSError as error:
            all_gone: dict[str, RunSummary | None] = {path: None for path in self._runs}  # noqa: C420  # for its type
            self._runs, self._containers, self._walked_at = {}, {}, float("-inf")
            return News(all_gone, problem=f"{self._root}: {error.strerror}")
        is_first = not self._containers
        is_walk = time.monotonic() - self._walked_at >= WALK_SECONDS
        if is_walk or self._has_new_folders():
            paths = self._walk()
            gone = [path for path in self._runs if path not in paths]
            new = [path for path in paths if is_walk or path not in self._runs or self._may_change(path)]
        else:
            gone, new = [], [path for path in self._runs if self._may_change(path)]
        changed: dict[str, RunSummary | None] = {path: None for path in gone}  # noqa: C420  # for its type
        for path, summary in zip(new, self._summarize(new), strict=True):
            if self._runs.get(path) != summary:
                self._runs[path] = changed[path] = summary
        for path in gone:
            del self._runs[path]
            self._stale.pop(path, None)
        return News(changed, {} if is_first else self._follow_chains())

    def _walk(self) -> set[str]:
        self._walked_at = time.monotonic()
        self._containers, paths = {}, set()
        for folder, is_result in find_folders("."):
            if is_result:
                paths.add(str(folder))
            else:
                self._containers[str(folder)] = _changed_at(str(folder))
        return paths

    def _has_new_folders(self) -> bool:
        return any(_changed_at(folder) != known for folder, known in self._containers.items())

    def _may_change(self, path: str) -> bool:
        return self._runs[path].facts["state"] not in _ENDED

    @paused_gc()
    def _summarize(self, paths: Sequence[str]) -> list[RunSummary]:
        return summarize_runs([Path(path) for path in paths], with_reductions=True)

    def _follow_chains(self) -> dict[str, bool]:
        """Whether runs are stale: some of them each time, because a chain leads to many files."""
        found: dict[str, bool] = {}
        until = time.monotonic() + _CHAIN_SECONDS
        while time.monotonic() < until:
            path = next(self._to_follow, None)
            if path is None:
                self._to_follow = iter(list(self._runs))
                break
            if path in self._runs:
                stale = _is_stale(path)
                if self._stale.get(path, False) != stale:
                    self._stale[path] = found[path] = stale
        return found


def _is_stale(path: str) -> bool:
    try:
        return any(link.is_stale for link in open_directory(path).chain())
    except SamovarError:
        return False  # unreadable, which its state says


def _changed_at(folder: str) -> int:
    try:
        return os.stat(folder).st_mtime_ns
    except OSError:
        return -1
