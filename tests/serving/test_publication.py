"""A trainer killed at any disk operation of a publication leaves a whole chain, and publishes the same bytes when it
resumes.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("step", [11, pytest.param(1, marks=pytest.mark.long)])
def test_a_kill_at_any_disk_operation_changes_no_byte(quick_path: Path, step: int) -> None:
    command = [sys.executable, "-m", "tests.serving.publication_runner", str(quick_path), str(step)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    outcome = json.loads(done.stdout.splitlines()[-1])
    assert outcome["killed"] == outcome["points"] >= 20
