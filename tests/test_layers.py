"""A room imports only rooms above it. Reads the source, so imports in functions and for type checkers count."""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src/samovar"

# From top to bottom; names on one line do not import each other.
LAYERS = (
    ("errors", "lazy"),
    ("native",),
    ("seeds", "policies", "signals", "hours", "notebook", "losses"),
    ("config",),
    ("store",),
    ("results",),
    ("tables",),
    ("brewing",),
    ("embeddings",),
    ("scoring",),
    ("data",),
    ("runner",),
    ("nets",),
    ("callbacks",),
    ("training",),
    ("trainer", "functional"),
    ("stages",),
    ("runs",),
    ("provenance",),
    ("queue",),
    ("sweep",),
    ("serving",),
    ("ui",),
    ("cli",),
    ("testing",),
)
HEIGHT = {room: -number for number, layer in enumerate(LAYERS) for room in layer}
ONLY_READER_OF_NATIVE = "native"
ENTRANCES = ("__init__", "__main__")  # of the package itself: they may name every room


def find_violations(package: Path) -> list[str]:
    """One line per import that goes down or sideways, and per room that the list lacks."""
    problems = []
    for path in sorted(package.rglob("*.py")):
        module = path.relative_to(package).with_suffix("").parts
        if module[0] in ENTRANCES:
            continue
        if module[0] not in HEIGHT:
            problems.append(f"{path.relative_to(package)}: {module[0]} is not in the list of rooms")
            continue
        for line, target in find_imports(path, ("samovar", *module)):
            reason = judge_import(module[0], target)
            if reason is not None:
                problems.append(f"{path.relative_to(package)}:{line}: imports {'.'.join(target)}: {reason}")
    return problems


def find_imports(path: Path, module: tuple[str, ...]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """The line and the dotted name of each import from samovar in a file."""
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            names = [tuple(alias.name.split(".")) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [(*absolute_start(node, module), alias.name) for alias in node.names]
        else:
            continue
        yield from ((node.lineno, name) for name in names if name[0] == "samovar")


def absolute_start(node: ast.ImportFrom, module: tuple[str, ...]) -> tuple[str, ...]:
    """The package of `from … import`. A leading dot means the folder of the file, each further dot its parent."""
    named = tuple(node.module.split(".")) if node.module else ()
    if node.level == 0:
        return named
    folder = module[:-1]
    return (*folder[: len(folder) - node.level + 1], *named)


def judge_import(room: str, target: tuple[str, ...]) -> str | None:
    """Why a room must not import this; None if it may."""
    imported = target[1] if len(target) > 1 else ""
    if imported == "_native":
        return None if room == ONLY_READER_OF_NATIVE else f"only {ONLY_READER_OF_NATIVE} may"
    if imported not in HEIGHT:
        return "import it from its room: the top package hides where a name comes from"
    if imported == room or HEIGHT[imported] > HEIGHT[room]:
        return None
    return f"{imported} is not above {room}"


def read_tree(readme: str) -> list[str]:
    """The rooms and modules in the order of the README's tree."""
    block = re.search(r"^```text samovar-tree\n(.*?)^```", readme, re.DOTALL | re.MULTILINE)
    assert block is not None, "README.md: no block that starts with ```text samovar-tree"
    return re.findall(r"^ +(\w+)/?(?=\s|$)", block[1], re.MULTILINE)


def find_unlisted(package: Path, readme: str) -> list[str]:
    """The rooms and modules that the tree in the README lacks."""
    rooms = {path.parent.name for path in package.glob("*/*.py")}
    leaves = {path.stem for path in package.glob("*.py") if not path.stem.startswith("_")}
    return sorted((rooms | leaves) - set(read_tree(readme)))


def make_package(folder: Path, sources: Mapping[str, str]) -> Path:
    """A small package; `sources` has the source of each file by name."""
    for name, source in sources.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    return folder


def test_no_room_imports_one_below_it() -> None:
    assert find_violations(PACKAGE) == []


def test_the_checker_reads_the_imports_of_every_room() -> None:
    found = [
        target for path in PACKAGE.glob("results/*.py") for _, target in find_imports(path, ("samovar", "results"))
    ]
    assert ("samovar", "store", "Store") in found


@pytest.mark.parametrize(
    "source",
    [
        "from samovar.cli import main",
        "import samovar.cli.app",
        "import os, samovar.cli as c",
        "from samovar import cli",
        "from .cli import main\nfrom ..cli import main",
        "def later():\n    from samovar.cli.app import main",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from samovar.cli import main",
        "try:\n    import samovar.cli\nexcept ImportError:\n    pass",
    ],
)
def test_an_import_from_below_is_found_anywhere_in_a_file(tmp_path: Path, source: str) -> None:
    package = make_package(tmp_path, {"store/local.py": source})
    assert len(find_violations(package)) == 1
    assert "cli is not above store" in find_violations(package)[0]


@pytest.mark.parametrize(
    ("name", "source", "reason"),
    [
        ("seeds.py", "import samovar.policies", "policies is not above seeds"),
        ("errors.py", "import samovar.native", "native is not above errors"),
        ("native.py", "import samovar.seeds", "seeds is not above native"),
        ("store/local.py", "from samovar import _native", "only native may"),
        ("seeds.py", "from samovar._native import hash_bytes", "only native may"),
        ("config/params.py", "from samovar import Params", "import it from its room"),
        ("config/params.py", "import samovar", "import it from its room"),
        ("runner/loop.py", "from samovar.callbacks import progress", "callbacks is not above runner"),
        ("cli/app.py", "import samovar.testing", "testing is not above cli"),
        ("helpers/text.py", "", "helpers is not in the list of rooms"),
        ("helpers.py", "", "helpers is not in the list of rooms"),
    ],
)
def test_every_violation_is_named(tmp_path: Path, name: str, source: str, reason: str) -> None:
    found = find_violations(make_package(tmp_path, {name: source}))
    assert len(found) == 1
    assert reason in found[0]


def test_allowed_imports_pass(tmp_path: Path) -> None:
    package = make_package(
        tmp_path,
        {
            "__init__.py": "import samovar.cli",
            "__main__.py": "from samovar.cli import main",
            "native.py": "from samovar import _native, errors",
            "seeds.py": "from samovar.native import hash_bytes",
            "store/__init__.py": "from samovar.store.local import LocalStore\nfrom .local import LocalStore",
            "store/local.py": "import samovar.errors\nfrom samovar import config, store",
            "testing/store.py": "from samovar.cli import main\nimport samovarium\nimport os.path",
        },
    )
    assert find_violations(package) == []


def test_the_readme_draws_every_room() -> None:
    assert find_unlisted(PACKAGE, (ROOT / "README.md").read_text()) == []


def test_the_readme_draws_every_room_below_those_that_it_imports() -> None:
    heights = [HEIGHT[room] for room in read_tree((ROOT / "README.md").read_text())]
    assert heights == sorted(heights, reverse=True)


def test_a_room_that_the_readme_forgot_is_named(tmp_path: Path) -> None:
    package = make_package(tmp_path, {"errors.py": "", "store/base.py": "", "brew/time.py": ""})
    readme = (
        "brew\n```text samovar-tree\nsrc/samovar/\n  errors   the brew\n  store/   where bytes live\n```\n  brew/\n"
    )
    assert find_unlisted(package, readme) == ["brew"]
