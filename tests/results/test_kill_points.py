"""A kill, a power loss or a fault at every disk operation in the life of a result directory. Children are forked from a
small process without torch, so that hundreds of kills take seconds."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory if possible: there are thousands of fsyncs, and the disk itself is not tested."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else tmp_path) as name:
        yield Path(name)


def rehearse(what: str, folder: Path, *arguments: str) -> dict[str, int]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.results.kill_points_runner", what, str(folder), *arguments],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    counts: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return counts


def test_a_job_killed_at_every_operation_ends_with_the_same_bytes(folder: Path) -> None:
    counts = rehearse("kill", folder)
    assert counts["killed"] == counts["points"] >= 200


def test_a_job_killed_twice_at_random_points_ends_with_the_same_bytes(folder: Path) -> None:
    assert rehearse("kill_twice", folder, "60")["rounds"] == 60


def test_a_job_killed_from_outside_ends_with_the_same_bytes(folder: Path) -> None:
    assert rehearse("kill_from_outside", folder, "25")["killed"] == 25


def test_a_job_that_loses_power_at_every_operation_ends_with_the_same_bytes(folder: Path) -> None:
    assert rehearse("power_loss", folder, "2")["losses"] >= 200


@pytest.mark.parametrize("fault", ["full disk", "no permission", "broken disk", "vanished folder"])
def test_a_fault_at_every_operation_gives_one_clear_error_and_loses_nothing(folder: Path, fault: str) -> None:
    assert rehearse("fault", folder, fault)["faults"] >= 100
