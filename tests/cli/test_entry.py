"""How a command starts and ends: settings that must precede torch, errors and exit codes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.commands import samovar

ASK = """
import os, sys
from samovar.cli import main
sys.argv = ["samovar", "--version"]
try:
    main()
except SystemExit:
    print(os.environ.get("GOMP_SPINCOUNT"), "torch" in sys.modules)
"""


@pytest.mark.parametrize(
    ("given", "expected"),
    [({}, "20000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "active"}, "None")],
)
def test_openmp_threads_stop_spinning_soon_unless_the_user_sets_it_otherwise(
    given: dict[str, str], expected: str
) -> None:
    kept = {name: value for name, value in os.environ.items() if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    done = subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True, check=True, env=kept | given)
    assert done.stdout.splitlines()[-1] == f"{expected} False"


BROKEN = [
    ("{\n  'lr': 1}", "line 2, column 3"),
    ('{"lr": 1,\n "lr": 2}', "'lr'"),
    ('{"lr": NaN}', "NaN"),
    ("[1]", "object"),
]


@pytest.mark.parametrize(("text", "expected"), BROKEN)
def test_a_broken_config_is_one_readable_message(tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / "bad.json").write_text(text)
    done = samovar("diff", tmp_path / "bad.json", tmp_path / "bad.json")
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert expected in done.stderr
    assert "Traceback" not in done.stderr
    assert "Traceback" in samovar("--debug", "diff", tmp_path / "bad.json", tmp_path / "bad.json").stderr


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["show", "none"], "none does not exist; expected a result directory"),
        (["diff", "none.json", "none.json"], "none.json"),
        (["show", "."], "has no model_config.json"),
    ],
)
def test_a_wrong_path_is_a_user_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], expected: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = samovar(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert expected in done.stderr
