"""The base of every strict config section, and its errors in plain words. Knows how a config is checked, not which
sections there are. A field's text goes below the field.

    pydantic's errors ─▶ the place of each in the config ─▶ one group per problem ─▶ one sentence per problem
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Self, get_args

from pydantic import AliasChoices, BaseModel, ConfigDict, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from samovar.config.document import dump_config
from samovar.config.identity import without_parent
from samovar.config.values import at, describe, did_you_mean, join, nearest
from samovar.errors import ConfigError, UnknownKey


class Schema(BaseModel):
    """A config section with typed fields. An unknown key is an error that suggests the nearest known one.

    Example:
        >>> class Brewing(Schema):
        ...     batch_size: int = 1024
        ...     '''How many rows go into one minibatch.'''
        >>> Brewing.load({"batch_size": 512}, "recipe.json").batch_size
        512
    """

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
        populate_by_name=True,
        use_attribute_docstrings=True,
    )

    @classmethod
    def load(cls, tree: Mapping[str, Any], where: str, others: Mapping[str, type["Schema"]] | None = None) -> Self:
        """Check a whole config and report everything that is wrong with it in one error.

        Args:
            tree: The config.
            where: Its name in errors, usually the file.
            others: Schemas of similar configs, by what to write about a key that only they have.

        Raises:
            UnknownKey: All problems are unknown keys.
            ConfigError: A key is missing, or a value is wrong.
        """
        tree = without_parent(tree)
        try:
            # As JSON, strict mode still accepts a list for a tuple and a string for a path or an enum.
            return cls.model_validate_json(dump_config(tree))
        except ValidationError as error:
            _refuse_other_document(cls, tree, where)
            problems = _find_problems(cls, tree, error, others or {})
        kind = UnknownKey if all(problem.is_unknown_key for problem in problems) else ConfigError
        if len(problems) == 1:
            raise kind(f"{where}: {problems[0]}")
        lines = "".join(f"\n  {problem}" for problem in _without_repeated_lists(problems))
        raise kind(f"{where}: {len(problems)} problems:{lines}")


@dataclass(frozen=True)
class _Document:
    """A kind of config file, known by a key that only it must have and by others, of which it has at least one."""

    what: str
    command: str
    keys: frozenset[str]


_DOCUMENTS = {
    "train_data": _Document("a config of a training", "train", frozenset({"train_data"})),
    "base": _Document("an experiment", "experiment", frozenset({"grid", "list", "random", "script", "kind"})),
    "source": _Document(
        "a recipe",
        "brew",
        frozenset({"columns", "categorical_factors", "hashed_factors", "text_factors", "realvalue_factors", "keys"}),
    ),
}


def _refuse_other_document(schema: type[BaseModel], tree: Mapping[str, Any], where: str) -> None:
    """One sentence instead of a list of unknown keys, if the file is of another kind."""
    own = next((document for key, document in _DOCUMENTS.items() if key in schema.model_fields), None)
    for key, document in _DOCUMENTS.items():
        is_other = key in tree and key not in schema.model_fields and not document.keys.isdisjoint(tree)
        if own is not None and is_other:
            raise ConfigError(f"{where} is {document.what}, not {own.what}. Use it with `samovar {document.command}`")


# What is wrong, in words


@dataclass(frozen=True)
class _Problem:
    text: str
    is_unknown_key: bool = False
    available: tuple[str, ...] = ()
    """The keys that an unknown one could have been."""
    missing: str | None = None
    """The key that is missing, or was probably meant by an unknown one."""

    def __str__(self) -> str:
        if not self.available:
            return self.text
        return f"{self.text}{'' if self.text.endswith('?') else '.'} Available: {', '.join(self.available)}"


def _without_repeated_lists(problems: Iterable[_Problem]) -> list[_Problem]:
    """Only the last problem with a list of available keys keeps it."""
    last = {problem.available: problem for problem in problems}
    return [problem if last[problem.available] is problem else replace(problem, available=()) for problem in problems]


def _find_problems(
    schema: type[BaseModel], tree: Mapping[str, Any], error: ValidationError, others: Mapping[str, type[BaseModel]]
) -> list[_Problem]:
    errors = [_locate(tree, details) for details in error.errors(include_url=False) if not _is_echo(details)]
    found = [_explain(schema, group, others) for group in _group_by_problem(errors)]
    misspelled = {problem.missing for problem in found if problem.is_unknown_key and problem.missing is not None}
    return [problem for problem in found if problem.is_unknown_key or problem.missing not in misspelled]


def _is_echo(details: ErrorDetails) -> bool:
    """Whether an error only repeats another one: a list is "too short" because its wrong items do not count, or misses
    an item after the first that it misses."""
    if details["type"] == "missing" and isinstance(details["loc"][-1], int):
        return details["loc"][-1] > len(details["input"])
    return details["type"] == "too_short" and len(details["input"]) >= details["ctx"]["min_length"]


def _explain(schema: type[BaseModel], group: list["_PlacedError"], others: Mapping[str, type[BaseModel]]) -> _Problem:
    """One place of the config. The group has several errors if the value could have had one of several types."""
    first = group[0]
    kind, path = first.details["type"], first.path
    known = _known_keys(schema, first.steps)
    name = str(first.keys[-1]) if first.keys else ""
    if kind == "extra_forbidden":
        elsewhere = (about for about, other in others.items() if name in _known_keys(other, first.steps).fields)
        return _explain_unknown_key(known, path, name, next(elsewhere, None))
    if kind == "missing":
        return _Problem(f"{path} is missing{known.about(name)}", missing=path)
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        return _Problem(_explain_tag(first))
    value = first.details["input"]
    if kind in _OWN_CHECKS:
        text = _PREAMBLE.sub("", first.details["msg"])
        is_shown = "got " in text or (isinstance(value, str) and repr(value) in text)
        shown = "" if isinstance(value, dict) or is_shown else f", got {describe(value)}"
        return _Problem(f"{path}: {text}{shown}" if path else f"{text}{shown}")
    expected = _join_alternatives(_expected(each.details) for each in group)
    hint = _hint(value, expected)
    is_bound = kind in _BOUNDS or kind == "greater_than"
    got = repr(value) if is_bound else describe(value)  # the type is right, only the number is not
    return _Problem(f"{path or 'the config'} must {expected}, got {got}{hint}{known.about(name)}")


def explain_error(details: ErrorDetails) -> str:
    """One error of pydantic about a text: `must be at least 1, got 0`."""
    if details["type"] in _OWN_CHECKS:
        return _PREAMBLE.sub("", details["msg"]).removesuffix(".")
    return f"must {' '.join(_expected(details))}, got {details['input']}"


def _explain_unknown_key(known: "_KnownKeys", path: str, name: str, elsewhere: str | None) -> _Problem:
    main = known.main_name(name)
    if main:
        return _Problem(f"{path}: another name of {main!r}, which is given too. Keep one of the two", True)
    if elsewhere:
        return _Problem(f"{path}: {elsewhere}", True)
    best = known.nearest(name)
    return _Problem(f"{path}: unknown key{did_you_mean(best)}", True, known.names, best)


def _explain_tag(error: "_PlacedError") -> str:
    """A section that is one of several kinds, with the key that tells which missing or wrong."""
    context = error.details.get("ctx", {})
    key = join(error.path, str(context["discriminator"]).strip("'"))
    if error.details["type"] == "union_tag_not_found":
        return f"{key} is missing"
    return f"{key} must be one of {context['expected_tags']}, got {context['tag']!r}"


_TYPES = {
    "int_type": "an integer",
    "int_from_float": "an integer",
    "int_parsing": "an integer",
    "float_type": "a number",
    "float_parsing": "a number",
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
_BOUNDS = {"greater_than_equal": ("at least", "ge"), "less_than_equal": ("at most", "le"), "less_than": ("below", "lt")}
_LENGTHS = {"too_short": ("at least", "min_length"), "too_long": ("at most", "max_length")}
_OWN_CHECKS = ("value_error", "assertion_error")  # the schema's own checks, in their own words
_PREAMBLE = re.compile(r"^(Value error, |Assertion failed, )")
_RULE = re.compile(r"^\w+ should (be|have|match) (.*)$", re.DOTALL)


def _expected(details: ErrorDetails) -> tuple[str, str]:
    """What the value must be, as a verb and its object: `be`, `an integer`."""
    if details["type"] in _TYPES:
        return "be", _TYPES[details["type"]]
    context = details.get("ctx", {})
    if details["type"] == "greater_than":
        limit = context["gt"]
        is_integer = isinstance(limit, int) and isinstance(details["input"], int)
        return "be", f"at least {limit + 1}" if is_integer else f"above {_show_limit(limit)}"
    if details["type"] in _BOUNDS:
        words, key = _BOUNDS[details["type"]]
        return "be", f"{words} {_show_limit(context[key])}"
    if details["type"] in _LENGTHS:
        words, key = _LENGTHS[details["type"]]
        return "have", f"{words} {context[key]} item{'s' * (context[key] != 1)}"
    rule = _RULE.match(details["msg"])
    return (rule[1], rule[2]) if rule else ("be", f"valid ({details['msg']})")


def _show_limit(limit: float) -> str:
    return str(int(limit)) if limit == int(limit) else str(limit)


def _join_alternatives(expected: Iterable[tuple[str, str]]) -> str:
    """`be an integer or 'auto'`: a verb is repeated only where it changes."""
    phrases, last = [], ""
    for verb, what in dict.fromkeys(expected):
        phrases.append(what if verb == last else f"{verb} {what}")
        last = verb
    return " or ".join(phrases)


def _hint(value: Any, expected: str) -> str:
    if isinstance(value, str):
        try:
            unquoted = json.loads(value)
        except ValueError:
            unquoted = None
        kinds = {bool: "true or false", int: "an integer", float: "a number"}
        if type(unquoted) in kinds and ("a number" in expected or kinds[type(unquoted)] in expected):
            return f". Write {value} without quotes"
    if isinstance(value, float) and value.is_integer() and "an integer" in expected:
        return f". Write {int(value)}"
    return ""


# Where in the config an error is. Pydantic's location in a union names the member that was tried; those steps are
# told apart from keys, and only the member that fits best keeps its errors.


@dataclass(frozen=True)
class _Member:
    """A step of a location that is not a step into the config: the union member that was tried."""

    name: str | int


@dataclass(frozen=True)
class _PlacedError:
    steps: tuple[str | int | _Member, ...]
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

    def union(self, start: int) -> tuple[str | int | _Member, ...] | None:
        """The steps to the first union at or after `start`."""
        members = (i for i in range(start, len(self.steps)) if isinstance(self.steps[i], _Member))
        position = next(members, None)
        return None if position is None else self.steps[:position]


def _keys(steps: Iterable[str | int | _Member]) -> tuple[str | int, ...]:
    return tuple(step for step in steps if not isinstance(step, _Member))


def _locate(tree: Mapping[str, Any], details: ErrorDetails) -> _PlacedError:
    """Follow the location into the config. A step that cannot be followed is a union member, or a missing key."""
    steps: list[str | int | _Member] = []
    node: Any = tree
    for position, step in enumerate(details["loc"], 1):
        is_missing_key = details["type"] == "missing" and position == len(details["loc"])
        is_key = isinstance(node, Mapping) and step in node
        is_index = isinstance(node, list) and isinstance(step, int) and step < len(node)
        steps.append(step if is_key or is_index or is_missing_key else _Member(step))
        if is_key or is_index:
            node = node[step]
    return _PlacedError(tuple(steps), details)


def _group_by_problem(errors: Iterable[_PlacedError], start: int = 0) -> list[list[_PlacedError]]:
    """One group per problem. Several errors in a group are types that were all possible at that place.

    Pydantic reports the errors of one union, and of one member in it, in a row.
    """
    groups: list[list[_PlacedError]] = []
    for union, tried in groupby(errors, key=lambda error: error.union(start)):
        if union is None:
            groups += [[error] for error in tried]
        else:
            groups += _closest_member(union, tried)
    return groups


def _closest_member(union: tuple[str | int | _Member, ...], tried: Iterable[_PlacedError]) -> list[list[_PlacedError]]:
    """The groups of the member that fits best. One whose errors are deeper had at least the right type."""
    after, own_keys = len(union), _keys(union)
    by_member = groupby(tried, key=lambda error: error.steps[after])
    members = [_group_by_problem(errors, after + 1) for _, errors in by_member]
    entered = [groups for groups in members if any(group[0].keys != own_keys for group in groups)]
    if entered:
        return min(entered, key=_distance)
    return [[error for groups in members for group in groups for error in group]]


def _distance(groups: list[list[_PlacedError]]) -> tuple[int, int]:
    """A member with other keys is further away than one with the right keys and wrong values."""
    kinds = [group[0].details["type"] for group in groups]
    return sum(kind in ("missing", "extra_forbidden") for kind in kinds), len(kinds)


# Which keys a schema knows at one place of a config


@dataclass(frozen=True)
class _KnownKeys:
    path: str
    fields: Mapping[str, FieldInfo]
    """By every accepted name."""
    names: tuple[str, ...]
    elsewhere: Mapping[str, str]
    """The name of every field in the whole schema, with a path where it may be."""

    def nearest(self, name: str) -> str | None:
        """The full path of the key that was probably meant, here or in another section."""
        best = nearest(name, self.fields)
        if best:
            return join(self.path, best)
        for section, field in self.fields.items():  # one level deeper
            if any(name in model.model_fields for model in _models_in(field.annotation)):
                return join(join(self.path, section), name)
        other = self.elsewhere.get(name)  # this very place, if only another member of a union has the key
        return other if other != join(self.path, name) else None

    def main_name(self, name: str) -> str | None:
        """The main name of a field, if `name` is another name of it."""
        field = self.fields.get(name)
        return next((main for main in self.names if main != name and self.fields[main] is field), None)

    def about(self, name: str) -> str:
        """The field's own text, in parentheses."""
        field = self.fields.get(name)
        return f" ({' '.join(field.description.split()).removesuffix('.')})" if field and field.description else ""


def _known_keys(schema: type[BaseModel], steps: Iterable[str | int | _Member]) -> _KnownKeys:
    """The keys of the section that contains the place at the end of `steps`."""
    models, path = [schema], ""
    for step in _all_but_last_key(steps):
        if isinstance(step, _Member):
            models = [model for model in models if model.__name__ == step.name] or models
            continue
        path = at(path, step) if isinstance(step, int) else join(path, step)
        field = _accepted(models).get(step) if isinstance(step, str) else None
        # an index, or a key of a plain dict, leads to the models that the field has already named
        models = list(_models_in(field.annotation)) if field else models
    names = tuple(dict.fromkeys(name for model in models for name in model.model_fields))
    return _KnownKeys(path, _accepted(models), names, dict(_all_paths(schema, "", ())))


def _all_but_last_key(steps: Iterable[str | int | _Member]) -> list[str | int | _Member]:
    section = list(steps)
    while section and isinstance(section.pop(), _Member):
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
    """Deepest first, so that in a dict of these the place nearest to the top wins."""
    if schema in above:  # a schema that contains itself
        return
    for name, field in schema.model_fields.items():
        for model in _models_in(field.annotation):
            yield from _all_paths(model, join(path, name), (*above, schema))
    for name in schema.model_fields:
        yield name, join(path, name)
