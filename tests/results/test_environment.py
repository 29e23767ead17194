"""What of an environment may change bits, laid flat and compared."""

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


def test_an_environment_is_flat_for_a_diff_and_knows_no_git() -> None:
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


def test_changes_that_may_change_bits_are_lines() -> None:
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


def test_what_one_side_does_not_know_is_no_change() -> None:
    unknown = make(threads={"cores": 2, "torch": None, "environment": {}})
    assert changed_environment(make(), unknown) == []
