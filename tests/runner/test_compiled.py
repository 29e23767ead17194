"""Compiled steps: one code for all sizes, whichever minibatch came first."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from samovar.errors import BadInput
from samovar.runner.compiled import compile_for_training

PROGRAM = """
import hashlib, sys, warnings
import torch
import samovar
from samovar.embeddings import HashSGD
from samovar.runner.step import StepOptions

class Model(samovar.BaseEmbeddingModel):
    def __init__(self):
        super().__init__({"ad": 8})
        layers = [torch.nn.Linear(9, 64), torch.nn.LayerNorm(64), torch.nn.ReLU(), torch.nn.Linear(64, 1)]
        self.net = torch.nn.Sequential(*layers)

    def forward(self, inputs):
        x = self.embed(inputs)
        return self.net(torch.cat([x["ad"], x["price"].unsqueeze(1)], 1)).squeeze(1)

def loss(output, targets):
    return torch.nn.functional.binary_cross_entropy_with_logits(output, targets["y"])

def minibatch(size):
    generator = torch.Generator().manual_seed(size)
    ids = torch.randint(0, 50, (size,), generator=generator)
    bag = samovar.Bag(ids, torch.ones(size, dtype=torch.int32))
    inputs = {"ad": bag, "price": torch.rand(size, generator=generator)}
    return samovar.MinibatchRecord(inputs, {"y": torch.rand(size, generator=generator)}, num_examples=size)

{setup}
warnings.simplefilter("error")
torch.set_num_threads(2)
samovar.set_seed(0)
model = Model()
optimizers = [HashSGD(model.hash_embeddings(), lr=0.0), torch.optim.SGD(model.dense_parameters(), lr=0.0)]
pool = samovar.MinibatchWorkerPool(samovar.Learner(model, optimizers, loss), StepOptions(compile=True))
found = {}
for size in map(int, sys.argv[1:]):
    pool.run(minibatch(size))
    found[size] = hashlib.sha256(b"".join(each.grad.numpy().tobytes() for each in model.parameters())).hexdigest()
print(sorted(found.items()))
"""

# Instead of making code, run the traced graph as it is.
TRACED = """
import torch._inductor.compile_fx

def trace(graph, inputs, inner_compile):
    print("compiled", "with cat" if "cat" in [node.name for node in graph.graph.nodes] else "without")
    return graph.forward

torch._inductor.compile_fx.compile_fx = trace
"""


def run(tmp_path: Path, sizes: list[int], setup: str = "") -> str:
    program = PROGRAM.replace("{setup}", setup)
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, sizes)],
        capture_output=True, text=True, env={"TORCHINDUCTOR_CACHE_DIR": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_dense_part_is_compiled_once_for_all_sizes(tmp_path: Path) -> None:
    lines = run(tmp_path, [7, 4096, 8, 64], TRACED).splitlines()
    assert lines[:-1] == ["compiled with cat"]


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_no_bit_depends_on_which_minibatch_came_first(tmp_path: Path) -> None:
    sizes = [7, 4096, 8, 64]
    found = {run(tmp_path / str(number), order) for number, order in enumerate((sizes, sizes[::-1]))}
    assert len(found) == 1


def test_a_machine_without_compiler_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    model: Any = torch.nn.Linear(1, 1)
    with pytest.raises(BadInput, match="compile needs a C\\+\\+ compiler, and there is none"):
        compile_for_training(model)
