"""Patterns of column names, such as `feat_*`, in the roles and lists of a recipe. They stand for columns of the source:
once its columns are known, each pattern becomes their names. Knows no files.

    a column that is named in full     is never taken by a pattern
    a column that two patterns match   is refused; only "ignore" gives way to others
    a column that is really called *   is that column
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from samovar.config.values import suggest
from samovar.errors import ConfigError, UnknownColumn


def is_pattern(name: str) -> bool:
    return "*" in name


def matches(pattern: str, name: str) -> bool:
    return _compile(pattern).fullmatch(name) is not None


@cache
def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)


@dataclass(frozen=True)
class NamedColumns:
    """Columns by name or pattern, before those of the source are known. `others` are named in full elsewhere."""

    names: frozenset[str]
    others: frozenset[str] = frozenset()

    def __contains__(self, name: object) -> bool:
        if name in self.names or name in self.others or not isinstance(name, str):
            return name in self.names
        return any(is_pattern(each) and matches(each, name) for each in self.names)


class Expansion:
    """Replaces patterns by the columns of one source. Each column goes to one pattern."""

    def __init__(self, available: Iterable[str], named: Iterable[str], where: str) -> None:
        """`named` are the columns that the recipe names in full."""
        self._available = list(dict.fromkeys(available))
        self._named = frozenset(named)
        self._where = where
        self._takers: dict[str, str] = {}

    def names(self, listed: Sequence[str]) -> list[str]:
        """A list of columns without patterns."""
        return [name for each in listed for name in self._take(each)]

    def keys(self, mapping: Mapping[str, Any]) -> dict[str, Any]:
        """The same for the keys of a mapping."""
        return {name: value for each, value in mapping.items() for name in self._take(each)}

    def rest(self, pattern: str) -> list[str]:
        """The columns of a pattern that no other one has taken."""
        return [name for name in self._find(pattern) if name not in self._takers]

    def _take(self, each: str) -> list[str]:
        if not self.is_pattern(each):
            return [each]
        found = self._find(each)
        for name in found:
            other = self._takers.setdefault(name, each)
            if other != each:
                raise ConfigError(
                    f"{self._where}: column {name!r} matches both {other!r} and {each!r}; name it in full as well"
                )
        return found

    def is_pattern(self, name: str) -> bool:
        return is_pattern(name) and name not in self._available

    def _find(self, pattern: str) -> list[str]:
        found = [name for name in self._available if matches(pattern, name)]
        if not found:
            raise UnknownColumn(f"{self._where}: no column matches {pattern!r}{suggest(pattern, self._available)}")
        return [name for name in found if name not in self._named]


def expand_options(options: Mapping[str, Any], columns: Sequence[str], where: str) -> dict[str, Any]:
    """Options by column or pattern, as options by column; a name in full comes before a pattern."""
    full = {name: value for name, value in options.items() if not is_pattern(name) or name in columns}
    patterns = {name: value for name, value in options.items() if name not in full}
    return {**Expansion(columns, full, where).keys(patterns), **full}
