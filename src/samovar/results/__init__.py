"""Result directories, their files, snapshots and lineage. The only room that writes results; knows no models."""

from samovar.results.arrays import StreamedArray
from samovar.results.artifacts import read_log
from samovar.results.directory import Lineage, Link, ResultDirectory, Source, Status, open_directory
from samovar.results.open_result import OpenResult, ResultPlan, begin
from samovar.results.snapshot import Snapshot

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
    "begin",
    "open_directory",
    "read_log",
]
