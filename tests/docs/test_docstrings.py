"""Docstrings of public names: each is there, and names every parameter. Ruff checks their form."""

import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest
from tests.docs.public import documented

NAMES = dict(documented())
FUNCTIONS = {name: found for name, found in NAMES.items() if inspect.isfunction(found)}
CLASSES = {name: found for name, found in NAMES.items() if inspect.isclass(found)}


def missing_parameters(function: Any) -> list[str]:
    text = inspect.getdoc(function) or ""
    names = inspect.signature(function).parameters
    return [name for name in names if not re.search(rf"^ +\*{{0,2}}{name}: ", text, re.MULTILINE)]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_docstring_of_a_function_names_every_parameter(name: str) -> None:
    assert missing_parameters(FUNCTIONS[name]) == []


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_docstring_of_a_function_has_an_example(name: str) -> None:
    assert "Example:" in (inspect.getdoc(FUNCTIONS[name]) or "")


def undocumented(kind: type[Any]) -> Iterator[str]:
    """Its own public methods and properties without a text, their own or one of a base."""
    fields = getattr(kind, "__dataclass_fields__", {})
    for name, member in vars(kind).items():
        found = getattr(member, "__func__", member)
        is_member = name not in fields and (inspect.isfunction(found) or isinstance(found, property))
        if not name.startswith(("_", "test_")) and is_member and not inspect.getdoc(getattr(kind, name)):
            yield name


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_and_its_methods_say_what_they_are(name: str) -> None:
    text = CLASSES[name].__doc__ or ""
    assert text
    assert not text.startswith(f"{CLASSES[name].__name__}(")  # what dataclass writes
    assert list(undocumented(CLASSES[name])) == []


def test_a_parameter_that_is_not_named_is_found() -> None:
    def add(one: int, other: int) -> int:
        """Add.

        Args:
            one: The first of the numbers; the other one is not named.
        """
        return one + other

    assert missing_parameters(add) == ["other"]
