"""A `build` function of the user's Python session or notebook as a script. The result directory gets its source and
that of all classes, functions and constants that it uses, so that the model can be loaded elsewhere. Runs nothing.

    notebook                          script.py in the model directory
    import torch                      import torch
    WIDTH = 64                        WIDTH = 64
    class Net(torch.nn.Module): …     class Net(torch.nn.Module): …
    def build(params): …              def build(params): …
    frame = pandas.read_csv(…)        (not used by build)
"""

import ast
import builtins
import inspect
import linecache
import symtable
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from samovar.errors import BadInput
from samovar.training.script import INCOMPLETE, Script, find_modules, read_script

_MAX_CONSTANT_CHARS = 1000


def script_of(function: Callable[..., Any]) -> Script:
    """The script that a function makes.

    A function `build` of a plain module is that module's file. One of a package is imported from there. One of a
    notebook, of a Python session or of the program that runs is written down.

    Raises:
        BadInput: It is not a function, or its source cannot be read.
    """
    if not isinstance(function, FunctionType):
        raise BadInput(f"script must be a path or a function build(params), got {type(function).__name__}")
    if function.__name__ == "<lambda>":
        raise BadInput(
            "script must be a path or a function build(params), got a lambda. Write it as `def build(params)`"
        )
    module = sys.modules.get(function.__module__)
    is_found = module is not None and getattr(module, function.__name__, None) is function
    if module is None or function.__module__ == "__main__" or not is_found:
        return _write_down(function)
    file = inspect.getsourcefile(module)
    if file is not None and function.__name__ == "build" and "." not in function.__module__:
        return read_script(Path(file))
    text = f"from {function.__module__} import {function.__name__} as build\n"
    depth = function.__module__.count(".") + 1
    folder = Path(file).resolve().parents[depth - 1] if file is not None else Path.cwd()
    return _make_script(function, text, folder)


def _write_down(function: FunctionType) -> Script:
    writer = _Writer(function.__globals__, function.__module__)
    writer.add(function.__name__, function)
    if function.__closure__:
        writer.missing += function.__code__.co_freevars
    alias = "" if function.__name__ == "build" else f"\n\nbuild = {function.__name__}\n"
    note = f"{INCOMPLETE}{', '.join(sorted(set(writer.missing)))}\n" if writer.missing else ""
    return _make_script(function, f"{note}{writer.text}{alias}", Path.cwd())


def _make_script(function: FunctionType, text: str, folder: Path) -> Script:
    path = folder / f"{function.__name__}()"
    source = text.encode()
    return Script(path, source, find_modules(source, path, [folder]), {}, function)


class _Writer:
    """Collects the sources of definitions, each after those that it uses."""

    def __init__(self, names: dict[str, Any], module: str) -> None:
        self._names = names
        self._module = module
        self._imports: dict[str, str] = {}
        self._definitions: dict[str, str] = {}
        self.missing: list[str] = []

    @property
    def text(self) -> str:
        imports = "\n".join(sorted(self._imports.values()))
        constants = [each for each in self._definitions.values() if not each.endswith("\n")]
        code = [each.rstrip("\n") for each in self._definitions.values() if each.endswith("\n")]
        parts = [part for part in (imports, "\n".join(constants), *code) if part]
        return "\n\n\n".join(parts) + "\n"

    def add(self, name: str, value: Any) -> None:
        if name in self._imports or name in self._definitions:
            return
        line = _import_line(name, value, self._module)
        if line is not None:
            self._imports[name] = line
        elif isinstance(value, type | FunctionType):
            self._add_definition(name, value)
        elif _is_constant(value) and len(repr(value)) <= _MAX_CONSTANT_CHARS:
            self._definitions[name] = f"{name} = {value!r}"
        else:
            self.missing.append(name)

    def _add_definition(self, name: str, value: Any) -> None:
        source = _source_of(value)
        self._definitions[name] = ""  # while its own names are added: it may use itself
        for used in _used_names(source):
            if used in self._names and used != name:
                self.add(used, self._names[used])
        del self._definitions[name]
        alias = "" if value.__name__ == name else f"{name} = {value.__name__}\n"
        self._definitions[name] = source + alias


def _import_line(name: str, value: Any, own_module: str) -> str | None:
    if isinstance(value, ModuleType):
        return f"import {value.__name__}" if value.__name__ == name else f"import {value.__name__} as {name}"
    module, qualified = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(qualified, str) or module in (own_module, "__main__"):
        return None
    if getattr(sys.modules.get(module), qualified, None) is not value:
        return None
    return f"from {_public_home(module, qualified, value)} import {qualified}" + (
        "" if qualified == name else f" as {name}"
    )


def _public_home(module: str, name: str, value: Any) -> str:
    """The outermost package that exports it under this name: libraries move what is inside."""
    parts = module.split(".")
    packages = [".".join(parts[:end]) for end in range(1, len(parts))]
    return next((each for each in packages if getattr(sys.modules.get(each), name, None) is value), module)


def _is_constant(value: Any) -> bool:
    if isinstance(value, tuple | list | set):
        return type(value) in (tuple, list, set) and all(map(_is_constant, value))
    if type(value) is dict:
        return all(_is_constant(each) for pair in value.items() for each in pair)
    return value is None or type(value) in (bool, int, float, str, bytes)


def _used_names(source: str) -> Iterator[str]:
    """The globals that a definition reads, itself included."""
    scopes = [symtable.symtable(source, "definition", "exec")]
    while scopes:
        scope = scopes.pop()
        scopes += scope.get_children()
        is_top = scope.get_type() == "module"  # where decorators, defaults and base classes are read
        for symbol in scope.get_symbols():
            is_global = not symbol.is_assigned() if is_top else symbol.is_global()
            if is_global and symbol.is_referenced() and not hasattr(builtins, symbol.get_name()):
                yield symbol.get_name()


def _source_of(value: Any) -> str:
    try:
        found = inspect.getsource(value) if isinstance(value, FunctionType) else _class_source(value)
        source = textwrap.dedent(found)
        ast.parse(source)
    except (OSError, TypeError, SyntaxError):
        raise BadInput(
            f"the source of {value.__name__!r} cannot be read, so the model could not be loaded later. Put build, and "
            "what it uses, into a file, and pass its path"
        ) from None
    return source if source.endswith("\n") else f"{source}\n"


def _class_source(value: type) -> str:
    """Like `inspect.getsource`, which does not find classes of a notebook: their methods know the cell. A class without
    methods is in the newest cell that has one of its name."""
    codes = [getattr(inspect.unwrap(each), "__code__", None) for each in vars(value).values() if callable(each)]
    for code in codes:
        if code is not None:
            found = _find_class(linecache.getlines(code.co_filename), value.__name__, code.co_firstlineno)
            if found is not None:
                return found
    for entry in reversed(list(linecache.cache.values())):
        if len(entry) == 4 and entry[1] is None:  # a cell: it has no time of change
            found = _find_class(entry[2], value.__name__)
            if found is not None:
                return found
    return inspect.getsource(value)


def _find_class(lines: list[str], name: str, line: int | None = None) -> str | None:
    """The source of the last class of that name, or of the one around a line."""
    source = None
    for node in ast.walk(ast.parse("".join(lines))):
        if isinstance(node, ast.ClassDef) and node.name == name and node.end_lineno is not None:
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            if line is None or first <= line <= node.end_lineno:
                source = "".join(lines[first - 1 : node.end_lineno])
    return source
