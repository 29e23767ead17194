"""A stranger's table cannot crash, hang or exhaust the process that reads it, and ends in a clear error."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.orphans import ending_with_me

SECONDS = float(os.environ.get("SAMOVAR_FUZZ_SECONDS", "20"))
LONG_SECONDS = float(os.environ.get("SAMOVAR_FUZZ_SECONDS", "900"))
ROOT = Path(__file__).parents[2]


def fuzz(seconds: float, seed: int, current: Path) -> None:
    command = [sys.executable, "-m", "tests.fuzz.table_cases", "--seconds", str(seconds), "--seed", str(seed)]
    command += ["--current", str(current)]
    ended = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=2 * seconds + 300, preexec_fn=ending_with_me()
    )
    last = current.read_text() if current.exists() else "none"
    assert ended.returncode == 0, f"case {last.strip()}: exit code {ended.returncode}\n{ended.stdout}{ended.stderr}"


def test_changed_tables_are_read_or_refused(tmp_path: Path) -> None:
    fuzz(SECONDS, 1, tmp_path / "current")


@pytest.mark.long
@pytest.mark.timeout(3 * LONG_SECONDS + 300)
def test_many_changed_tables_are_read_or_refused(tmp_path: Path) -> None:
    fuzz(LONG_SECONDS, int.from_bytes(os.urandom(3), "little"), tmp_path / "current")  # a failure names its case
