"""The base of every strict config section. Knows how a config is checked, not which sections there are;
a field's text stands under the field.

Where in a config an error of pydantic points. A location in a union names the member that was tried;
here those names are dropped, and only the member that fits best keeps its errors. Words no messages.

Which keys a schema knows at some place of a config, for "did you mean". Reads pydantic's field tables
and checks nothing itself.

What pydantic found wrong with a config, in the user's words: full path, found, expected, cure.
Knows pydantic's errors, not the schemas they come from.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Self, get_args

from pydantic import AliasChoices, BaseModel, ConfigDict, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from samovar.config.document import dump_config
from samovar.config.identity import without_parent
from samovar.config.values import at, describe, join, nearest
from samovar.errors import ConfigError, UnknownKey


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


@dataclass(frozen=True)
class KnownKeys:
    path: str
    fields: Mapping[str, FieldInfo]
    """By every name that is accepted for them."""
    names: tuple[str, ...]
    elsewhere: Mapping[str, str]
    """The name of every field in the whole schema, with a path where it may stand."""

    def nearest(self, name: str) -> str | None:
        """The full path of the key that was probably meant, here or in another section."""
        best = nearest(name, self.fields)
        if best:
            return join(self.path, best)
        other = self.elsewhere.get(name)  # the very place, if only another member of a union has the key
        return other if other != join(self.path, name) else None

    def twin(self, name: str) -> str | None:
        """The main name of the field, if `name` is accepted for it."""
        field = self.fields.get(name)
        return next((main for main in self.names if main != name and self.fields[main] is field), None)

    def about(self, name: str) -> str:
        """The field's own text, as a remark."""
        field = self.fields.get(name)
        return f" ({' '.join(field.description.split())})" if field and field.description else ""


def known_keys(schema: type[BaseModel], steps: Iterable[str | int | Member]) -> KnownKeys:
    """The keys of the section that holds the place to which `steps` lead."""
    models, path = [schema], ""
    for step in _all_but_last_key(steps):
        if isinstance(step, Member):
            models = [model for model in models if model.__name__ == step.name] or models
            continue
        path = at(path, step) if isinstance(step, int) else join(path, step)
        field = _accepted(models).get(step) if isinstance(step, str) else None
        # An index, or a key of a plain dict, leads to the models that the field has already named.
        models = list(_models_in(field.annotation)) if field else models
    names = tuple(dict.fromkeys(name for model in models for name in model.model_fields))
    return KnownKeys(path, _accepted(models), names, dict(_all_paths(schema, "", ())))


def _all_but_last_key(steps: Iterable[str | int | Member]) -> list[str | int | Member]:
    section = list(steps)
    while section and isinstance(section.pop(), Member):
        pass
    return section


def _accepted(models: Iterable[type[BaseModel]]) -> dict[str, FieldInfo]:
    fields: dict[str, FieldInfo] = {}
    for model in models:
        for name, field in model.model_fields.items():
            alias = field.validation_alias
            aliases = alias.choices if isinstance(alias, AliasChoices) else [alias]
            for accepted in (name, *aliases):
                if isinstance(accepted, str):
                    fields.setdefault(accepted, field)
    return fields


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)


def _all_paths(schema: type[BaseModel], path: str, above: tuple[type[BaseModel], ...]) -> Iterator[tuple[str, str]]:
    """Deepest first, so that in a dict made of these the place nearest the top wins."""
    if schema in above:  # a schema that contains itself
        return
    for name, field in schema.model_fields.items():
        for model in _models_in(field.annotation):
            yield from _all_paths(model, join(path, name), (*above, schema))
    for name in schema.model_fields:
        yield name, join(path, name)


_EXPECTED = {
    "int_type": "an integer",
    "int_from_float": "an integer",
    "float_type": "a number",
    "string_type": "a string",
    "bool_type": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "set_type": "a list",
    "frozen_set_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
    "none_required": "null",
}
_PREAMBLE = re.compile(r"^(\w+ should (be|have|match) |Value error, |Assertion failed, )")


@dataclass(frozen=True)
class Problem:
    path: str
    text: str
    is_unknown_key: bool = False

    def __str__(self) -> str:
        return f"{self.path}: {self.text}" if self.path else self.text


def find_problems(schema: type[BaseModel], tree: Mapping[str, Any], error: ValidationError) -> list[Problem]:
    places = [trace(tree, details) for details in error.errors(include_url=False)]
    return [_explain(schema, alternatives) for alternatives in closest_branches(places)]


def _explain(schema: type[BaseModel], alternatives: list[WrongPlace]) -> Problem:
    """One place of the config; there are several errors if it could have been one of several types."""
    place = alternatives[0]
    known = known_keys(schema, place.steps)
    name = str(place.keys[-1]) if place.keys else ""
    if place.details["type"] == "extra_forbidden":
        return Problem(place.path, _unknown_key(known, name), is_unknown_key=True)
    about = known.about(name)
    if place.details["type"] == "missing":
        return Problem(place.path, f"found nothing, expected a value: add the key{about}")
    found = place.details["input"]
    if place.details["type"] in ("value_error", "assertion_error"):  # words of the schema's own check
        shown = "" if isinstance(found, dict) else f"found {describe(found)}: "
        return Problem(place.path, f"{shown}{_expected(place.details)}")
    expected = " or ".join(dict.fromkeys(_expected(each.details) for each in alternatives))
    cure = _cure(found, expected)
    return Problem(place.path, f"found {describe(found)}, expected {expected}: {cure}{about}")


def _unknown_key(known: KnownKeys, name: str) -> str:
    twin = known.twin(name)
    if twin:
        return f"unknown key, or rather another name of {twin!r}, which is given too: keep one of the two"
    best = known.nearest(name)
    cure = f"did you mean {best!r}?" if best else "remove it"
    return f"unknown key, expected one of {', '.join(known.names) or 'no keys'}: {cure}"


def _expected(details: ErrorDetails) -> str:
    if details["type"] in ("union_tag_invalid", "union_tag_not_found"):
        context = details.get("ctx", {})
        return f"{context.get('discriminator')} to be {context.get('expected_tags', 'there')}"
    message = _PREAMBLE.sub("", details["msg"])
    is_bound = message.startswith(("greater", "less"))
    return _EXPECTED.get(details["type"], f"a value {message}" if is_bound else message)


def _cure(found: Any, expected: str) -> str:
    if isinstance(found, str):
        try:
            unquoted = json.loads(found)
        except ValueError:
            unquoted = None
        kinds = {bool: "true or false", int: "an integer", float: "a number"}
        if type(unquoted) in kinds and ("a number" in expected or kinds[type(unquoted)] in expected):
            return f"write {found} without quotes"
    if isinstance(found, float) and found.is_integer() and "an integer" in expected:
        return f"write {int(found)}"
    return "change the value"


class Schema(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
        populate_by_name=True,
        use_attribute_docstrings=True,
    )

    @classmethod
    def load(cls, tree: Mapping[str, Any], where: str) -> Self:
        """Checks a whole config and tells everything that is wrong with it in one error."""
        tree = without_parent(tree)
        try:
            # As JSON, strictness still lets a list be a tuple and a string be a path or an enum.
            return cls.model_validate_json(dump_config(tree))
        except ValidationError as error:
            problems = find_problems(cls, tree, error)
        kind = UnknownKey if all(problem.is_unknown_key for problem in problems) else ConfigError
        if len(problems) == 1:
            raise kind(f"{where}: {problems[0]}")
        lines = "".join(f"\n  {problem}" for problem in problems)
        raise kind(f"{where}: {len(problems)} problems, each to be mended in the config or with --conf:{lines}")
