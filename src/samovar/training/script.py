"""The user's script: its code, the local modules that it imports, and what it builds. Runs it, and knows no data.

A user's code that ends the process: to whoever looks at the exit code, `sys.exit(0)` is a result that is done.
"""

import ast
import importlib
import inspect
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from samovar.config import Ledger, Params
from samovar.errors import BadInput, ConfigError, SamovarError, UnknownKey
from samovar.results.directory import ALL_FILES, CONFIG
from samovar.runner import Learner


@contextmanager
def forbid_exit(script: Path, what: str) -> Iterator[None]:
    """While the block runs, `SystemExit` is an error like any other."""
    try:
        yield
    except SystemExit as end:
        code = "" if end.code is None else repr(end.code)
        raise SamovarError(
            f"{script}: {what} called sys.exit({code}); expected it to go through to its end, or to raise an error: "
            "leave the call out"
        ) from end


_MODULE = "samovar_script"


@dataclass(frozen=True)
class Script:
    """What a directory keeps of the code, and where it lies now."""

    path: Path
    source: bytes
    modules: Mapping[str, Path]
    """Local modules, by their paths in all_files."""
    files: Mapping[str, Path]
    """Other files, by name: what `build(params, files)` gets."""

    @property
    def contents(self) -> dict[str, bytes]:
        """What goes into all_files."""
        return {name: path.read_bytes() for name, path in sorted({**self.modules, **self.files}.items())}


def read_script(path: Path, files: Mapping[str, Path] | None = None) -> Script:
    """A script with everything local that it imports, directly or not."""
    if not path.is_file():
        raise ConfigError(f"{path}: no such file; expected a Python script: check its path")
    for name, each in (files or {}).items():
        if not each.is_file():
            raise ConfigError(f"--file {name}: {each} is no file; expected one: check its path")
    source = path.read_bytes()
    modules: dict[str, Path] = {}
    _collect(source, path, _homes(path), modules)
    own = path.parent / ALL_FILES
    kept = {} if not _is_in_result(path) else {
        each.relative_to(own).as_posix(): each
        for each in sorted(own.rglob("*"))
        if each.is_file() and "__pycache__" not in each.parts
    }  # fmt: skip
    for name in sorted((files or {}).keys() & modules.keys()):
        raise ConfigError(f"--file {name}: the script imports a module of that name; expected another name: rename it")
    others = {name: each for name, each in {**kept, **(files or {})}.items() if name not in modules}
    return Script(path, source, modules, others)


def parse_file_options(options: list[str]) -> dict[str, Path]:
    """`NAME=PATH` of the command line."""
    files = {}
    for option in options:
        name, is_given, path = option.partition("=")
        if not is_given or not name or not path:
            raise ConfigError(f"--file {option!r}: expected NAME=PATH, for example words=data/words.txt: mend it")
        files[name] = Path(path).expanduser()
    return files


def _is_in_result(path: Path) -> bool:
    """Whether the script is the copy that a result directory keeps."""
    return (path.parent / CONFIG).exists() and (path.parent / ALL_FILES).is_dir()


def _homes(path: Path) -> list[Path]:
    """Where the script's own modules may lie."""
    return [path.parent.resolve(), *([path.parent.resolve() / ALL_FILES] if _is_in_result(path) else [])]


def _collect(source: bytes, path: Path, homes: list[Path], found: dict[str, Path]) -> None:
    try:
        tree = ast.parse(source, str(path))
    except SyntaxError as error:
        raise ConfigError(
            f"{path}, line {error.lineno}: {error.msg}; expected Python that can be read: mend the script"
        ) from error
    for name in _imported(tree):
        for home in homes:
            for file in _files_of(home, name):
                relative = file.relative_to(home).as_posix()
                if relative not in found and file != path.resolve():
                    found[relative] = file
                    _collect(file.read_bytes(), file, homes, found)


def _imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _files_of(home: Path, name: str) -> Iterator[Path]:
    """The file of a module, and those of the packages around it; of a package all its files."""
    parts = name.split(".")
    module = home.joinpath(*parts).with_suffix(".py")
    if module.is_file():
        yield module
    package = home / parts[0]
    if (package / "__init__.py").is_file():
        yield from sorted(package.rglob("*.py"))


def load_script(script: Script) -> ModuleType:
    """The script as a module; errors in it point to the user's own file."""
    for name in script.modules:
        sys.modules.pop(name.removesuffix(".py").removesuffix("/__init__").replace("/", "."), None)
    if _is_in_result(script.path):  # compiled modules would be extra files of a finished result
        sys.dont_write_bytecode = True
    for home in reversed(_homes(script.path)):
        if str(home) in sys.path:
            sys.path.remove(str(home))  # another script's may stand before it
        sys.path.insert(0, str(home))
    importlib.invalidate_caches()
    module = ModuleType(_MODULE)
    module.__file__ = str(script.path)
    sys.modules[_MODULE] = module
    with forbid_exit(script.path, "the script"):
        exec(compile(script.source, str(script.path), "exec"), module.__dict__)
    return module


@dataclass(frozen=True)
class Built:
    learner: Learner
    ledger: Ledger


def build(script: Script, section: Mapping[str, Any]) -> Built:
    """Call the script's `build` with the config's `model` section; a key that it did not read is an error."""
    function = getattr(load_script(script), "build", None)
    if not callable(function):
        raise BadInput(f"{script.path}: has no function build; expected build(params) -> Learner: write one")
    ledger = Ledger()
    params = Params(section, ledger, "model")
    takes_files = len(inspect.signature(function).parameters) > 1
    with forbid_exit(script.path, "build"):
        learner = function(params, dict(script.files)) if takes_files else function(params)
    if not isinstance(learner, Learner):
        raise BadInput(
            f"{script.path}: build gave {type(learner).__name__}; expected a samovar.Learner: return one from build"
        )
    unread = ledger.unread(section, "model")
    if unread:
        best = ledger.nearest_absent(unread[0])
        guess = f"did you mean {best!r}? Otherwise " if best else "mend its name, "
        raise UnknownKey(
            f"config: {', '.join(unread)}: the script read no such key; expected every key of `model` to be used: "
            f'{guess}remove it, or call params.retired("{unread[0].removeprefix("model.")}")'
        )
    return Built(learner, ledger)
