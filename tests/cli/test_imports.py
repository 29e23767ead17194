"""The command line calls the library's public names and nothing else."""

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import samovar.cli

CLI = Path(samovar.cli.__file__).parent
PLAIN = ("samovar.errors", "samovar.hours", "samovar.signals")
"""Modules without a room: what has no underscore is free to use."""


def private_imports(path: Path) -> Iterator[str]:
    """Each import from samovar of a name that its room does not export; in functions and for type checkers too."""
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            yield from (f"{path.name}: {each.name}" for each in node.names if each.name.split(".")[0] == "samovar")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "samovar":
            module = str(node.module)
            if module.startswith("samovar.cli") or module in PLAIN:
                continue
            known = getattr(importlib.import_module(module), "__all__", ())
            is_room = module.count(".") == 1
            yield from (f"{path.name}: {module}.{n.name}" for n in node.names if not is_room or n.name not in known)


def test_the_command_line_imports_public_names_only() -> None:
    files = sorted(CLI.glob("*.py"))
    assert len(files) > 8
    assert [line for path in files for line in private_imports(path)] == []


def test_a_private_import_is_found(tmp_path: Path) -> None:
    path = tmp_path / "runs.py"
    path.write_text(
        "import samovar.runs.find\n"
        "from samovar.runs.find import find_targets\n"
        "from samovar.runs import diff, read_facts\n"
        "from samovar.errors import BadInput\n"
    )
    assert list(private_imports(path)) == [
        "runs.py: samovar.runs.find",
        "runs.py: samovar.runs.find.find_targets",
        "runs.py: samovar.runs.read_facts",
    ]
