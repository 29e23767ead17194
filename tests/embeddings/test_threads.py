"""Which threads hash tables use. Each test runs in its own process: one that has used OpenMP must not fork."""

import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")

SETUP = """
import os
import torch
from samovar import Bag, HashEmbedding
from samovar.embeddings import HashAdagrad

torch.set_num_threads(2)
bags = {
    name: Bag(torch.randint(-(2**63), 2**63 - 1, (1024,)), torch.ones(1024, dtype=torch.int32)) for name in "abcdefgh"
}

def train():
    embedding = HashEmbedding(dict.fromkeys(bags, 1))  # too small for torch to split, with enough ids for us
    optimizer = HashAdagrad(embedding, lr=0.1)
    for _ in range(3):
        output = embedding.concat(bags)
        output.backward(torch.ones_like(output))
        optimizer.step()
    return embedding.concat(bags)
"""


def run(code: str) -> str:
    program = SETUP + textwrap.dedent(code)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_torch_and_hash_tables_share_their_threads() -> None:
    said = run("""
        count = lambda: len(os.listdir("/proc/self/task"))
        (torch.ones(2000, 2000) @ torch.ones(2000, 2000)).sum()
        before = count()
        train()
        print(count() - before)
    """)
    assert said == "0\n"


def test_a_child_that_is_forked_afterwards_has_threads_of_its_own_and_gets_the_same_bits() -> None:
    said = run("""
        expected = train().detach().clone()
        child = os.fork()
        if child == 0:
            os._exit(0 if torch.equal(train(), expected) else 1)
        print(os.waitpid(child, 0)[1])
    """)
    assert said == "0\n"


def test_a_child_whose_parent_used_openmp_for_torch_alone_does_not_wait_for_its_threads() -> None:
    said = run("""
        (torch.ones(2000, 2000) @ torch.ones(2000, 2000)).sum()
        child = os.fork()
        if child == 0:
            train()
            os._exit(0)
        print(os.waitpid(child, 0)[1])
    """)
    assert said == "0\n"
