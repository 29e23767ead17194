"""Faults of the real disk, injected below the C library: brew, train and predict end with a clear error, and the same
commands then give the same bytes."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.orphans import ending_with_me

ROOT = Path(__file__).parents[2]
LONG_SECONDS = float(os.environ.get("SAMOVAR_FAULT_SECONDS", "1800"))
pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="LD_PRELOAD"),
    pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler"),
]
NOTICED = (
    {"call": "fsync", "number": 100, "error": "EIO"},
    {"call": "rename", "number": 40, "error": "EIO"},
    {"call": "write", "number": 60, "error": "ENOSPC", "mode": "from then on"},
)
HARMLESS = ({"call": "write", "mode": "short"}, {"call": "read", "error": "EINTR", "mode": "often"})


def run(folder: Path, *options: str) -> dict[str, Any]:
    shim = folder / "shim.so"
    source = Path(__file__).with_name("shim.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-Wall", "-Werror", "-o", shim, source, "-ldl"], check=True)
    command = [sys.executable, "-m", "tests.faults.run", str(folder / "work"), *options]
    environment = {**os.environ, "LD_PRELOAD": str(shim), "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, preexec_fn=ending_with_me()
    )
    assert ended.stdout, ended.stderr
    answer: dict[str, Any] = json.loads(ended.stdout)
    assert answer["problems"] == []
    return answer


def test_a_disk_that_fails_once_or_fills_up_costs_no_bit(quick_path: Path) -> None:
    answer = run(quick_path, json.dumps([*HARMLESS, *NOTICED]))
    assert answer["cases"] == len(HARMLESS) + len(NOTICED)
    assert answer["noticed"] > 1  # a call whose failure does no harm may be the one


@pytest.mark.long
@pytest.mark.timeout(LONG_SECONDS + 600)
def test_a_disk_that_fails_at_any_call_costs_no_bit(quick_path: Path) -> None:
    answer = run(quick_path, "--seconds", str(LONG_SECONDS), "--seed", str(int.from_bytes(os.urandom(3), "little")))
    assert answer["noticed"] > 0
