"""`audit`: whether anything changed since a result was finished. Reads every byte again, writes and runs nothing."""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from samovar.errors import CorruptData, SamovarError
from samovar.provenance.why import explain, find_raw_changes
from samovar.results import ResultDirectory
from samovar.results.checked import FileRecord, map_checked
from samovar.results.directory import CONFIG, EXTERNAL, INVENTORY, LINEAGE, STATUS
from samovar.tables.manifest import table_inventory

_NOT_LISTED = (INVENTORY, STATUS)  # the directory's attributes prove the first, and the second changes
_RECORDS = (CONFIG, LINEAGE)
_NUM_THREADS = 8


@dataclass(frozen=True)
class AuditReport:
    num_files: int
    size_bytes: int
    differences: list[str]
    """Empty: nothing changed."""


def audit(directory: ResultDirectory) -> AuditReport:
    """Check every file of a finished result, or of a live table up to its newest version, and all of its sources."""
    try:
        expected = _list_expected(directory)
    except CorruptData as error:
        return AuditReport(0, 0, [str(error)])
    if expected is None:
        return AuditReport(0, 0, [f"not finished ({directory.describe_state()}), so there is nothing to compare with"])
    with ThreadPoolExecutor(_NUM_THREADS, thread_name_prefix="audit") as pool:
        checked = pool.map(lambda item: _check_file(directory, *item), sorted(expected.items()))
        differences = [line for line in checked if line is not None]
    differences += _find_extra_files(directory, expected)
    if not any(line.startswith(_RECORDS) for line in differences):  # otherwise its sources are unknown
        differences += _check_sources(directory)
    return AuditReport(len(expected), sum(record.size for record in expected.values()), differences)


def _list_expected(directory: ResultDirectory) -> Mapping[str, FileRecord] | None:
    if directory.is_finished:
        return directory.inventory()
    return table_inventory(directory.store) if directory.is_live else None


def _check_file(directory: ResultDirectory, path: str, record: FileRecord) -> str | None:
    try:
        map_checked(directory.store, path, record)
    except SamovarError as error:
        return str(error)
    return None


def _find_extra_files(directory: ResultDirectory, expected: Mapping[str, FileRecord]) -> list[str]:
    if not directory.is_finished:
        return []
    paths = [entry.path for entry in directory.store.list() if not entry.path.startswith(f"{EXTERNAL}/")]
    return [
        f"{path}: was added after the finish. Move it to {EXTERNAL}/, or remove it"
        for path in paths
        if path not in expected and path not in _NOT_LISTED
    ]


def _check_sources(directory: ResultDirectory) -> Iterator[str]:
    for link, reasons in explain(directory):
        yield f"{link.source.key} = {link.source.path} is {link.state}: {'; '.join(reasons)}"
    yield from find_raw_changes(directory)
