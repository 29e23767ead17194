"""`Params`: a config as code reads it, by attribute, item or `get`, writing each read into a ledger.
Does not know which keys are right: that is what the ledger finds out.

The record of every parameter that code read, with its default. Knows paths and values, not the config
they come from; `Params` writes it.
"""

import copy
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn

from samovar.config.diff import flatten
from samovar.config.identity import without_parent
from samovar.config.values import Tree, at, covers, is_object_list, join, nearest, plain, same
from samovar.errors import ConfigError, UnknownKey


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


class MissingKey(UnknownKey, AttributeError, KeyError):
    """An AttributeError for `hasattr` and `copy`, a KeyError for whatever works on mappings."""

    __str__ = Exception.__str__  # a KeyError would show its message in quotes


class Params(Mapping[str, Any]):
    """`params.lr`, `params["lr"]`, `params.get("lr", 0.1)`. A section is a `Params`, a list of sections a
    list of them. Reading a leaf, also by iterating over values, enters the ledger; `in`, `len`, `keys` and
    `==` do not. A key named like a method (`items`, `get`, …) is reached as an item."""

    __slots__ = ("_is_default", "_ledger", "_path", "_tree")
    _tree: Tree
    _ledger: Ledger
    _path: str
    _is_default: bool  # the section stands in the code, as the default of a key that the config lacks

    def __init__(self, tree: Mapping[str, Any], ledger: Ledger | None = None, path: str = "") -> None:
        own = copy.deepcopy(tree._tree if isinstance(tree, Params) else dict(tree))
        _fill(self, own, Ledger() if ledger is None else ledger, path, False)

    def __getitem__(self, key: str) -> Any:
        if key not in self._tree:
            raise MissingKey(self._missing(key))
        return self._hand_out(key)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # Python asks for these itself, to learn what an object can do
            raise AttributeError(name)
        return self[name]

    def get(self, key: str, default: Any = None) -> Any:
        """The value, or `default`; an object given as the default comes back as a section too."""
        if isinstance(default, Params):
            default = default._tree
        if key in self._tree:
            return self._hand_out(key, default)
        path = join(self._path, key)
        self._ledger.record(path, default, False, default)
        return self._wrap(default, path, is_default=True)

    def retired(self, *keys: str) -> None:
        """Excuses old keys, with all that lies in them, that the code no longer reads."""
        for key in keys:
            # A dotted name is a path, unless the config has that very key.
            is_path = "." in key and key not in self._tree
            self._ledger.retire(f"{self._path}.{key}".lstrip(".") if is_path else join(self._path, key))

    def to_dict(self) -> Tree:
        """A plain copy. Whoever takes it has read everything in it."""
        for path, value in flatten(self._tree, self._path).items():
            self._record(path, value)
        return copy.deepcopy(self._tree)

    def _hand_out(self, key: str, *default: Any) -> Any:
        value, path = self._tree[key], join(self._path, key)
        is_section = (isinstance(value, dict) and value) or is_object_list(value)
        if not is_section:  # a section is read leaf by leaf
            self._record(path, value, *default)
        return self._wrap(value, path, self._is_default)

    def _record(self, path: str, value: Any, *default: Any) -> None:
        defaults = (value,) if self._is_default else default
        self._ledger.record(path, value, not self._is_default, *defaults)

    def _wrap(self, value: Any, path: str, is_default: bool) -> Any:
        if isinstance(value, dict):
            return _view(value, self._ledger, path, is_default)
        if is_object_list(value):
            return [self._wrap_item(item, at(path, index), is_default) for index, item in enumerate(value)]
        return copy.deepcopy(value) if isinstance(value, list) and not is_default else value

    def _wrap_item(self, item: Tree, path: str, is_default: bool) -> Any:
        if not item and not is_default:  # an empty section has no leaf that could be read later
            self._ledger.record(path, item, True)
        return self._wrap(item, path, is_default)

    def _missing(self, key: str) -> str:
        where = f"config section {self._path!r}" if self._path else "config"
        best = nearest(key, self._tree)
        guess = f"did you mean {best!r}? Otherwise " if best else ""
        cure = f"{guess}add it to the config, or read it with params.get({key!r}, default)"
        return f"{where}: no key {key!r}, it has {', '.join(self._tree) or 'no keys'}: {cure}"

    def __contains__(self, key: object) -> bool:
        return key in self._tree

    def __len__(self) -> int:
        return len(self._tree)

    def __iter__(self) -> Iterator[str]:
        return iter(self._tree)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Params):
            return self._tree == other._tree
        return self._tree == other if isinstance(other, Mapping) else NotImplemented

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._tree]

    def __repr__(self) -> str:
        return f"Params({self._tree!r})"

    def _refuse(self, key: str, *value: object) -> NoReturn:
        found, cure = "found code that changes it", "clone the config, or start the run with --conf"
        raise ConfigError(f"{join(self._path, key)}: {found}, but configs never change: {cure}")

    __setattr__ = __setitem__ = __delattr__ = __delitem__ = _refuse

    def __copy__(self) -> "Params":
        return self

    def __deepcopy__(self, memo: object) -> "Params":
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _view, (self._tree, self._ledger, self._path, self._is_default)


def _view(tree: Tree, ledger: Ledger, path: str, is_default: bool) -> Params:
    """A section of a config that was copied already."""
    params = Params.__new__(Params)
    _fill(params, tree, ledger, path, is_default)
    return params


def _fill(params: Params, tree: Tree, ledger: Ledger, path: str, is_default: bool) -> None:
    object.__setattr__(params, "_tree", tree)
    object.__setattr__(params, "_ledger", ledger)
    object.__setattr__(params, "_path", path)
    object.__setattr__(params, "_is_default", is_default)
