"""A minute of fuzzing in `make test`, an hour in `make long`: no crash, hang, unbounded memory or traceback."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.orphans import ending_with_me

ROOT = Path(__file__).parents[2]
LONG_SECONDS = float(os.environ.get("SAMOVAR_FUZZ_SECONDS", "3600"))


def fuzz(seconds: float, seed: int, *more: str) -> None:
    command = [sys.executable, "-m", "tests.fuzz.run", "--seconds", str(seconds), "--seed", str(seed), *more]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, preexec_fn=ending_with_me())
    assert ended.returncode == 0, f"{ended.stdout[-20_000:]}\n{ended.stderr[-2000:]}"


def test_damaged_files_and_inputs_give_clear_errors() -> None:
    fuzz(60, 0, "--cases", "400")


def test_what_is_not_damaged_is_taken() -> None:
    fuzz(0, 0, "--undamaged")


@pytest.mark.long
@pytest.mark.timeout(LONG_SECONDS + 600)
def test_an_hour_of_damage_gives_clear_errors() -> None:
    fuzz(LONG_SECONDS, 1)
