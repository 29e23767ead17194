"""Other devices: what moves, what stays, and that a run on one gives the numbers of a run on the CPU."""

import copy
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.runner import fake_device
from tests.runner.test_slices import Model, minibatch

from samovar.embeddings import HashAdagrad
from samovar.errors import BadInput
from samovar.provenance.verify import run_in_child
from samovar.results.state import decode_tree, encode_tree
from samovar.runner import Learner, MinibatchWorkerPool, PredictStep, Run
from samovar.runner.device import choose_device, device_of, place_learner, to_device
from samovar.runner.scaling import RunningScale
from samovar.runner.step import StepOptions, frozen
from samovar.seeds import set_seed

CPU = torch.device("cpu")
ROOT = Path(__file__).parents[2]


class Wide(Model):
    """Scales its real column, and lets the hash tables join the columns."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = RunningScale({"price": ()})

    def forward(self, inputs: Any) -> torch.Tensor:
        scaled = self.scale(inputs)
        output: torch.Tensor = self.net(self.embedding.concat({"ad": inputs["ad"]}, [scaled["price"]])).squeeze(1)
        return output


class Squares(torch.nn.Module):
    """A loss with a weight of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.shift = torch.nn.Parameter(torch.zeros(1))

    def forward(self, output: torch.Tensor, targets: Any) -> torch.Tensor:
        wanted: torch.Tensor = targets["y"]
        return (output + self.shift - wanted).square().mean()


def make(kind: type[Model], device: torch.device) -> Learner:
    set_seed(2)
    model, loss = kind(), Squares()
    dense = torch.optim.Adam([*model.dense_parameters(), *loss.parameters()], foreach=False)
    learner = Learner(model, [HashAdagrad(model.hash_embeddings(), lr=0.1), dense], loss)
    place_learner(learner, device)
    return learner


def numbers_of(learner: Learner) -> list[Any]:
    assert isinstance(learner.model, Model)
    weights = learner.model.embedding.weights_of("ad", np.arange(9, dtype=np.uint64))
    dense = [each.detach().cpu().numpy() for each in [*learner.model.parameters(), *learner.model.buffers()]]
    return [*(each.tolist() for each in dense), weights.tolist()]


def compare(kind: type[Model], num_slices: int) -> None:
    """Train on both devices; stop, save, load and continue on the other one."""
    fake = fake_device.register()
    options = StepOptions(num_slices, clip_norm=0.1)
    plain, moved = make(kind, CPU), make(kind, fake)
    assert device_of(moved.model).type == "fake"
    losses = []
    for learner in (plain, moved):
        pool = MinibatchWorkerPool(learner, options)
        losses.append([pool.run(minibatch(number, 6)) for number in range(4)])
    assert losses[0] == losses[1]
    node, arrays = encode_tree(Run(moved).state_dict())
    moved = make(kind, fake)
    Run(moved).load_state_dict(decode_tree(node, lambda entry: arrays[entry["$array"]].value))
    for learner in (plain, moved):
        pool = MinibatchWorkerPool(learner, options)
        losses.append([pool.run(minibatch(number, 6)) for number in range(4, 8)])
    assert losses[2] == losses[3]
    assert numbers_of(plain) == numbers_of(moved)
    predictions = []
    for learner in (plain, moved):
        step = PredictStep(learner, is_exact=True)
        with frozen(learner.model, 0):
            step.run(minibatch(9, 40))
        assert step.prediction.is_cpu
        predictions.append(step.prediction.tolist())
    assert predictions[0] == predictions[1]


@pytest.mark.parametrize(("kind", "num_slices"), [("Model", 1), ("Model", 2), ("Wide", 1)])
def test_a_run_on_another_device_gives_the_numbers_of_the_cpu(kind: str, num_slices: int) -> None:
    """In a process of its own: a device must be there before torch computes its first gradient."""
    code = f"from tests.runner.test_device import *; compare({kind}, {num_slices})"
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


def test_the_fake_device_refuses_to_mix_devices(quick_path: Path) -> None:
    def mix() -> None:
        fake = fake_device.register()
        with pytest.raises(RuntimeError, match="tensors on fake:0, cpu"):
            torch.nn.functional.linear(torch.ones(3, 3).to(fake), torch.ones(3, 3))

    ended = run_in_child(mix, quick_path / "log")
    assert ended.code == 0, ended.output


def test_bags_and_keys_stay_where_they_are() -> None:
    record = minibatch(0, 4)
    moved = to_device(record, torch.device("meta"))
    assert moved.inputs["ad"] is record.inputs["ad"]
    assert [moved.inputs["price"].device.type, moved.targets["y"].device.type] == ["meta", "meta"]  # type: ignore[union-attr]
    assert (moved.num_examples, moved.number, moved.hour) == (record.num_examples, record.number, record.hour)
    assert to_device(record, CPU) is record


def test_a_copied_embedding_is_on_the_device_of_the_original() -> None:
    model = Model().to("meta")
    assert copy.deepcopy(model.embedding)._place.device.type == "meta"
    assert model.embedding({"ad": minibatch(0, 3).inputs["ad"]})["ad"].device.type == "meta"
    assert "_place" not in json.dumps(list(model.state_dict()))


def test_a_device_that_is_not_there_is_one_sentence() -> None:
    assert choose_device("auto") == CPU
    for device in ("cuda", "cuda:1"):
        with pytest.raises(BadInput, match=f"device {device} is not available: torch sees 0 CUDA devices"):
            choose_device(device)
    with pytest.raises(BadInput, match="device must be 'auto', 'cpu', 'cuda' or like 'cuda:1', got 'gpu'"):
        choose_device("gpu")


@pytest.mark.parametrize(("available", "expected"), [(True, "cuda"), (False, "cpu")])
def test_auto_is_cuda_if_there_is_one(monkeypatch: pytest.MonkeyPatch, available: bool, expected: str) -> None:
    answer: Callable[[], bool] = lambda: available  # noqa: E731  # what torch says
    monkeypatch.setattr(torch.cuda, "is_available", answer)
    assert choose_device("auto").type == expected
