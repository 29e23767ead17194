"""Result directories, artifacts, snapshots, lineage: the only room that writes results. Knows no models."""

from samovar.results.arrays import StreamedArray
from samovar.results.directory import Link, ResultDirectory, open_directory
from samovar.results.lineage import Lineage, Source
from samovar.results.logs import read_log
from samovar.results.open_result import OpenResult, Plan, begin
from samovar.results.snapshot import Snapshot
from samovar.results.status import Status

__all__ = [
    "Lineage",
    "Link",
    "OpenResult",
    "Plan",
    "ResultDirectory",
    "Snapshot",
    "Source",
    "Status",
    "StreamedArray",
    "begin",
    "open_directory",
    "read_log",
]
