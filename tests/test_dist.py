"""The package as users get it: an sdist, a wheel built from it, and an environment without the source tree.

Dependencies come from this environment, so that gigabytes are not fetched again; samovar itself does not.
"""

import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]
ROOMS = ("tables", "results", "embeddings", "cli")
OUTSIDE = """
import samovar
from samovar.native import hash_bytes

table = samovar.open_table("clicks")
reveal_type(table.num_minibatches)
reveal_type(hash_bytes(b"x"))
"""


def run(*words: object, folder: Path, timeout_seconds: float = 1800.0) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        list(map(str, words)),
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout_seconds,
        env={**environment, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"},
    )
    assert done.returncode == 0, f"{words}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel is made from the sdist, not from the working tree."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT, folder=folder)
    return folder


@pytest.fixture(scope="module")
def python(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel and everything of this one except samovar: a path in a .pth file does not process
    further .pth files, so the editable samovar stays out."""
    home = tmp_path_factory.mktemp("elsewhere")
    venv.create(home, symlinks=True)
    python = home / "bin/python"
    [lent] = [path for path in sys.path if path.endswith("site-packages")]
    [own] = home.glob("lib/python*/site-packages")
    (own / "lent.pth").write_text(f"{lent}\n")
    [wheel] = built.glob("*.whl")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python)
    run(*pip, "install", "--no-index", "--no-deps", "--ignore-installed", wheel, folder=home)
    where = run(python, "-c", "import samovar, samovar._native as n; print(samovar.__file__, n.__file__)", folder=home)
    assert all(Path(file).is_relative_to(own) for file in where.split()), where
    return python


def test_the_wheel_and_the_sdist_hold_what_they_must(built: Path) -> None:
    [wheel], [sdist] = built.glob("*.whl"), built.glob("*.tar.gz")
    names = zipfile.ZipFile(wheel).namelist()
    assert {"samovar/py.typed", "samovar/_native.pyi", "samovar/cli/app.py"} <= set(names)
    assert not [name for name in names if name.split("/")[0].partition("-")[0] != "samovar"]
    with tarfile.open(sdist) as archive:
        tops = {name.split("/")[1] for name in archive.getnames() if "/" in name}
    assert {"src", "native", "bindings", "CMakeLists.txt", "tests", "LICENSE", "pyproject.toml"} <= tops
    assert not tops & {"build", "dist", ".venv", ".git"}


def test_the_installed_command_starts_and_types_are_seen_from_outside(python: Path, tmp_path: Path) -> None:
    assert run(python.with_name("samovar"), "--version", folder=tmp_path) == "samovar 0.2.0\n"
    (tmp_path / "outside.py").write_text(OUTSIDE)
    (tmp_path / "mypy.ini").write_text("[mypy]\nstrict = true\n")
    said = run(python, "-m", "mypy", "--no-incremental", "outside.py", folder=tmp_path)
    assert said.count('Revealed type is "int"') == 2, said


def test_the_tests_pass_elsewhere_against_the_wheel(python: Path, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "tests", tmp_path / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    rooms = [f"tests/{room}" for room in ROOMS]
    said = run(python, "-m", "pytest", "-q", "-m", "not long", *rooms, folder=tmp_path, timeout_seconds=3500.0)
    assert " passed" in said.splitlines()[-1]
