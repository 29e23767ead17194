"""The user's script: its code, the local modules that it imports, and the learner that it builds. Knows no data.

read_script: text and files ─▶ load_script: a module ─▶ build(params) ─▶ Learner
"""

import ast
import atexit
import importlib
import inspect
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from samovar.config import Ledger, Params
from samovar.config.places import Place, Url, suggest_path
from samovar.config.values import did_you_mean
from samovar.errors import BadInput, ConfigError, NotFound, SamovarError, UnknownKey
from samovar.results.directory import ALL_FILES, CONFIG, SCRIPT, ResultDirectory
from samovar.runner import Learner
from samovar.store import Store, open_store

_MODULE = "samovar_script"
INCOMPLETE = "# Not complete without these values of the Python session: "
"""The first line of a script that was made from a function and cannot run on its own."""


@dataclass(frozen=True)
class Script:
    """The code of a run, and where it is now."""

    path: Path
    source: bytes
    modules: Mapping[str, Path]
    """Local modules, by their paths in all_files."""
    files: Mapping[str, Path]
    """Other files, by name: what `build(params, files)` gets."""
    function: Callable[..., Any] | None = None
    """The `build` itself, if it is a function of this process and not of a file."""

    @property
    def contents(self) -> dict[str, bytes]:
        """What a result directory keeps in all_files."""
        return {name: path.read_bytes() for name, path in sorted({**self.modules, **self.files}.items())}


@dataclass(frozen=True)
class Built:
    learner: Learner
    ledger: Ledger
    """The parameters that `build` read."""


def read_script(path: Place, files: Mapping[str, Path] | None = None) -> Script:
    """Read a script and every local module that it imports, directly or indirectly."""
    if isinstance(path, Url):
        path = _copy_script(open_store(path.parent), path.name)
    if not path.is_file():
        raise ConfigError(f"{path}: no such script{suggest_path(path, '*.py')}")
    for name, each in (files or {}).items():
        if not each.is_file():
            raise ConfigError(f"file {name!r}: {each} is not a file{suggest_path(each)}")
    source = path.read_bytes()
    modules = find_modules(source, path, _module_folders(path))
    for name in sorted((files or {}).keys() & modules.keys()):
        raise ConfigError(f"file {name!r}: the script imports a module of that name. Choose another name")
    all_files = {**_kept_files(path), **(files or {})}
    return Script(path, source, modules, {name: each for name, each in all_files.items() if name not in modules})


def read_kept_script(directory: ResultDirectory) -> Script:
    """Read the script that a result directory keeps."""
    return read_script(directory.place / SCRIPT)


def _copy_script(store: Store, name: str) -> Path:
    """Copy a script of an object store, and the files that a result keeps beside it, to the temporary folder: modules
    are imported from files. The copy is removed when the process ends."""
    folder = Path(tempfile.mkdtemp(prefix="samovar-script-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    kept = [] if store.size(CONFIG) is None else [CONFIG, *(entry.path for entry in store.list(ALL_FILES))]
    for path in (name, *kept):
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            target.write_bytes(store.read(path))
        except NotFound as error:
            raise ConfigError(f"{error}; expected a script") from None
    if kept:
        (folder / ALL_FILES).mkdir(exist_ok=True)
    return folder / name


def find_modules(source: bytes, path: Path, folders: list[Path]) -> dict[str, Path]:
    """The modules in these folders that a script imports, directly or indirectly, by their paths in all_files."""
    modules: dict[str, Path] = {}
    _collect_modules(source, path, folders, modules)
    return modules


def load_script(script: Script) -> ModuleType:
    """Run the script as a module. Tracebacks point to the user's file."""
    for name in script.modules:
        sys.modules.pop(name.removesuffix(".py").removesuffix("/__init__").replace("/", "."), None)
    if _is_in_result(script.path):  # compiled modules would be extra files in a finished result
        sys.dont_write_bytecode = True
    for folder in reversed(_module_folders(script.path)):
        if str(folder) in sys.path:
            sys.path.remove(str(folder))  # the folder of another script may come before it
        sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    module = ModuleType(_MODULE)
    module.__file__ = str(script.path)
    sys.modules[_MODULE] = module
    with forbid_exit(script.path, "the script"):
        exec(compile(script.source, str(script.path), "exec"), module.__dict__)
    return module


def build(script: Script, section: Mapping[str, Any]) -> Built:
    """Call the script's `build` with the config's `model` section.

    Raises:
        BadInput: There is no `build`, or it does not return a `Learner`.
        UnknownKey: `build` did not read a key of the section.
    """
    if script.function is None and script.source.startswith(INCOMPLETE.encode()):
        names = script.source.decode().splitlines()[0].removeprefix(INCOMPLETE)
        raise BadInput(
            f"{script.path}: needs {names} of the Python session that it was trained in. Pass the same function again, "
            "for example samovar.load(…, build=build)"
        )
    function = script.function or getattr(load_script(script), "build", None)
    if not callable(function):
        raise BadInput(f"{script.path}: no function build(params)")
    ledger = Ledger()
    params = Params(section, ledger, "model")
    takes_files = len(inspect.signature(function).parameters) > 1
    with forbid_exit(script.path, "build"):
        learner = function(params, dict(script.files)) if takes_files else function(params)
    if not isinstance(learner, Learner):
        raise BadInput(f"{script.path}: build must return a samovar.Learner, got {type(learner).__name__}")
    unread = ledger.unread(section, "model")
    if unread:
        guess = did_you_mean(ledger.nearest_absent(unread[0])) or "."
        raise UnknownKey(
            f"config: the script does not read {', '.join(unread)}{guess} Remove the key, or call "
            f'params.retired("{unread[0].removeprefix("model.")}")'
        )
    return Built(learner, ledger)


@contextmanager
def forbid_exit(script: Path, what: str) -> Iterator[None]:
    """Turn `SystemExit` into an error: `sys.exit(0)` in user code would look like a finished result."""
    try:
        yield
    except SystemExit as exit_:
        code = "" if exit_.code is None else repr(exit_.code)
        raise SamovarError(
            f"{script}: {what} called sys.exit({code}). Return normally, or raise an error instead"
        ) from exit_


def parse_file_options(options: list[str]) -> dict[str, Path]:
    """Parse `NAME=PATH` options of the command line."""
    files = {}
    for option in options:
        name, is_given, path = option.partition("=")
        if not is_given or not name or not path:
            raise ConfigError(f"--file {option!r}: expected NAME=PATH, for example words=data/words.txt")
        files[name] = Path(path).expanduser()
    return files


def _is_in_result(path: Path) -> bool:
    """Whether the script is the copy in a result directory."""
    return (path.parent / CONFIG).exists() and (path.parent / ALL_FILES).is_dir()


def _module_folders(path: Path) -> list[Path]:
    """Where the script's own modules may be."""
    return [path.parent.resolve(), *([path.parent.resolve() / ALL_FILES] if _is_in_result(path) else [])]


def _kept_files(path: Path) -> dict[str, Path]:
    """The files beside a script that is itself the copy in a result directory."""
    if not _is_in_result(path):
        return {}
    folder = path.parent / ALL_FILES
    files = [each for each in sorted(folder.rglob("*")) if each.is_file() and "__pycache__" not in each.parts]
    return {each.relative_to(folder).as_posix(): each for each in files}


def _collect_modules(source: bytes, path: Path, folders: list[Path], found: dict[str, Path]) -> None:
    try:
        tree = ast.parse(source, str(path))
    except SyntaxError as error:
        raise ConfigError(f"{path}, line {error.lineno}: syntax error: {error.msg}") from error
    for name in _imported_names(tree):
        for folder in folders:
            for file in _files_of_module(folder, name):
                relative = file.relative_to(folder).as_posix()
                if relative not in found and file != path.resolve():
                    found[relative] = file
                    _collect_modules(file.read_bytes(), file, folders, found)


def _imported_names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _files_of_module(folder: Path, name: str) -> Iterator[Path]:
    """The file of a module, and every file of the package that it is in."""
    parts = name.split(".")
    module = folder.joinpath(*parts).with_suffix(".py")
    if module.is_file():
        yield module
    package = folder / parts[0]
    if (package / "__init__.py").is_file():
        yield from sorted(package.rglob("*.py"))
