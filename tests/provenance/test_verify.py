"""When `verify-resume` kills: a run that is much shorter than its straight one is still killed."""

import numpy as np
import pytest

from samovar.provenance.verify import Pace

FIRST_SNAPSHOT, END = 0.30, 0.36  # seconds after its start


@pytest.mark.parametrize("straight_seconds", [0.4, 4.0, 40.0])  # the first run may load, compile, or share the cores
def test_a_short_run_is_killed_within_few_tries(straight_seconds: float) -> None:
    tries = [tries_until_killed(straight_seconds, seed) for seed in range(200)]
    assert np.mean(tries) < 60
    assert max(tries) < 200


def tries_until_killed(straight_seconds: float, seed: int) -> int:
    pace = Pace(straight_seconds, num_uris=3, num_kills=1, chance=np.random.default_rng(seed))
    for number in range(1, 1001):
        seconds = pace.draw()
        if seconds >= END:
            pace.shorten()
            pace.start()
        elif seconds >= FIRST_SNAPSHOT:
            return number
        else:
            pace.learn(num_snapshots=0)
    return number
