"""`why`: what changed in the results and raw files that a result was made from. Reads records and, of raw files, what
their ids are made of. Runs nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from samovar.brewing.stage import TABLE_KIND, find_raw_ids
from samovar.config.diff import diff_flat, show_value
from samovar.config.places import PathLike
from samovar.config.values import MISSING
from samovar.embeddings.vectors import vectors_source
from samovar.errors import CorruptData, SamovarError
from samovar.provenance.graph import with_sources
from samovar.results import Link, ResultDirectory, Source, open_directory
from samovar.results.code import name_code
from samovar.results.environment import capture_environment, changed_environment
from samovar.results.lineage import is_in_memory
from samovar.stages.inputs import find_raw_files, list_changed_files, wants_checksum


@dataclass(frozen=True)
class StaleLink:
    """A source that is no longer what a result was made from.

    Attributes:
        key: The config key that named it.
        path: Where it is, or was.
        state: missing, changed, unfinished or circle.
        reasons: What changed, one line each.

    Example:
        >>> len(why("stages/total").stale)
        0
    """

    key: str
    path: str
    state: str
    reasons: Sequence[str]


@dataclass(frozen=True)
class Reasons:
    """Why a result is stale: what `why` returns. It is true if a source has changed.

    Attributes:
        directory: The result.
        code: The short name of its code, as `ls` and `diff` show it; None if it has none.
        stale: The links of its chain that are stale.
        raw_files: What changed in raw files along the chain, one line each.
        environment: What differs between the environment that made the result and this one, one line each.

    Example:
        >>> why("stages/total").stale
        []
    """

    directory: str
    code: str | None
    stale: Sequence[StaleLink]
    raw_files: Sequence[str]
    environment: Sequence[str]

    def __bool__(self) -> bool:
        return bool(self.stale or self.raw_files)


def why(path: PathLike) -> Reasons:
    """Explain why a result is stale.

    Compares configs, code, sources and raw files along its chain with what they were, and the environment.

    Args:
        path: A result directory.

    Returns:
        All that changed.

    Raises:
        NotAResult: There is no result at the path.

    Example:
        >>> reasons = why("stages/total")
        >>> bool(reasons), reasons.stale
        (False, [])
    """
    result = open_directory(path)
    links = [StaleLink(link.source.key, link.source.path, link.state, reasons) for link, reasons in explain(result)]
    raw = [
        f"{each.name}: {line}"
        for each in with_sources([result])
        for line in (*find_raw_changes(each), *find_lost_rows(each))
    ]
    code = name_code(result.code)
    return Reasons(result.name, code, links, raw, changed_environment(result.environment, capture_environment()))


def explain(directory: ResultDirectory) -> Iterator[tuple[Link, list[str]]]:
    """Each stale link of the chain, with the reasons."""
    for link in directory.chain():
        if link.is_stale:
            yield link, explain_link(link)


def explain_link(link: Link) -> list[str]:
    """Why a link is stale, one line per reason."""
    if link.state == "missing":
        return ["it no longer exists: restore it, or make it again with the same config and script"]
    if link.state == "circle":
        return ["the chain leads back to itself: one of these results was made again from its own output"]
    if link.state == "unreadable":
        return [f"its files are damaged: `samovar show {link.source.path}` says which"]
    assert link.origin is not None
    if link.state == "unfinished":
        return [f"it is not finished: {link.origin.describe_state()}"]
    if link.source.content is None:
        return [f"its id was {link.source.id} and is now {link.origin.id}; the content was not recorded"]
    return list(_compare_contents(link.source.content, link.origin.content))


def find_raw_changes(directory: ResultDirectory) -> Iterator[str]:
    """What changed in the raw files that a result was made from."""
    for source in directory.lineage.sources:
        if source.is_raw:
            try:
                reasons = _raw_changes(directory, source)
            except SamovarError as error:
                reasons = [str(error)]
            yield from (f"{source.key} = {source.path}: {reason}" for reason in reasons)


def find_lost_rows(directory: ResultDirectory) -> list[str]:
    """One line per source whose rows were in memory, and so cannot be compared or read again."""
    lost = [each for each in directory.lineage.sources if each.is_raw and is_in_memory(each.path)]
    return [f"{each.key} = {each.path}: they are not kept, so it is not known whether they changed" for each in lost]


def _compare_contents(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """Compare what two ids of a result were made of: kind, config, inputs and code (results/directory.py)."""
    if old["kind"] != new["kind"]:
        yield f"its kind changed: {old['kind']} → {new['kind']}"
    inputs = old["inputs"].keys() | new["inputs"].keys()
    configs = {
        name: {key: value for key, value in each["config"].items() if key not in inputs}
        for name, each in (("old", old), ("new", new))
    }
    for key, (was, now) in diff_flat(configs).rows.items():
        yield f"config {key}: {_show(was)} → {_show(now)}"
    for key, (was, now) in diff_flat({"old": old["inputs"], "new": new["inputs"]}).rows.items():
        yield f"source {key}: {_show(was)} → {_show(now)}"
    files = diff_flat({"old": old["code"], "new": new["code"]}).rows.items()
    if files:
        changes = (f"{name} {_name_change(was, now)}" for name, (was, now) in files)
        yield f"code: {name_code(old['code'])} → {name_code(new['code'])} ({', '.join(changes)})"


def _name_change(was: object, now: object) -> str:
    return "is new" if was is MISSING else "is missing" if now is MISSING else "changed"


def _show(value: Any) -> str:
    return "absent" if value is MISSING else show_value(value)


def _raw_changes(directory: ResultDirectory, source: Source) -> list[str]:
    if directory.lineage.kind == TABLE_KIND:
        has_recipe = "source" in directory.config  # a table made by a call from Python does not know its files
        now = find_raw_ids(directory.config) if has_recipe else {}
        return ["changed"] if now.get(source.key, source.id) != source.id else []
    if directory.kind == "model":
        return list_changed_files(source, vectors_source(source.key, source.path))
    raw = find_raw_files(directory.config, Path())
    if raw is None:
        raise CorruptData(f"{directory.name}: its lineage names raw files, but its config does not")
    return list_changed_files(source, raw.as_source(wants_checksum(directory.config)))
