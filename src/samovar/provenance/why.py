"""`why`: what changed in the results and raw files that a result was made from. Reads records and, of raw files, what
their ids are made of. Runs nothing.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from samovar.brewing.brew import TABLE_KIND, find_raw_ids
from samovar.config.diff import diff_flat, show_value
from samovar.config.values import MISSING
from samovar.errors import SamovarError
from samovar.results import Link, ResultDirectory, Source
from samovar.stages.inputs import find_raw_files, list_changed_files, wants_checksum


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
    for name, (was, now) in diff_flat({"old": old["code"], "new": new["code"]}).rows.items():
        yield f"code {name} {'is new' if was is MISSING else 'is missing' if now is MISSING else 'changed'}"


def _show(value: Any) -> str:
    return "absent" if value is MISSING else show_value(value)


def _raw_changes(directory: ResultDirectory, source: Source) -> list[str]:
    if directory.lineage.kind == TABLE_KIND:
        has_recipe = "source" in directory.config  # a table made by a call from Python does not know its files
        return ["changed"] if has_recipe and find_raw_ids(directory.config)[source.key] != source.id else []
    raw = find_raw_files(directory.config, Path())
    assert raw is not None
    return list_changed_files(source, raw.as_source(wants_checksum(directory.config)))
