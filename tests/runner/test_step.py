"""What a step does with its minibatch: loss, precision, clipping; several minibatches are in test_slices.py."""

from typing import Any

import pytest
import torch

from samovar.errors import BadInput
from samovar.runner import Learner, MinibatchRecord, MinibatchWorkerPool
from samovar.runner.step import StepOptions
from samovar.testing.callback import make_learner, make_uris


def test_a_loss_must_be_one_number() -> None:
    learner = make_learner()
    pool = MinibatchWorkerPool(Learner(learner.model, learner.optimizers, lambda output, targets: output))
    with pytest.raises(BadInput, match=r"loss must return a tensor with one number, got a tensor of shape \[4\]"):
        pool.run(next(make_uris().uris[0].stream.open(0)))


def linear(output: Any = None, **options: Any) -> tuple[torch.nn.Linear, list[Any], MinibatchWorkerPool]:
    """A linear model, what its loss got, and a pool."""
    seen: list[Any] = []

    class Model(torch.nn.Linear):
        def forward(self, inputs: Any) -> Any:
            found = super().forward(inputs["x"]).squeeze(1)
            return found if output is None else output(found)

    def loss(output: Any, targets: Any) -> torch.Tensor:
        seen.append(output)
        tensor = output if isinstance(output, torch.Tensor) else output["a"][0]
        difference: torch.Tensor = tensor - targets["y"]
        return difference.square().mean()

    torch.manual_seed(0)
    model = Model(3, 1)
    learner = Learner(model, torch.optim.SGD(model.parameters(), lr=1.0), loss)
    return model, seen, MinibatchWorkerPool(learner, StepOptions(**options))


MINIBATCH = MinibatchRecord({"x": torch.arange(24.0).reshape(8, 3) / 7}, {"y": torch.ones(8)}, num_examples=8)


def test_the_gradient_is_scaled_down_to_the_norm() -> None:
    model, _, pool = linear(clip_norm=0.25)
    before = [weights.detach().clone() for weights in model.parameters()]
    pool.run(MINIBATCH)
    moved = [old - new for old, new in zip(before, model.parameters(), strict=True)]
    assert torch.nn.utils.get_total_norm(moved).item() == pytest.approx(0.25)
    unclipped, _, pool = linear(clip_norm=1e6)
    plain, _, other = linear()
    pool.run(MINIBATCH)
    other.run(MINIBATCH)
    assert torch.equal(unclipped.weight, plain.weight)


def test_bf16_rounds_the_dense_part_and_losses_get_float32() -> None:
    model, seen, pool = linear(precision="bf16")
    plain, exact, other = linear()
    assert pool.run(MINIBATCH) == pytest.approx(other.run(MINIBATCH), rel=0.02)
    assert seen[0].dtype == torch.float32
    assert torch.equal(seen[0], seen[0].bfloat16().float())
    assert not torch.equal(seen[0], exact[0])
    assert model.weight.dtype == plain.weight.dtype == torch.float32
    _, seen, pool = linear(lambda found: {"a": (found, 3), "b": [found.float()]}, precision="bf16")
    pool.run(MINIBATCH)
    assert [each.dtype for each in (seen[0]["a"][0], seen[0]["b"][0])] == [torch.float32] * 2
    assert seen[0]["a"][1] == 3
