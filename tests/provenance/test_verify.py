"""`verify-resume`: when it kills, what counts as a kill, and the forked child that it kills."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.training.test_train_hash_embeddings import SCRIPT as HASH_SCRIPT
from tests.training.toys import OFFLINE, ONLINE, SCRIPT, make_hours, make_toy, write_table

from samovar.errors import BadInput
from samovar.provenance.verify import KillDelay, run_in_child, verify_resume

FIRST_SNAPSHOT, END = 0.30, 0.36  # seconds after its start


@pytest.mark.parametrize("straight_seconds", [0.4, 4.0, 40.0])  # the first run may load, compile, or share the cores
def test_a_run_much_shorter_than_the_straight_one_is_killed_within_few_tries(straight_seconds: float) -> None:
    tries = [tries_until_killed(straight_seconds, seed) for seed in range(200)]
    assert np.mean(tries) < 60
    assert max(tries) < 200


def tries_until_killed(straight_seconds: float, seed: int) -> int:
    delay = KillDelay(straight_seconds, num_uris=3, num_kills=1, generator=np.random.default_rng(seed))
    for number in range(1, 1001):
        seconds = delay.draw_seconds()
        if seconds >= END:
            delay.shorten()
            delay.start_run()
        elif seconds >= FIRST_SNAPSHOT:
            return number
        else:
            delay.adjust(num_snapshots=0)
    return number


FORGETFUL = SCRIPT.replace(
    "def loss(output, targets, smoothing):\n",
    "calls = []\n\n\ndef loss(output, targets, smoothing):\n    calls.append(1)\n    smoothing = 0.001 * len(calls)\n",
)


def test_a_kill_counts_only_after_the_first_snapshot(quick_path: Path) -> None:
    folder = quick_path
    write_table(folder / "clicks", make_hours([3, 2, 2, 4]))
    request = make_toy(folder, OFFLINE, {}, FORGETFUL)

    def verify() -> None:  # a single kill might come after the last minibatch, when nothing is left to forget
        done = verify_resume(request, 4, folder / "verified")
        print("DIFFERENT" if done.differences else "SAME")

    ended = run_in_child(verify, folder / "verify.log")
    assert "DIFFERENT" in ended.output, ended.output
    with pytest.raises(BadInput, match="already exists"):
        verify_resume(request, 4, folder / "verified")


def test_a_child_can_use_torch_threads_after_its_parent_has(quick_path: Path) -> None:
    def multiply() -> float:
        torch.set_num_threads(2)
        square = torch.ones(512, 512)
        return float((square @ square).sum() + torch.ones(1 << 20).exp().sum())

    expected = multiply()
    ended = run_in_child(lambda: print(multiply()), quick_path / "log", kill_after_seconds=60)
    assert (ended.code, float(ended.output)) == (0, expected)
    assert multiply() == expected


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("config", [OFFLINE, ONLINE], ids=["offline", "online"])
@pytest.mark.parametrize("script", [SCRIPT, HASH_SCRIPT], ids=["dense", "hash"])
def test_three_hundred_kills_change_no_bit(quick_path: Path, config: dict[str, Any], script: str) -> None:
    write_table(quick_path / "clicks", make_hours([3, 2, 0, 4, 2, 3] * 5))
    done = verify_resume(make_toy(quick_path, config, {}, script), 300, quick_path / "verify")
    assert (done.num_kills, done.differences) == (300, [])
