"""What every callback must do. A new one passes by providing the fixture `make_callback`."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from samovar.results.arrays import as_array
from samovar.results.state import decode_tree, encode_tree
from samovar.runner import Callback, Learner, ListStream, Loader, MinibatchWorkerPool, Run, Runner
from samovar.runner.uri import Uri, UriList
from samovar.seeds import set_seed
from samovar.tables import Record

NUM_URIS = 5


class _Linear(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 1)

    def forward(self, inputs: Any) -> torch.Tensor:
        output: torch.Tensor = self.layer(inputs["x"]).squeeze(1)
        return output


def make_learner() -> Learner:
    """A small linear model. Its optimizer has momentum, so it has a state."""
    model = _Linear()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return Learner(model, optimizer, lambda output, targets: torch.nn.functional.mse_loss(output, targets["y"]))


def make_uris() -> UriList:
    """Hours of two minibatches each, and one empty hour."""
    records: list[Record] = []
    uris = []
    for number in range(NUM_URIS):
        count = 0 if number == 2 else 2
        first = len(records)
        for _ in range(count):
            x = torch.arange(12, dtype=torch.float32).reshape(4, 3) / (10 + len(records))
            records.append(Record({"x": x, "y": x.sum(1)}, len(records), number * 3600, 4))
        uris.append((number, first, count))
    stream = ListStream(records)
    return UriList([Uri(n, f"hour {n}", stream, first, count, n, hour=n * 3600) for n, first, count in uris])


class CallbackContract:
    """The contract of callbacks: subclass it and provide the fixture `make_callback`.

    Example:
        >>> class TestMyCallback(CallbackContract):
        ...     @pytest.fixture
        ...     def make_callback(self):
        ...         return MyCallback
    """

    def test_it_does_not_change_the_model_that_a_run_makes(self, make_callback: Callable[[], Callback]) -> None:
        alone, watched = _train([]), _train([make_callback()])
        for name, weights in alone.model.state_dict().items():
            assert torch.equal(weights, watched.model.state_dict()[name])

    def test_its_state_survives_a_snapshot(self, make_callback: Callable[[], Callback]) -> None:
        callback, other = make_callback(), make_callback()
        _train([callback])
        state = dict(callback.state_dict())
        other.load_state_dict(_through_snapshot(state))
        assert repr(dict(other.state_dict())) == repr(state)

    @pytest.mark.parametrize("cut", range(1, NUM_URIS))
    def test_a_run_resumed_anywhere_ends_in_the_same_state(
        self, make_callback: Callable[[], Callback], cut: int
    ) -> None:
        straight = _train([make_callback()])
        first = _train([make_callback()], stop=cut)
        second = _train([make_callback()], state=_through_snapshot(first.state_dict()))
        assert repr(_arrays_as_bytes(second.state_dict())) == repr(_arrays_as_bytes(straight.state_dict()))


def _train(callbacks: list[Callback], stop: int = NUM_URIS, state: Any = None) -> Run:
    set_seed(1)
    learner = make_learner()
    pool = MinibatchWorkerPool(learner)
    run = Run(learner, pool.settings.policies, callbacks)
    if state is not None:
        run.load_state_dict(state)
    Runner(pool, Loader(["x"], ["y"]), callbacks).run(run, UriList(make_uris().uris[:stop]))
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
