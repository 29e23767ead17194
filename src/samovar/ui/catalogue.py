"""All runs of the folder in memory, as the scanner last saw them, and what is asked of them: filter, sort, group, tree.
Reads no disk: every number was read by the calls behind `samovar ls`.
"""

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from samovar.runs.grouping import GroupListing, group_runs
from samovar.runs.listing import Columns, ListingRequest, RunSummary, Selection
from samovar.runs.metrics import LOSS, badness_of, knows_direction, main_metrics
from samovar.ui.child import Child
from samovar.ui.scanner import News

MOST_ROWS = 200
_RESTART_SECONDS = 2.0


@dataclass(frozen=True)
class View:
    """What a page of runs shows.

    Attributes:
        selection: All runs that were asked for.
        total: How many runs there are below the folder.
        known: Every column that one of them has.
        groups: The same runs, grouped; None if that was not asked.
    """

    selection: Selection
    total: int
    known: Columns
    groups: GroupListing | None = None


@dataclass(frozen=True)
class Folder:
    """A folder that has runs in it, with the number of runs by state."""

    path: str
    depth: int
    counts: Mapping[str, int]


class Catalogue:
    """The runs of a folder. `version` grows with each change of any of them.

    Args:
        root: The folder.
        clock: Seconds since 1970.
    """

    def __init__(self, root: Path, clock: Callable[[], float] = time.time) -> None:
        self.root = root
        self.version = 0
        self.is_complete = False
        self.problem: str | None = None
        self.clock = clock
        self._lock = threading.Lock()
        self._runs: dict[str, RunSummary] = {}
        self._stale: set[str] = set()
        self._columns: tuple[int, Columns] | None = None
        self._texts: dict[str, str] = {}

    def apply(self, news: News) -> None:
        """Take in what the scanner saw."""
        with self._lock:
            runs = dict(self._runs)
            for path, summary in news.runs.items():
                if summary is None:
                    runs.pop(path, None)
                    self._stale.discard(path)
                else:
                    runs[path] = self._shared(summary)
            for path, is_stale in news.stale.items():
                (self._stale.add if is_stale else self._stale.discard)(path)
            is_news = (
                bool(news.runs)
                or bool(news.stale)
                or (self.is_complete, self.problem) != (news.is_complete, news.problem)
            )
            if is_news:
                is_new = news.runs.keys() - self._runs.keys()
                self._runs = dict(sorted(runs.items(), key=_by_path)) if is_new else runs
                self.is_complete, self.problem = news.is_complete, news.problem
                self.version += 1

    def _shared(self, summary: RunSummary) -> RunSummary:
        """The same names of keys and metrics, kept once for all runs."""
        return replace(
            summary,
            metrics={sys.intern(name): value for name, value in summary.metrics.items()},
            config={sys.intern(name): self._share(value) for name, value in summary.config.items()},
            reductions={
                sys.intern(name): {sys.intern(each): value for each, value in values.items()}
                for name, values in summary.reductions.items()
            },
        )

    def _share(self, value: Any) -> Any:
        return self._texts.setdefault(value, value) if type(value) is str else value

    def get(self, path: str) -> RunSummary | None:
        """A run by its path below the folder; "." is the folder itself."""
        return self._runs.get(path or ".")

    def paths(self) -> list[str]:
        """The paths of all runs, in order."""
        return list(self._runs)

    def __len__(self) -> int:
        return len(self._runs)

    def is_stale(self, path: str) -> bool:
        """Whether a source of the run is no longer what it was, as far as that was looked at."""
        return path in self._stale

    @property
    def columns(self) -> Columns:
        """Every column that a run has."""
        found, version = self._columns, self.version
        if found is None or found[0] != version:
            found = self._columns = (version, Columns.of(self._runs.values()))
        return found[1]

    def view(self, request: ListingRequest, below: str = "", group: Sequence[str] = ()) -> View:
        """The runs below a folder that meet a request.

        Raises:
            BadInput: What was asked makes no sense, as in `samovar ls`.
        """
        runs = list(self._runs.values())
        if below:
            runs = [run for path, run in self._runs.items() if path == below or path.startswith(f"{below}/")]
        known = self.columns
        selection = request.select(runs, known, self.clock())
        return View(selection, len(runs), known, group_runs(selection, group) if group else None)

    def folders(self) -> list[Folder]:
        """The tree of folders that hold runs, depth first, without the runs themselves."""
        counts: dict[str, Counter[str]] = {"": Counter()}
        for path, run in self._runs.items():
            for parent in list(PurePosixPath(path).parents)[:-1]:
                counts.setdefault(str(parent), Counter())[str(run.facts["state"])] += 1
            counts[""][str(run.facts["state"])] += 1
        ordered = sorted(counts, key=lambda path: path.split("/"))
        return [Folder(path, path.count("/") + 1 if path else 0, counts[path]) for path in ordered]

    def in_state(self, *states: str) -> list[RunSummary]:
        """The runs in one of these states, the one that gave the last sign of life first."""
        found = [run for run in self._runs.values() if run.facts["state"] in states]
        return sorted(found, key=lambda run: run.heartbeat or 0.0, reverse=True)

    def stale(self) -> list[RunSummary]:
        """The runs whose sources changed."""
        return [run for path, run in self._runs.items() if path in self._stale]

    def leaders(self, most: int = 5) -> tuple[str, list[RunSummary]] | None:
        """The metric that most people care about, and the runs that are best by it; None if no run has one."""
        metric = main_metric(run.metrics for run in self._runs.values())
        if metric is None:
            return None
        having = [run for run in self._runs.values() if "best" in run.reductions.get(metric, {})]
        return metric, sorted(having, key=lambda run: badness_of(metric, run.reductions[metric]["best"]))[:most]


def _by_path(item: tuple[str, object]) -> list[str]:
    return item[0].split("/")


_FIRST = ("auc", "log_loss", "ndcg", "accuracy", "rmse")
"""The last part of a metric's name: the first that a run has says how good it is."""


def main_metric(runs: Any) -> str | None:
    """Of the metrics whose direction is known, the one that says how good most runs are."""
    counts = Counter(metric for metrics in runs for metric in main_metrics(metrics) if knows_direction(metric))

    def rank(metric: str) -> tuple[bool, int, int]:
        last = metric.rpartition(".")[2].partition("@")[0]
        return last == LOSS, _FIRST.index(last) if last in _FIRST else len(_FIRST), -counts[metric]

    return min(counts, key=rank, default=None)


class Watch:
    """The thread that takes what the scanner sends into the catalogue, and starts the scanner again if it dies.

    Args:
        catalogue: Where to.
    """

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._closing = threading.Event()
        self._child = self._start()
        self._thread = threading.Thread(target=self._run, name="catalogue", daemon=True)
        self._thread.start()

    def _start(self) -> Child:
        return Child("scanner:scan", str(self._catalogue.root))

    def look(self) -> None:
        """Ask for a look now."""
        try:
            self._child.pipe.outward.send("look")
        except OSError:
            return  # it has died, and the next one looks anyway

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                self._catalogue.apply(self._child.pipe.inward.recv())
            except (EOFError, OSError):
                if not self._closing.wait(_RESTART_SECONDS):
                    self._child = self._start()

    def close(self) -> None:
        self._closing.set()
        self._child.end()
        self._thread.join(_RESTART_SECONDS)
