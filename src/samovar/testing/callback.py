"""The contract of callbacks: a subclass of `CallbackContract` tests a callback of yours."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from samovar.results.arrays import as_array
from samovar.results.state import decode_tree, encode_tree
from samovar.runner import (
    Callback,
    Learner,
    ListStream,
    Loader,
    MinibatchRecord,
    MinibatchWorkerPool,
    Run,
    Runner,
    Uri,
    UriList,
)
from samovar.seeds import set_seed

NUM_URIS = 5


class _Linear(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 1)

    def forward(self, inputs: Any) -> torch.Tensor:
        output: torch.Tensor = self.layer(inputs["x"]).squeeze(1)
        return output


def make_learner() -> Learner:
    """A small linear model; its optimizer has momentum, and so a state."""
    model = _Linear()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return Learner(model, optimizer, lambda output, targets: torch.nn.functional.mse_loss(output, targets["y"]))


def make_uris() -> UriList:
    """Five hours of two minibatches each, except one without data."""
    minibatches: list[MinibatchRecord] = []
    uris = []
    for number in range(NUM_URIS):
        count = 0 if number == 2 else 2
        first = len(minibatches)
        for _ in range(count):
            x = torch.arange(12, dtype=torch.float32).reshape(4, 3) / (10 + len(minibatches))
            minibatches.append(MinibatchRecord({"x": x}, {"y": x.sum(1)}, {}, 4, len(minibatches), number * 3600))
        uris.append((number, first, count))
    stream = ListStream(minibatches)
    return UriList([Uri(n, f"hour {n}", stream, first, count, n, hour=n * 3600) for n, first, count in uris])


class CallbackContract:
    """What every callback must guarantee, so that runs can be watched, killed and resumed.

    Subclass it and provide the fixture `make_callback`, which returns a function that makes a new callback.

    Example:
        >>> class TestWeightNorm(CallbackContract):
        ...     @pytest.fixture
        ...     def make_callback(self):
        ...         return WeightNorm
    """

    def test_a_run_with_it_ends_with_the_same_model_as_a_run_without(
        self, make_callback: Callable[[], Callback]
    ) -> None:
        alone, watched = _train([]), _train([make_callback()])
        for name, weights in alone.model.state_dict().items():
            assert torch.equal(weights, watched.model.state_dict()[name])

    def test_its_state_survives_a_snapshot(self, make_callback: Callable[[], Callback]) -> None:
        callback, other = make_callback(), make_callback()
        _train([callback])
        state = dict(callback.state_dict())
        other.load_state_dict(_through_snapshot(state))
        assert repr(dict(other.state_dict())) == repr(state)

    @pytest.mark.parametrize("num_done", range(1, NUM_URIS))
    def test_a_run_resumed_anywhere_ends_with_the_same_state(
        self, make_callback: Callable[[], Callback], num_done: int
    ) -> None:
        straight = _train([make_callback()])
        first = _train([make_callback()], stop=num_done)
        second = _train([make_callback()], state=_through_snapshot(first.state_dict()))
        assert repr(_arrays_as_bytes(second.state_dict())) == repr(_arrays_as_bytes(straight.state_dict()))


def _train(callbacks: list[Callback], stop: int = NUM_URIS, state: Any = None) -> Run:
    set_seed(1)
    learner = make_learner()
    pool = MinibatchWorkerPool(learner)
    run = Run(learner, pool.settings.policies, callbacks)
    if state is not None:
        run.load_state_dict(state)
    Runner(pool, Loader(), callbacks).run(run, UriList(make_uris().uris[:stop]))
    return run


def _through_snapshot(tree: Any) -> Any:
    node, arrays = encode_tree(tree)
    return decode_tree(node, lambda entry: arrays[entry["$array"]].value)


def _arrays_as_bytes(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _arrays_as_bytes(value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [_arrays_as_bytes(value) for value in tree]
    array = as_array(tree)
    return tree if array is None else b"".join(map(bytes, array.chunks()))
