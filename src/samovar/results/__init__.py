"""Result directories, their files, snapshots and lineage. The only room that writes results; knows no models."""

from samovar.results.arrays import StreamedArray, StreamedState
from samovar.results.artifacts import read_log
from samovar.results.directory import Link, ResultDirectory, open_directory
from samovar.results.lineage import Lineage, Source
from samovar.results.open_result import OpenResult, begin
from samovar.results.plan import ResultPlan
from samovar.results.snapshot import Snapshot
from samovar.results.status import Status

__all__ = [
    "Lineage",
    "Link",
    "OpenResult",
    "ResultDirectory",
    "ResultPlan",
    "Snapshot",
    "Source",
    "Status",
    "StreamedArray",
    "StreamedState",
    "begin",
    "open_directory",
    "read_log",
]
