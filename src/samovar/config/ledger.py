"""The record of every parameter that code read, with its default. Knows paths and values, not the config
they come from; `Params` writes it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from samovar.config.diff import flatten
from samovar.config.nearest import nearest
from samovar.config.parent import without_parent
from samovar.config.paths import covers
from samovar.config.values import Tree, plain, same
from samovar.errors import ConfigError


@dataclass
class Record:
    value: Any
    """What the first reader got."""
    is_present: bool
    """Whether the config has the key; if not, the value is a default."""
    defaults: list[Any] = field(default_factory=list)
    """Every different default that some reader gave."""


class ChangedDefault(NamedTuple):
    """`old` and `new` are the default, or the list of them if readers disagreed."""

    path: str
    old: Any
    new: Any


@dataclass
class Ledger:
    records: dict[str, Record] = field(default_factory=dict)
    retired: set[str] = field(default_factory=set)

    def record(self, path: str, value: Any, is_present: bool, *defaults: Any) -> None:
        """A reader got `value`, and would have been content with one of `defaults`."""
        if path in self.records and not defaults:  # the usual read, in a loop that trains
            return
        record = self.records.setdefault(path, Record(plain(value), is_present))
        for default in map(plain, defaults):
            if not any(same(default, known) for known in record.defaults):
                record.defaults.append(default)
                record.defaults.sort(key=_json)  # whichever reader came first

    def retire(self, path: str) -> None:
        """The key, with all that lies in it, is an old one that nobody has to read."""
        self.retired.add(path)

    def unread(self, tree: Mapping[str, Any], path: str = "") -> list[str]:
        """Flat paths of `tree`, which stands at `path` of the config, that nobody read or retired."""
        return [
            key
            for key in flatten(tree if path else without_parent(tree), path)
            if key not in self.records and not any(covers(old, key) for old in self.retired)
        ]

    def nearest_absent(self, key: str) -> str | None:
        """The key that was probably meant: code asked for it, and the config does not have it."""
        return nearest(key, [path for path, record in self.records.items() if not record.is_present])

    def to_dict(self) -> Tree:
        """JSON-like and sorted: the same reads give the same bytes in params.json."""
        read = {
            path: {"value": record.value, "present": record.is_present, "defaults": record.defaults}
            for path, record in sorted(self.records.items())
        }
        return {"read": read, "retired": sorted(self.retired)}

    @classmethod
    def from_dict(cls, tree: Mapping[str, Any]) -> "Ledger":
        try:
            records = {
                path: Record(entry["value"], entry["present"], list(entry["defaults"]))
                for path, entry in tree["read"].items()
            }
            return cls(records, set(tree["retired"]))
        except (KeyError, TypeError, AttributeError) as error:
            cure = "take params.json from another run"
            raise ConfigError(f"ledger: found {error!r}, expected what `to_dict` gives: {cure}") from None


def changed_defaults(old: Ledger, new: Ledger) -> list[ChangedDefault]:
    """Keys that the config leaves to the code, where the code has changed its mind since the old run."""
    changes = []
    for path in sorted(old.records.keys() & new.records.keys()):
        before, after = old.records[path], new.records[path]
        is_default = not before.is_present and not after.is_present
        if is_default and not same(before.defaults, after.defaults):
            changes.append(ChangedDefault(path, _one_or_all(before.defaults), _one_or_all(after.defaults)))
    return changes


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _one_or_all(defaults: list[Any]) -> Any:
    return defaults[0] if len(defaults) == 1 else defaults
