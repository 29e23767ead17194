"""Did anything change since a result was finished? Every byte is read again; nothing is written or run."""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from samovar.errors import CorruptData, SamovarError
from samovar.provenance.why import explain, find_raw_changes
from samovar.results import ResultDirectory
from samovar.results.checked import FileRecord, map_checked
from samovar.results.directory import CONFIG, EXTERNAL, INVENTORY, LINEAGE, STATUS
from samovar.tables.manifest import table_inventory

_OUTSIDE = (INVENTORY, STATUS)  # the first is proven by the directory's attributes, the second changes
_RECORDS = (CONFIG, LINEAGE)
_NUM_THREADS = 8


@dataclass(frozen=True)
class AuditReport:
    num_files: int
    size_bytes: int
    differences: list[str]


def audit(directory: ResultDirectory) -> AuditReport:
    """All files of a finished result, or of a live table up to its newest version, and all that it was made from."""
    try:
        expected = _expected(directory)
    except CorruptData as error:
        return AuditReport(0, 0, [str(error)])
    if expected is None:
        return AuditReport(0, 0, [f"is not finished ({directory.describe_state()}): nothing can be proven yet"])
    with ThreadPoolExecutor(_NUM_THREADS, thread_name_prefix="audit") as pool:
        found = pool.map(lambda item: _check(directory, *item), sorted(expected.items()))
        differences = [line for line in found if line is not None]
    differences += _extra(directory, expected)
    if not any(line.startswith(_RECORDS) for line in differences):  # else nobody knows what it was made from
        differences += _sources(directory)
    return AuditReport(len(expected), sum(record.size for record in expected.values()), differences)


def _expected(directory: ResultDirectory) -> Mapping[str, FileRecord] | None:
    if directory.is_finished:
        return directory.inventory()
    return table_inventory(directory.store) if directory.is_live else None


def _check(directory: ResultDirectory, path: str, record: FileRecord) -> str | None:
    try:
        map_checked(directory.store, path, record)
    except SamovarError as error:
        return str(error)
    return None


def _extra(directory: ResultDirectory, expected: Mapping[str, FileRecord]) -> list[str]:
    if not directory.is_finished:
        return []
    paths = [entry.path for entry in directory.store.list() if not entry.path.startswith(f"{EXTERNAL}/")]
    return [
        f"{path}: was not there at the finish; expected no other files: move it to {EXTERNAL}/, or away"
        for path in paths
        if path not in expected and path not in _OUTSIDE
    ]


def _sources(directory: ResultDirectory) -> Iterator[str]:
    for link, reasons in explain(directory):
        yield f"{link.source.key} = {link.source.path} is {link.state}: {'; '.join(reasons)}"
    yield from find_raw_changes(directory)
