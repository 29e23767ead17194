"""Configs laid flat and compared, key by key, any number at once. Knows nothing of how a diff is shown,
nor which differences matter.
"""

import csv
import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from samovar.config.values import MISSING, Tree, at, covers, is_object_list, join, same

_PLAIN = (str, int, float, bool, type(None))


def flatten(tree: Mapping[str, Any], path: str = "") -> Tree:
    """Dotted path to value. A list of objects is indexed, any other list is one value; `{}` stays."""
    flat: Tree = {}
    _lay_all(tree, path, flat)
    return flat


def _lay_all(tree: Mapping[str, Any], path: str, flat: Tree) -> None:
    for key, value in tree.items():
        if type(value) in _PLAIN:  # most are, and ten thousand configs have many
            flat[join(path, key)] = value
        else:
            _lay(value, join(path, key), flat)


def _lay(value: Any, path: str, flat: Tree) -> None:
    if isinstance(value, dict) and value:
        _lay_all(value, path, flat)
    elif is_object_list(value):
        for index, item in enumerate(value):
            _lay(item, at(path, index), flat)
    else:
        flat[path] = value


@dataclass(frozen=True)
class Diff:
    """The keys in which configs differ; true if there is one."""

    names: tuple[str, ...]
    rows: Mapping[str, list[Any]]
    """Sorted by key; one value per name, `MISSING` where the config has no such key."""

    def __bool__(self) -> bool:
        return bool(self.rows)

    def to_csv(self) -> str:
        """One line per key, one column per config."""
        return format_csv(["key", *self.names], ([key, *row] for key, row in self.rows.items()))


def flat_diff(configs: Mapping[str, Mapping[str, Any]], ignore: Iterable[str] = ()) -> Diff:
    """`ignore` names keys or whole sections; `*.name` is that key at any depth."""
    patterns = tuple(ignore)
    flat = {name: flatten(tree) for name, tree in configs.items()}
    diff = diff_flat(flat)
    rows = {key: row for key, row in diff.rows.items() if not any(covers(p, key) for p in patterns)}
    return Diff(diff.names, rows)


def diff_flat(flat: Mapping[str, Tree]) -> Diff:
    """The same for configs that are flat already."""
    rows = {}
    for key in sorted({key for tree in flat.values() for key in tree}):
        row = [tree.get(key, MISSING) for tree in flat.values()]
        if not _is_uniform(row):
            rows[key] = row
    return Diff(tuple(flat), rows)


def _is_uniform(row: list[Any]) -> bool:
    first = row[0]
    # Of plain values of one type, `==` is `same`: ten thousand of them are compared in one call.
    if type(first) in _PLAIN and row.count(first) == len(row) and len(set(map(type, row))) == 1:
        return True
    return all(same(first, value) for value in row)


def format_csv(columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """A header and one line per row; values are shown by `show_value`."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(map(show_value, row) for row in rows)
    return text.getvalue()


def show_value(value: Any) -> str:
    """A string as it is, `MISSING` as an empty string, any other value as JSON."""
    if value is MISSING:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
