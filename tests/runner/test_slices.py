"""Steps of several minibatches: one tree of sums, one update, and what a slice draws."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import samovar
from samovar.embeddings import HashAdagrad, HashSGD
from samovar.embeddings.reference import sum_tree
from samovar.policies import Exponential
from samovar.runner import Learner, ListStream, Loader, MinibatchRecord, MinibatchWorkerPool, Run, Runner, Uri, UriList
from samovar.runner.slices import GradientTree
from samovar.runner.step import StepOptions
from samovar.seeds import set_seed
from samovar.tables import Bag


@given(st.integers(1, 17), st.integers(0, 2**32 - 1))
def test_gradients_are_added_up_by_one_tree(num_slices: int, seed: int) -> None:
    slices = np.random.default_rng(seed).standard_normal((num_slices, 4)).astype(np.float32)
    weights = [torch.zeros(4, requires_grad=True), torch.zeros(1, requires_grad=True)]
    tree = GradientTree(weights)
    for gradient in slices:
        weights[0].grad = torch.from_numpy(gradient.copy())
        tree.add_slice()
    tree.finish(4.0)
    assert weights[0].grad is not None
    assert weights[0].grad.numpy().tobytes() == (sum_tree(list(slices)) / np.float32(4)).tobytes()
    assert weights[1].grad is None


def test_a_parameter_may_be_without_gradient_in_some_slices() -> None:
    weight = torch.zeros(1, requires_grad=True)
    tree = GradientTree([weight])
    for gradient in (None, torch.ones(1), None, torch.ones(1) * 2, None):
        weight.grad = gradient
        tree.add_slice()
    tree.finish(1.0)
    assert weight.grad is not None
    assert weight.grad.item() == 3


class Model(samovar.BaseEmbeddingModel):
    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__({"ad": 4}, init_scale=0.1)
        self.net = torch.nn.Sequential(torch.nn.Dropout(dropout), torch.nn.Linear(5, 1))

    def forward(self, inputs: Any) -> torch.Tensor:
        x = self.embed(inputs)
        output: torch.Tensor = self.net(torch.cat([x["ad"], x["price"].unsqueeze(1)], 1)).squeeze(1)
        return output


def loss(output: torch.Tensor, targets: Any) -> torch.Tensor:
    wanted: torch.Tensor = targets["y"]
    return (output - wanted).square().mean()


def minibatch(number: int, size: int) -> MinibatchRecord:
    generator = torch.Generator().manual_seed(number)
    ids = torch.randint(0, 9, (size,), generator=generator)
    inputs = {"ad": Bag(ids, torch.ones(size, dtype=torch.int32)), "price": torch.rand(size, generator=generator)}
    return MinibatchRecord(inputs, {"y": torch.rand(size, generator=generator)}, num_examples=size, number=number)


def join(*records: MinibatchRecord) -> MinibatchRecord:
    bags: list[Any] = [record.inputs["ad"] for record in records]
    inputs: dict[str, Any] = {
        "ad": Bag(torch.cat([bag.data for bag in bags]), torch.cat([bag.data_len for bag in bags])),
        "price": torch.cat([record.inputs["price"] for record in records]),  # type: ignore[misc]
    }
    targets: dict[str, Any] = {"y": torch.cat([record.targets["y"] for record in records])}  # type: ignore[misc]
    return MinibatchRecord(inputs, targets, num_examples=sum(record.num_examples for record in records))


def train(
    records: list[MinibatchRecord], optimizer: Any = HashAdagrad, dropout: float = 0.0, **options: Any
) -> Learner:
    set_seed(3)
    model = Model(dropout)
    optimizers = {
        "emb": optimizer(model.hash_embeddings(), lr=0.5),
        "net": torch.optim.SGD(model.dense_parameters(), 0.5),
    }
    learner = Learner(model, optimizers, loss, policies={"net.lr": Exponential(0.5, 0.5, unit="step")})
    uri = Uri(0, "all", ListStream(records), 0, len(records), 0)
    with Loader() as loader:
        Runner(MinibatchWorkerPool(learner, StepOptions(**options)), loader).run(Run(learner), UriList([uri]))
    return learner


def weights_of(learner: Learner) -> list[Any]:
    model = learner.model
    assert isinstance(model, Model)
    return [
        *(each.detach().numpy() for each in model.parameters()),
        model.embedding.weights_of("ad", np.arange(9, dtype=np.uint64)),
    ]


@pytest.mark.parametrize("optimizer", [HashAdagrad, HashSGD])
@pytest.mark.parametrize("sizes", [(8, 8, 8, 8), (8, 3, 8, 5), (8, 8, 5)])
def test_a_step_of_several_minibatches_is_that_of_the_joined_one_up_to_rounding(
    optimizer: Any, sizes: tuple[int, ...]
) -> None:
    records = [minibatch(number, size) for number, size in enumerate(sizes)]
    several = train(records, optimizer, step_minibatches=4)
    joined = train([join(*records)], optimizer)
    for found, expected in zip(weights_of(several), weights_of(joined), strict=True):
        assert np.allclose(found, expected, atol=1e-6)
    assert not np.allclose(weights_of(train(records, optimizer))[0], weights_of(joined)[0], atol=1e-4)


def test_the_end_of_a_uri_closes_a_step_and_policies_count_steps() -> None:
    learner = train([minibatch(number, 8) for number in range(7)], step_minibatches=3)
    (rate,) = learner.named_policies.values()
    assert rate.state_dict() == {"num_steps": 3, "value": 0.125}
    clipped = train([minibatch(number, 8) for number in range(2)], step_minibatches=4, clip_norm=1e-9)
    assert np.allclose(weights_of(clipped)[0], weights_of(train([]))[0])


def test_what_a_slice_draws_depends_on_the_step_and_its_position_alone() -> None:
    drawn: list[list[float]] = []

    def draw(output: torch.Tensor, targets: Any) -> torch.Tensor:
        drawn[-1].append(torch.rand(1).item())
        if targets["y"].numel() > 4:
            torch.rand(100)
        return output.sum()

    for size in (4, 6):
        set_seed(1)
        model = Model()
        pool = MinibatchWorkerPool(Learner(model, torch.optim.SGD(model.parameters(), 0.1), draw), StepOptions(2))
        drawn.append([])
        for number in range(4):
            pool.run(minibatch(number, size))
    assert drawn[0] == drawn[1]
    assert len(set(drawn[0])) == 4
    assert all(math.isfinite(each) for each in drawn[0])
