"""What pydantic found wrong with a config, in the user's words: full path, found, expected, cure.
Knows pydantic's errors, not the schemas they come from."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from samovar.config.known_keys import KnownKeys, known_keys
from samovar.config.values import describe
from samovar.config.wrong_places import WrongPlace, closest_branches, trace

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
