"""Environments: which differences may change bits."""

import subprocess
from pathlib import Path
from typing import Any

from samovar.results.environment import capture_environment, changed_environment, flat_environment


def make(**changes: Any) -> dict[str, Any]:
    return {
        "python": "3.11.0",
        "platform": "Linux",
        "cpu": "one",
        "packages": {"torch": "2.13.0", "ruamel.yaml": "1"},
        "threads": {"cores": 2, "torch": 2, "environment": {}},
        "devices": None,
        "git": {"commit": "abc", "changed_files": []},
        **changes,
    }


def test_a_flat_environment_has_no_git_state() -> None:
    assert flat_environment(make()) == {
        "python": "3.11.0",
        "cpu": "one",
        "packages.torch": "2.13.0",
        'packages["ruamel.yaml"]': "1",
        "threads.cores": 2,
        "threads.torch": 2,
        "threads.environment": {},
    }
    assert {"python", "cpu", "packages.numpy", "threads.cores"} <= flat_environment(capture_environment()).keys()


def test_each_change_that_may_change_bits_is_one_line() -> None:
    other = make(
        python="3.12.0",
        packages={"torch": "2.14.0", "new": "1"},
        threads={"cores": 64, "torch": 1, "environment": {"OMP_NUM_THREADS": "1"}},
        git=None,
    )
    assert changed_environment(make(), other) == [
        "torch: 2.13.0 → 2.14.0",
        "python: 3.11.0 → 3.12.0",
        "threads.torch: 2 → 1",
    ]
    assert changed_environment(make(), make()) == []


def test_a_value_that_only_one_side_knows_is_not_a_change() -> None:
    unknown = make(threads={"cores": 2, "torch": None, "environment": {}})
    assert changed_environment(make(), unknown) == []


def test_changed_files_are_named_and_those_that_git_does_not_track_are_not(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        identity = ["-c", "user.name=me", "-c", "user.email=me@example.com"]
        subprocess.run(["git", *identity, *arguments], cwd=tmp_path, check=True, capture_output=True)

    (tmp_path / "model.py").write_text("one")
    git("init")
    git("add", "model.py")
    git("commit", "-m", "one")
    (tmp_path / "model.py").write_text("two")
    (tmp_path / "secret plan.txt").write_text("mine")
    assert capture_environment(tmp_path)["git"]["changed_files"] == [" M model.py"]
