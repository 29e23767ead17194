"""`audit`: whether anything changed since a result was finished. Reads every byte again, writes and runs nothing."""

import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from samovar.config.places import PathLike
from samovar.errors import CorruptData, SamovarError
from samovar.provenance.reasons import explain, find_raw_changes
from samovar.results import ResultDirectory, open_directory
from samovar.results.checked import FileRecord, check_file
from samovar.results.directory import CONFIG, EXTERNAL, INVENTORY
from samovar.results.inventory import SEALED_LISTS
from samovar.results.lineage import LINEAGE
from samovar.results.snapshot import SNAPSHOTS
from samovar.results.status import STATUS
from samovar.tables.manifest import TABLE_ROOTS, table_inventory

_NOT_LISTED = (INVENTORY, STATUS)  # the directory's attributes prove the first, and the second changes
_RECORDS = (CONFIG, LINEAGE)
_NUM_THREADS = 8
_LATE = re.compile(rf"(?:{SNAPSHOTS}|{SEALED_LISTS}|{'|'.join(TABLE_ROOTS)})/\d{{6,}}\.e(\d{{1,18}})[./]", re.ASCII)


@dataclass(frozen=True)
class AuditReport:
    """What `audit` found.

    Attributes:
        num_files: How many files were checked.
        size_bytes: How large they are together.
        differences: One line per difference. Empty: nothing changed.
        notes: One line per file that does not count: what a process that was replaced wrote late.

    Example:
        >>> bool(audit("stages/total").differences)
        False
    """

    num_files: int
    size_bytes: int
    differences: list[str]
    notes: Sequence[str] = ()


def audit(path: PathLike) -> AuditReport:
    """Check that a finished result, or a live table up to its newest version, has not changed.

    Reads every byte of its files, and what it needs of its sources.

    Args:
        path: A result directory.

    Returns:
        What was checked, and each difference.

    Raises:
        NotAResult: There is no result at the path.

    Example:
        >>> audit("stages/total").differences
        []
    """
    directory = open_directory(path)
    try:
        expected = _list_expected(directory)
    except CorruptData as error:
        return AuditReport(0, 0, [str(error)])
    if expected is None:
        return AuditReport(0, 0, [f"not finished ({directory.describe_state()}), so there is nothing to compare with"])
    with ThreadPoolExecutor(_NUM_THREADS, thread_name_prefix="audit") as pool:
        checked = pool.map(lambda item: _check_file(directory, *item), sorted(expected.items()))
        differences = [line for line in checked if line is not None]
    late, added = _find_extra_files(directory, expected)
    differences += [f"{path}: was added after the finish. Move it to {EXTERNAL}/, or remove it" for path in added]
    if not any(line.startswith(_RECORDS) for line in differences):  # otherwise its sources are unknown
        differences += _check_sources(directory)
    notes = [f"{path}: left by a process that was killed or replaced, and not part of the result" for path in late]
    return AuditReport(len(expected), sum(record.size for record in expected.values()), differences, notes)


def _list_expected(directory: ResultDirectory) -> Mapping[str, FileRecord] | None:
    if directory.is_finished:
        return directory.inventory()
    return table_inventory(directory.store) if directory.is_live else None


def _check_file(directory: ResultDirectory, path: str, record: FileRecord) -> str | None:
    try:
        check_file(directory.store, path, record)
    except SamovarError as error:
        return str(error)
    return None


def _find_extra_files(directory: ResultDirectory, expected: Mapping[str, FileRecord]) -> tuple[list[str], list[str]]:
    """What the inventory does not list: first folders that are named by the epoch of a lease, then all other files."""
    if not directory.is_finished:
        return [], []
    paths = [entry.path for entry in directory.store.list() if not entry.path.startswith(f"{EXTERNAL}/")]
    extra = [path for path in paths if path not in expected and path not in _NOT_LISTED]
    last = directory.lease.epoch
    late = [path for path in extra if (match := _LATE.match(path)) is not None and int(match[1]) <= last]
    folders = sorted({"/".join(path.split("/")[:2]) for path in late})
    return folders, [path for path in extra if path not in late]


def _check_sources(directory: ResultDirectory) -> Iterator[str]:
    for link, reasons in explain(directory):
        yield f"{link.source.key} = {link.source.path} is {link.state}: {'; '.join(reasons)}"
    yield from find_raw_changes(directory)
