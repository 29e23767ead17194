"""Did anything change since a result was finished? Every byte is read again; nothing is written or run.

Why a result is stale: what changed in the results that it was made from. Reads records, and no data.
"""

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from samovar.brewing.brew import TABLE_KIND, find_raw_ids
from samovar.config.diff import Diff, diff_flat, show_value
from samovar.config.values import MISSING
from samovar.errors import CorruptData, SamovarError
from samovar.results import Link, ResultDirectory, Source
from samovar.results.checked import FileRecord, map_checked
from samovar.results.directory import CONFIG, EXTERNAL, INVENTORY, LINEAGE, STATUS
from samovar.stages.inputs import changed_files, find_raw, wants_checksum
from samovar.tables.manifest import table_inventory


def explain(directory: ResultDirectory) -> Iterator[tuple[Link, list[str]]]:
    """Each link of the chain that is stale, with the reasons."""
    for link in directory.chain():
        if link.is_stale:
            yield link, explain_link(link)


def explain_link(link: Link) -> list[str]:
    if link.state == "missing":
        return ["nothing is there any more: bring it back, or make it again with the same config and script"]
    if link.state == "circle":
        return ["the chain comes back to where it was: one of these was made again from its own result"]
    assert link.origin is not None
    if link.state == "unfinished":
        return [f"it is not finished: {link.origin.describe_state()}"]
    if link.source.content is None:
        return [f"its id is {link.origin.id}, and was {link.source.id}; what that stood for was not recorded"]
    return list(_differences(link.source.content, link.origin.content))


def _differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """Between two contents (results/lineage.py)."""
    if old["kind"] != new["kind"]:
        yield f"it is of another kind: {old['kind']} → {new['kind']}"
    inputs = old["inputs"].keys() | new["inputs"].keys()
    configs = {name: {key: value for key, value in each["config"].items() if key not in inputs}
               for name, each in (("old", old), ("new", new))}  # fmt: skip
    for word, diff in (
        ("config", diff_flat(configs)),
        ("source", diff_flat({"old": old["inputs"], "new": new["inputs"]})),
        ("code", diff_flat({"old": old["code"], "new": new["code"]})),
    ):
        yield from _lines(word, diff)


def _lines(word: str, diff: Diff) -> Iterator[str]:
    for key, (old, new) in diff.rows.items():
        if word == "code":
            yield f"code {key} {'is new' if old is MISSING else 'is gone' if new is MISSING else 'changed'}"
        else:
            yield f"{word} {key}: {_shown(old)} → {_shown(new)}"


def _shown(value: Any) -> str:
    return "absent" if value is MISSING else show_value(value)


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
    if directory.lineage.kind == TABLE_KIND:
        is_recipe = "source" in directory.config  # tables that were made by a call from Python do not know theirs
        return ["changed"] if is_recipe and find_raw_ids(directory.config)[source.key] != source.id else []
    raw = find_raw(directory.config, Path())
    assert raw is not None
    return changed_files(source, raw.as_source(wants_checksum(directory.config)))
