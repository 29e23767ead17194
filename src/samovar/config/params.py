"""`Params`: a config as code reads it, by attribute, item or `get`; and the ledger of what was read, with defaults.
Does not know which keys are right: the ledger shows which ones code uses.
"""

import copy
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn

from samovar.config.diff import flatten
from samovar.config.identity import without_parent
from samovar.config.records import check_record
from samovar.config.values import Tree, at, covers, is_object_list, join, nearest, plain, same, suggest
from samovar.errors import ConfigError, UnknownKey


@dataclass
class Record:
    """One key that code read."""

    value: Any
    """What the first reader got."""
    is_present: bool
    """Whether the config has the key; if not, the value is a default."""
    defaults: list[Any] = field(default_factory=list)
    """Every distinct default that a reader passed."""


class ChangedDefault(NamedTuple):
    """A default that changed in the code. `old` and `new` are lists if readers passed different defaults."""

    path: str
    old: Any
    new: Any


@dataclass(frozen=True)
class _StoredRecord:
    value: Any
    present: bool
    defaults: list[Any]


@dataclass(frozen=True)
class _Stored:
    """The JSON of a ledger."""

    read: dict[str, _StoredRecord]
    retired: list[str]


@dataclass
class Ledger:
    """The record of every parameter that code read, with its defaults. `Params` writes it."""

    records: dict[str, Record] = field(default_factory=dict)
    retired: set[str] = field(default_factory=set)

    def record(self, path: str, value: Any, is_present: bool, *defaults: Any) -> None:
        """Note that a reader got `value`, and which defaults it passed."""
        if path in self.records and not defaults:  # the common case, inside the training loop
            return
        record = self.records.setdefault(path, Record(plain(value), is_present))
        for default in map(plain, defaults):
            if not any(same(default, known) for known in record.defaults):
                record.defaults.append(default)
                record.defaults.sort(key=_json)  # independent of the order of readers

    def retire(self, path: str) -> None:
        """Mark a key, and everything in it, as obsolete: no code has to read it."""
        self.retired.add(path)

    def unread(self, tree: Mapping[str, Any], path: str = "") -> list[str]:
        """The flat paths of `tree`, a section at `path` of the config, that no code has read or retired."""
        return [
            key
            for key in flatten(tree if path else without_parent(tree), path)
            if key not in self.records and not any(covers(old, key) for old in self.retired)
        ]

    def nearest_absent(self, key: str) -> str | None:
        """The key that was probably meant: one that code asked for and the config lacks."""
        section = key.rpartition(".")[0]
        absent = [path for path, record in self.records.items() if not record.is_present]
        near = [path.rpartition(".")[2] for path in absent if path.rpartition(".")[0] == section]
        best = nearest(key.rpartition(".")[2], near)  # not of whole paths: a shared section makes all of them alike
        return f"{section}.{best}".lstrip(".") if best else None

    def to_dict(self) -> Tree:
        """Plain and sorted values: the same reads give the same bytes in params.json."""
        read = {
            path: {"value": record.value, "present": record.is_present, "defaults": record.defaults}
            for path, record in sorted(self.records.items())
        }
        return {"read": read, "retired": sorted(self.retired)}

    @classmethod
    def from_dict(cls, tree: Mapping[str, Any], where: str = "params.json") -> "Ledger":
        found = check_record(_Stored, tree, where)
        records = {path: Record(entry.value, entry.present, entry.defaults) for path, entry in found.read.items()}
        return cls(records, set(found.retired))


def changed_defaults(old: Ledger, new: Ledger) -> list[ChangedDefault]:
    """The keys that the config leaves to the code and whose default the code has changed since the old run."""
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
    """An AttributeError for `hasattr` and `copy`, and a KeyError for code that works on mappings."""

    __str__ = Exception.__str__  # a KeyError shows its message in quotes


class Params(Mapping[str, Any]):
    """A read-only config that records every parameter that code reads.

    Read `params.lr`, `params["lr"]` or `params.get("lr", 0.1)`. A section is a `Params` too, and a list of sections
    is a list of them. Reading a value goes into the ledger, also while iterating over `values()` or `items()`; `in`,
    `len`, `keys` and `==` do not. A key with the name of a method (`items`, `get`, …) can only be read as an item.

    Args:
        tree: The config. It is copied.
        ledger: Where reads are recorded; a new ledger by default.
        path: The path of `tree` in its config, for errors and the ledger.

    Raises:
        UnknownKey: On reading a key that is absent. It is an AttributeError and a KeyError too.
        ConfigError: On any change.

    Example:
        >>> params = Params({"lr": 0.1, "layers": [{"dim": 8}]})
        >>> params.lr, params.layers[0].dim, params.get("dropout", 0.0)
        (0.1, 8, 0.0)
    """

    __slots__ = ("_is_default", "_ledger", "_path", "_tree")
    _tree: Tree
    _ledger: Ledger
    _path: str
    _is_default: bool  # the section is a default in the code, for a key that the config lacks

    def __init__(self, tree: Mapping[str, Any], ledger: Ledger | None = None, path: str = "") -> None:
        own = copy.deepcopy(tree._tree if isinstance(tree, Params) else dict(tree))
        _fill(self, own, Ledger() if ledger is None else ledger, path, False)

    def __getitem__(self, key: str) -> Any:
        if key not in self._tree:
            raise MissingKey(self._missing(key))
        return self._read(key)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # Python asks for these to learn what an object can do
            raise AttributeError(name)
        return self[name]

    def get(self, key: str, default: Any = None) -> Any:
        """The value, or `default` if the key is absent. A dict as the default is returned as a section."""
        if isinstance(default, Params):
            default = default._tree
        if key in self._tree:
            return self._read(key, default)
        path = join(self._path, key)
        self._ledger.record(path, default, False, default)
        return self._wrap(default, path, is_default=True)

    def retired(self, *keys: str) -> None:
        """Mark keys, and everything in them, as obsolete: the code no longer reads them, and that is no mistake."""
        for key in keys:
            # a dotted name is a path, unless the config has that very key
            is_path = "." in key and key not in self._tree
            self._ledger.retire(f"{self._path}.{key}".lstrip(".") if is_path else join(self._path, key))

    def to_dict(self) -> Tree:
        """A plain copy. It counts as reading everything in it."""
        for path, value in flatten(self._tree, self._path).items():
            self._record(path, value)
        return copy.deepcopy(self._tree)

    def _read(self, key: str, *default: Any) -> Any:
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
        hint = f"To make it optional, read it with params.get({key!r}, default)"
        return f"{where}: no key {key!r}{suggest(key, self._tree)}. {hint}"

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
        raise ConfigError(
            f"{join(self._path, key)}: a config cannot be changed by code. Clone it, or start the run with --conf"
        )

    __setattr__ = __setitem__ = __delattr__ = __delitem__ = _refuse

    def __copy__(self) -> "Params":
        return self

    def __deepcopy__(self, memo: object) -> "Params":
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _view, (self._tree, self._ledger, self._path, self._is_default)


def _view(tree: Tree, ledger: Ledger, path: str, is_default: bool) -> Params:
    """A section of a config, without copying it again."""
    params = Params.__new__(Params)
    _fill(params, tree, ledger, path, is_default)
    return params


def _fill(params: Params, tree: Tree, ledger: Ledger, path: str, is_default: bool) -> None:
    object.__setattr__(params, "_tree", tree)
    object.__setattr__(params, "_ledger", ledger)
    object.__setattr__(params, "_path", path)
    object.__setattr__(params, "_is_default", is_default)
