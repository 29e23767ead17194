"""A brewer that sleeps through its replacement changes nothing when it wakes, wherever it slept."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]


@pytest.mark.parametrize("kind", ["append", "whole"])
def test_a_brewer_stopped_before_any_operation_changes_nothing_of_its_successor(quick_path: Path, kind: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.brewing.stopped_brewers", str(quick_path), kind],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    counts = json.loads(done.stdout.splitlines()[-1])
    assert counts["stopped"] >= 50
    assert counts["taken_over"] == counts["stopped"]
