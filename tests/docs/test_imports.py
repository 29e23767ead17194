"""What pages and examples import from Samovar is public."""

import ast
import json
from collections.abc import Iterator

import pytest
from tests.docs.pages import ROOT, find_blocks, find_pages, name_of
from tests.docs.public import exported

PUBLIC = exported()
MODULES = {"samovar", "samovar.errors", *PUBLIC}


def sources() -> Iterator[tuple[str, str]]:
    """Every piece of Python that users read, by its place."""
    for page in find_pages():
        yield from ((block.place, block.text) for block in find_blocks(page) if block.language == "python")
    for path in sorted((ROOT / "examples").rglob("*.py")):
        yield name_of(path), path.read_text()
    for path in sorted((ROOT / "examples").rglob("*.ipynb")):
        cells = json.loads(path.read_text())["cells"]
        code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
        yield from ((f"{name_of(path)}:{number}", text) for number, text in enumerate(code))


SOURCES = dict(sources())


def private_imports(text: str) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found += [each.name for each in node.names if each.name.startswith("samovar.") and each.name not in MODULES]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "samovar":
            found += [f"{node.module}.{each.name}" for each in node.names if not is_public(str(node.module), each.name)]
    return found


def is_public(module: str, name: str) -> bool:
    return module == "samovar.errors" or name in PUBLIC.get(module, ()) or f"{module}.{name}" in MODULES


@pytest.mark.parametrize("place", SOURCES)
def test_no_page_and_no_example_imports_a_private_name(place: str) -> None:
    assert private_imports(SOURCES[place]) == []


def test_pages_and_examples_are_read() -> None:
    assert sum("samovar" in text for text in SOURCES.values()) > 30


def test_a_private_import_is_found() -> None:
    text = "import samovar.runs\nfrom samovar.runs.find import Target\nfrom samovar.runs import diff, read_facts"
    assert private_imports(text) == ["samovar.runs.find.Target", "samovar.runs.read_facts"]
