"""Configs flattened and compared key by key, any number at once; and rows as CSV. Does not know which differences
matter.
"""

import csv
import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from samovar.config.values import MISSING, Tree, at, covers, is_object_list, join, same

if TYPE_CHECKING:
    import pandas

_PLAIN = (str, int, float, bool, type(None))


def flatten(tree: Mapping[str, Any], path: str = "") -> Tree:
    """The values of a config by dotted path. A list of objects is indexed; any other list, and `{}`, is one value."""
    flat: Tree = {}
    _flatten_into(tree, path, flat)
    return flat


def _flatten_into(tree: Mapping[str, Any], path: str, flat: Tree) -> None:
    for key, value in tree.items():
        if type(value) in _PLAIN:  # a shortcut for most values: ten thousand configs have many
            flat[join(path, key)] = value
        else:
            _flatten_value(value, join(path, key), flat)


def _flatten_value(value: Any, path: str, flat: Tree) -> None:
    if isinstance(value, dict) and value:
        _flatten_into(value, path, flat)
    elif is_object_list(value):
        for index, item in enumerate(value):
            _flatten_value(item, at(path, index), flat)
    else:
        flat[path] = value


@dataclass(frozen=True)
class Diff:
    """The keys in which configs differ. It is true if there are any.

    Attributes:
        names: The configs.
        rows: One value per config for each key, sorted by key; `MISSING` where a config lacks the key.

    Example:
        >>> from samovar.runs import diff
        >>> list(diff(["stages/numbers.json", "stages/total.json"]).rows)
        ['count', 'source']
    """

    names: tuple[str, ...]
    rows: Mapping[str, list[Any]]

    def __bool__(self) -> bool:
        return bool(self.rows)

    def to_csv(self) -> str:
        """One line per key, one column per config."""
        return format_csv(["key", *self.names], ([key, *row] for key, row in self.rows.items()))

    def to_frame(self) -> "pandas.DataFrame":
        """One row per key, one column per config; None where a config lacks the key."""
        return make_frame(["key", *self.names], [[key, *row] for key, row in self.rows.items()]).set_index("key")


def flat_diff(configs: Mapping[str, Mapping[str, Any]], ignore: Iterable[str] = ()) -> Diff:
    """Compare configs by name.

    Args:
        configs: Configs by the names that the diff shows.
        ignore: Keys or whole sections to leave out; `*.name` is a key at any depth.

    Example:
        >>> flat_diff({"old": {"lr": 0.1}, "new": {"lr": 0.2}}).rows
        {'lr': [0.1, 0.2]}
    """
    patterns = tuple(ignore)
    flat = {name: flatten(tree) for name, tree in configs.items()}
    diff = diff_flat(flat)
    rows = {key: row for key, row in diff.rows.items() if not any(covers(p, key) for p in patterns)}
    return Diff(diff.names, rows)


def diff_flat(flat: Mapping[str, Tree]) -> Diff:
    """Like `flat_diff`, for configs that are already flat."""
    rows = {}
    for key in sorted({key for tree in flat.values() for key in tree}):
        row = [tree.get(key, MISSING) for tree in flat.values()]
        if not _is_uniform(row):
            rows[key] = row
    return Diff(tuple(flat), rows)


def _is_uniform(row: list[Any]) -> bool:
    first = row[0]
    # For plain values of one type `==` means `same`, and one call compares ten thousand of them.
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


def make_frame(columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> "pandas.DataFrame":
    """A frame with None in place of `MISSING`."""
    import pandas  # takes half a second to import

    plain = [[None if value is MISSING else value for value in row] for row in rows]
    return pandas.DataFrame(plain, columns=list(columns))


def show_value(value: Any) -> str:
    """A string as it is, `MISSING` as an empty string, any other value as JSON."""
    if value is MISSING:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
