"""Torch's vectorized functions give the same bits from their first call on."""

import subprocess
import sys

import pytest

# Six threads meet more often than two. The parent has called none of the functions; each child makes its first call.
PROGRAM = """
import os, sys, torch
import samovar.runner
torch.set_num_threads(6)
x, other = torch.rand(600_000), torch.rand(400_000)  # no parallel work before the fork
num_different = 0
for _ in range(int(sys.argv[1])):
    child = os.fork()
    if child == 0:
        for _ in range(20):
            other + 1  # the threads are awake
        os._exit(not torch.equal(torch.sqrt(x), torch.sqrt(x)))
    num_different += os.waitpid(child, 0)[1] != 0
print(num_different)
"""


@pytest.mark.long
def test_no_first_call_of_many_differs_from_the_second() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "300"], capture_output=True, text=True, check=True, timeout=280
    )
    assert int(done.stdout) == 0
