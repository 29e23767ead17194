"""checksum, as a user types it. The commands audit and replay are tested in tests/provenance."""

import json
from pathlib import Path

import pytest
from tests.cli.commands import samovar
from tests.runs.runs import make_run


@pytest.fixture
def folder(quick_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(quick_path)
    make_run(quick_path / "runs/a", {"seed": 0}, [])
    return quick_path


def test_checksum_saves_compares_and_says_so_in_its_exit_code(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(folder / "tmp"))
    saved = samovar("checksum", "runs/a", "--save", "a.sha256")
    assert saved.returncode == 0, saved.stderr
    assert samovar("checksum", "runs/a", "--against", "a.sha256").returncode == 0
    (folder / "runs/a/new").write_text("x")
    (folder / "runs/a/script.py").write_text("other")
    done = samovar("checksum", "runs/a", "--against", "a.sha256")
    assert (done.returncode, done.stdout.splitlines()[:2]) == (1, ["changed script.py", "new     new"])
    assert json.loads(samovar("checksum", "runs/a", "--against", "a.sha256", "--json").stdout)["new"] == ["new"]
    again = samovar("checksum", "runs/a", "--save", "a.sha256")
    assert again.returncode == 2
    assert "a.sha256 already exists" in again.stderr
