"""Where in a config an error of pydantic points. A location in a union names the member that was tried;
here those names are dropped, and only the member that fits best keeps its errors. Words no messages."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from pydantic_core import ErrorDetails

from samovar.config.paths import at, join


@dataclass(frozen=True)
class Member:
    """A step of a location that is no step into the config: the union member that was tried."""

    name: str | int


@dataclass(frozen=True)
class WrongPlace:
    steps: tuple[str | int | Member, ...]
    details: ErrorDetails

    @property
    def keys(self) -> tuple[str | int, ...]:
        return _keys(self.steps)

    @property
    def path(self) -> str:
        path = ""
        for key in self.keys:
            path = at(path, key) if isinstance(key, int) else join(path, key)
        return path

    def union(self, start: int) -> tuple[str | int | Member, ...] | None:
        """The steps to the first union at or after `start`."""
        members = (i for i in range(start, len(self.steps)) if isinstance(self.steps[i], Member))
        position = next(members, None)
        return None if position is None else self.steps[:position]


def _keys(steps: Iterable[str | int | Member]) -> tuple[str | int, ...]:
    return tuple(step for step in steps if not isinstance(step, Member))


def trace(tree: Mapping[str, Any], details: ErrorDetails) -> WrongPlace:
    """Follows the location into the config: what cannot be followed is a union member, or a missing key."""
    steps: list[str | int | Member] = []
    node: Any = tree
    for position, step in enumerate(details["loc"], 1):
        is_missing_key = details["type"] == "missing" and position == len(details["loc"])
        is_key = isinstance(node, Mapping) and step in node
        is_index = isinstance(node, list) and isinstance(step, int)
        steps.append(step if is_key or is_index or is_missing_key else Member(step))
        if is_key or is_index:
            node = node[step]
    return WrongPlace(tuple(steps), details)


def closest_branches(places: Iterable[WrongPlace], start: int = 0) -> list[list[WrongPlace]]:
    """Groups of errors, one group a problem: several in a group are types that were all possible there.
    pydantic reports the errors of one union, and of one member in it, in a row."""
    groups: list[list[WrongPlace]] = []
    for union, tried in groupby(places, key=lambda place: place.union(start)):
        if union is None:
            groups += [[place] for place in tried]
        else:
            groups += _closest_member(union, tried)
    return groups


def _closest_member(union: tuple[str | int | Member, ...], tried: Iterable[WrongPlace]) -> list[list[WrongPlace]]:
    """A member whose errors lie deeper had at least the right type; the closest of those speaks."""
    after, own_keys = len(union), _keys(union)
    by_member = groupby(tried, key=lambda place: place.steps[after])
    members = [closest_branches(places, after + 1) for _, places in by_member]
    entered = [groups for groups in members if any(group[0].keys != own_keys for group in groups)]
    if entered:
        return min(entered, key=_distance)
    return [[place for groups in members for group in groups for place in group]]


def _distance(groups: list[list[WrongPlace]]) -> tuple[int, int]:
    """A member with other keys is further off than one with the right keys and wrong values."""
    kinds = [group[0].details["type"] for group in groups]
    return sum(kind in ("missing", "extra_forbidden") for kind in kinds), len(kinds)
