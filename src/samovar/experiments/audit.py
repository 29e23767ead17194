"""Did anything change since a result was finished? Every byte is read again; nothing is written or run."""

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from samovar.brew.stage import KIND as TABLE
from samovar.brew.stage import find_raw_ids
from samovar.errors import Damaged, SamovarError
from samovar.experiments.raw_files import changed_files, find_raw, wants_checksum
from samovar.experiments.why import explain
from samovar.results import ResultDirectory, Source
from samovar.results.checked import FileRecord, map_checked
from samovar.results.directory import CONFIG, EXTERNAL, INVENTORY
from samovar.results.lineage import FILE as LINEAGE
from samovar.results.status import FILE as STATUS
from samovar.tables.manifest import table_inventory

_OUTSIDE = (INVENTORY, STATUS)  # the first is proven by the directory's attributes, the second changes
_RECORDS = (CONFIG, LINEAGE)
_NUM_THREADS = 8


@dataclass(frozen=True)
class Audited:
    num_files: int
    size_bytes: int
    differences: list[str]


def audit(directory: ResultDirectory) -> Audited:
    """All files of a finished result, or of a live table up to its newest version, and all that it was made from."""
    try:
        expected = _expected(directory)
    except Damaged as error:
        return Audited(0, 0, [str(error)])
    if expected is None:
        return Audited(0, 0, [f"is not finished ({directory.describe_state()}): nothing can be proven yet"])
    with ThreadPoolExecutor(_NUM_THREADS, thread_name_prefix="audit") as pool:
        found = pool.map(lambda item: _check(directory, *item), sorted(expected.items()))
        differences = [line for line in found if line is not None]
    differences += _extra(directory, expected)
    if not any(line.startswith(_RECORDS) for line in differences):  # else nobody knows what it was made from
        differences += _sources(directory)
    return Audited(len(expected), sum(record.size for record in expected.values()), differences)


def with_sources(directories: Iterable[ResultDirectory]) -> list[ResultDirectory]:
    """Results, and all that they were made from and that is still there, each once."""
    found: dict[Path, ResultDirectory] = {}
    for directory in directories:
        origins = [link.origin for link in directory.chain() if link.origin is not None]
        for each in (directory, *origins):
            found.setdefault(Path(each.name).resolve(), each)
    return list(found.values())


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


def find_raw_changes(directory: ResultDirectory) -> Iterator[str]:
    """What is not as it was in the raw files that a result was made from."""
    for source in directory.lineage.sources:
        if source.is_raw:
            try:
                reasons = _raw_changes(directory, source)
            except SamovarError as error:
                reasons = [str(error)]
            yield from (f"{source.key} = {source.path}: {reason}" for reason in reasons)


def _raw_changes(directory: ResultDirectory, source: Source) -> list[str]:
    if directory.lineage.kind == TABLE:
        is_recipe = "source" in directory.config  # tables that were made by a call from Python do not know theirs
        return ["changed"] if is_recipe and find_raw_ids(directory.config)[source.key] != source.id else []
    raw = find_raw(directory.config, Path())
    assert raw is not None
    return changed_files(source, raw.as_source(wants_checksum(directory.config)))
