"""Every defect that the attack on Samovar 0.1 found is a seed of the fuzzing, or has a test of its own."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.fuzz.seeds import SEEDS, TESTS
from tests.orphans import ending_with_me

ROOT = Path(__file__).parents[2]
DEFECTS = range(1, 24)
CHILD = """
import os, sys, time
from tests.fuzz.run import _in_child

def work():
    grandchild = os.fork()
    if grandchild:
        os.write(int(sys.argv[1]), f"{os.getpid()} {grandchild}\\n".encode())
    time.sleep(600)

_in_child(work, 600, None)
"""


@pytest.mark.parametrize("number", DEFECTS)
def test_a_defect_has_a_seed_or_a_test(number: int) -> None:
    seeds = [name for name in SEEDS if name.startswith(f"{number}: ")]
    file, _, name = TESTS.get(number, "").partition(":")
    assert seeds or name
    assert not file or name in (ROOT / "tests" / file).read_text()


def test_a_killed_fuzzer_leaves_no_process_behind() -> None:
    reading, writing = os.pipe()
    command = [sys.executable, "-c", CHILD, str(writing)]
    fuzzer = subprocess.Popen(command, cwd=ROOT, pass_fds=[writing], preexec_fn=ending_with_me())
    os.close(writing)
    with open(reading) as pipe:
        children = [int(word) for word in pipe.readline().split()]
    assert len(children) == 2
    fuzzer.kill()
    fuzzer.wait()
    deadline = time.monotonic() + 120
    while any(is_running(child) for child in children):
        assert time.monotonic() < deadline, f"{children} still run"
        time.sleep(0.05)


def is_running(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"
