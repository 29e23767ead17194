"""`why`: what changed in the results and raw files that a result was made from. Runs nothing."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from samovar.brewing.brew import TABLE_KIND, find_raw_ids
from samovar.config.diff import Diff, diff_flat, show_value
from samovar.config.values import MISSING
from samovar.errors import SamovarError
from samovar.results import Link, ResultDirectory, Source
from samovar.stages.inputs import changed_files, find_raw, wants_checksum


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
