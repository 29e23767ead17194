"""Why a result is stale: what changed in the results that it was made from. Reads records, and no data."""

from collections.abc import Iterator, Mapping
from typing import Any

from samovar.config.diff import Diff, diff_flat, show_value
from samovar.config.values import MISSING
from samovar.results import Link, ResultDirectory


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
