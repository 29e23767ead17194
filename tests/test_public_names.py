"""The names of `samovar`: all present, all lazy."""

import ast
import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest

import samovar
import samovar.errors
import samovar.policies
import samovar.seeds

SOURCE = Path(__file__).parents[1] / "src/samovar/__init__.py"


def names_for_type_checkers() -> set[str]:
    tree = ast.parse(SOURCE.read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    imported = {name.name for node in block.body if isinstance(node, ast.ImportFrom) for name in node.names}
    declared = {ast.unparse(node.target) for node in block.body if isinstance(node, ast.AnnAssign)}
    return imported | declared


def imported_after(program: str) -> set[str]:
    listing = f"import sys\n{program}\nprint(*sys.modules, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", listing], check=True, capture_output=True, text=True)
    return set(done.stdout.split("\n"))


@pytest.mark.parametrize("name", samovar.__all__)
def test_every_public_name_is_there_when_asked_for(name: str) -> None:
    assert getattr(samovar, name) is not None
    assert name in dir(samovar)


def test_type_checkers_see_the_same_names() -> None:
    assert names_for_type_checkers() == set(samovar.__all__)


def test_public_names_are_the_things_themselves() -> None:
    assert samovar.EarlyStopping is samovar.policies.EarlyStopping
    assert samovar.Policy is samovar.policies.Policy
    assert samovar.errors is sys.modules["samovar.errors"]
    assert samovar.set_seed is samovar.seeds.set_seed
    assert samovar.__version__ == importlib.metadata.version("samovar")


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'set_sed'\. Available: .*set_seed"):
        _ = samovar.set_sed


def test_importing_samovar_loads_nothing_else_of_it() -> None:
    assert {name for name in imported_after("import samovar") if name.startswith("samovar")} == {
        "samovar",
        "samovar.lazy",
    }


def test_the_leaves_start_without_torch_and_arrow() -> None:
    program = "import samovar, samovar.seeds, samovar.policies\nsamovar.set_seed, samovar.Params, samovar.errors"
    loaded = imported_after(program)
    assert "samovar.native" in loaded
    assert not {"torch", "pyarrow"} & loaded


def test_hashing_bytes_and_integers_needs_no_arrow() -> None:
    program = (
        "import numpy, samovar.native as n\n"
        "n.hash_bytes(b'a'); n.hash_integers(numpy.ones(3, int)); n.Hasher().update(b'a')"
    )
    assert not {"torch", "pyarrow"} & imported_after(program)
