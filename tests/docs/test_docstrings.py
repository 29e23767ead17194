"""Docstrings of public names: each is there, and names every parameter. Ruff checks their form."""

import ast
import inspect
import itertools
import re
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from tests.docs.public import documented

NAMES = dict(documented())
FUNCTIONS = {name: found for name, found in NAMES.items() if inspect.isfunction(found)}
CLASSES = {name: found for name, found in NAMES.items() if inspect.isclass(found)}
_FORWARDED = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


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


@pytest.mark.parametrize("name", CLASSES)
def test_the_docstrings_of_a_class_name_every_parameter(name: str) -> None:
    assert list(undocumented_parameters(CLASSES[name])) == []


@pytest.mark.parametrize("name", NAMES)
def test_a_docstring_names_no_parameter_that_is_gone(name: str) -> None:
    assert list(stale_parameters(NAMES[name])) == []


@pytest.mark.parametrize("name", CLASSES)
def test_the_docstring_of_a_class_has_an_example(name: str) -> None:
    text = inspect.getdoc(CLASSES[name]) or ""
    assert "Example:" in text or "```python" in text


def stale_parameters(found: Any) -> Iterator[str]:
    """What the Args of a function, a class or its methods name although there is no such parameter."""
    named = re.search(r"^Args:\n(.*?)(?=^\S|\Z)", inspect.getdoc(found) or "", re.MULTILINE | re.DOTALL)
    known = inspect.signature(found).parameters if named else {}
    if not any(each.kind in _FORWARDED for each in known.values()):
        names = re.findall(r"^    \*{0,2}(\w+): ", named[1] if named else "", re.MULTILINE)
        yield from (f"{found.__name__}: {name}" for name in names if name not in known)
    for name, member in vars(found).items() if inspect.isclass(found) else ():
        function = getattr(member, "__func__", member)
        if not name.startswith("_") and inspect.isfunction(function):
            yield from stale_parameters(function)


def undocumented_parameters(kind: type[Any]) -> Iterator[str]:
    """The parameters of its constructor and of its own public methods that no text names. What overrides a method of
    another library keeps that library's text."""
    named = _field_texts(kind)
    text = inspect.getdoc(kind) or ""
    for name, parameter in _constructor(kind).items():
        if name not in named and parameter.kind not in _FORWARDED and not _is_named(name, text):
            yield name
    fields = getattr(kind, "__dataclass_fields__", {})
    for name, member in vars(kind).items():
        found = getattr(member, "__func__", member)
        if (
            name.startswith(("_", "test_"))
            or name in fields
            or not inspect.isfunction(found)
            or _is_foreign(kind, name)
        ):
            continue
        text = "\n".join(inspect.getdoc(vars(base)[name]) or "" for base in kind.__mro__ if name in vars(base))
        for each, parameter in list(inspect.signature(found).parameters.items()):
            if each not in ("self", "cls") and parameter.kind not in _FORWARDED and not _is_named(each, text):
                yield f"{name}: {each}"


def _is_named(name: str, text: str) -> bool:
    return re.search(rf"^ +\*{{0,2}}{name}: ", text, re.MULTILINE) is not None


def _constructor(kind: type[Any]) -> Mapping[str, inspect.Parameter]:
    """Without what a class takes from another library, and what only the class itself passes."""
    owner = next(base for base in kind.__mro__ if {"__init__", "__new__"} & vars(base).keys())
    if not owner.__module__.startswith("samovar"):
        return {}
    found = inspect.signature(kind).parameters
    return {name: each for name, each in found.items() if not name.startswith("_")}


def _is_foreign(kind: type[Any], name: str) -> bool:
    return any(name in vars(base) for base in kind.__mro__[1:] if not base.__module__.startswith("samovar"))


def _field_texts(kind: type[Any]) -> set[str]:
    """The fields with a text below them."""
    found: set[str] = set()
    for base in kind.__mro__:
        if base.__module__.startswith("samovar"):
            tree = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0]
            assert isinstance(tree, ast.ClassDef)
            for field, text in itertools.pairwise(tree.body):
                is_text = isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
                if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and is_text:
                    found.add(field.target.id)
    return found


def test_a_parameter_that_is_not_named_is_found() -> None:
    def add(one: int, other: int) -> int:
        """Add.

        Args:
            one: The first of the numbers; the other one is not named.
        """
        return one + other

    assert missing_parameters(add) == ["other"]
