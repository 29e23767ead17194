from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from samovar import Bag
from samovar.errors import BadInput
from samovar.scoring.tiles import TILE_ROWS, score

Row = Mapping[str, Any]


def make_bag(lists: Sequence[Sequence[int]]) -> Bag:
    ids = [each for row in lists for each in row]
    return Bag(torch.tensor(ids, dtype=torch.int64), torch.tensor([len(row) for row in lists], dtype=torch.int32))


def make_sequence(lists: Sequence[Sequence[int | None]]) -> Bag:
    """Each item is a bag of at most one id; None is an empty bag that keeps its place."""
    lengths = torch.zeros(len(lists), max(map(len, lists), default=0), dtype=torch.int32)
    for number, row in enumerate(lists):
        lengths[number, : len(row)] = torch.tensor([each is not None for each in row], dtype=torch.int32)
    ids = [each for row in lists for each in row if each is not None]
    return Bag(torch.tensor(ids, dtype=torch.int64), lengths)


def make_inputs(rows: Sequence[Row]) -> dict[str, Any]:
    return {
        "bag": make_bag([row["bag"] for row in rows]),
        "sequence": make_sequence([row["sequence"] for row in rows]),
        "price": torch.tensor([row["price"] for row in rows], dtype=torch.float32),
        "vector": torch.tensor([[row["price"], 1.0] for row in rows], dtype=torch.float32).reshape(-1, 2),
        "name": pa.array([row["name"] for row in rows], pa.string()),
    }


def make_rows(count: int, seed: int = 0) -> list[Row]:
    random = np.random.default_rng(seed)
    return [
        {
            "bag": random.integers(0, 50, random.integers(0, 4)).tolist(),
            "sequence": [None if random.random() < 0.2 else int(each) for each in random.integers(0, 50, length)],
            "price": float(random.standard_normal()),
            "name": f"row {number}",
        }
        for number, length in enumerate(random.integers(0, 20, count))
    ]


class Net(nn.Module):
    """Everything whose bits depend on the shape: matrix products, a recurrent net, attention and a mean over time."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Embedding(50, 16)
        self.recurrent = nn.GRU(16, 16, batch_first=True)
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.top = nn.Sequential(nn.Linear(35, 64), nn.ReLU(), nn.Linear(64, 3))

    def forward(self, inputs: Mapping[str, Any]) -> Any:
        bag, sequence = inputs["bag"], inputs["sequence"]
        examples = torch.repeat_interleave(torch.arange(len(bag)), bag.data_len.long())
        pooled = torch.zeros(len(bag), 16).index_add(0, examples, self.rows(bag.data))
        flat = torch.zeros(sequence.data_len.numel(), 16)
        flat[sequence.data_len.reshape(-1) > 0] = self.rows(sequence.data)
        items = flat.view(len(sequence), -1, 16)
        context = self.attention(items, items, items)[0].mean(1) + self.recurrent(items)[0][:, -1]
        return self.top(torch.cat([pooled, context, inputs["price"][:, None], inputs["vector"]], 1))


@pytest.fixture(scope="module")
def net() -> Net:
    torch.manual_seed(0)
    return Net().eval()


def apply(net: Net, rows: Sequence[Row]) -> torch.Tensor:
    with torch.no_grad():
        scores = score(net, make_inputs(rows), len(rows))
    assert isinstance(scores, torch.Tensor)
    return scores


def test_a_row_has_the_same_score_alone_shuffled_and_among_any_others(net: Net) -> None:
    rows = make_rows(100)
    together = apply(net, rows)
    alone = torch.cat([apply(net, [row]) for row in rows])
    order = np.random.default_rng(1).permutation(len(rows))
    shuffled = apply(net, [rows[number] for number in order])
    assert torch.equal(together, alone)
    assert torch.equal(together[torch.from_numpy(order)], shuffled)


def test_without_tiles_the_scores_of_this_net_depend_on_neighbours(net: Net) -> None:
    """Else the test above would show nothing."""
    rows = make_rows(100)
    with torch.no_grad():
        together = net(make_inputs(rows))
        alone = torch.cat([net(make_inputs([row])) for row in rows if row["sequence"]])
    chosen = torch.tensor([bool(row["sequence"]) for row in rows])
    assert not torch.equal(together[chosen], alone)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 80), st.integers(0, 2**32), st.data())
def test_any_choice_of_rows_keeps_their_scores(count: int, seed: int, data: st.DataObject) -> None:
    torch.manual_seed(0)
    net = Net().eval()
    rows = make_rows(count, seed)
    chosen = data.draw(st.lists(st.integers(0, max(count - 1, 0)), max_size=70)) if count else []
    assert torch.equal(apply(net, rows)[chosen], apply(net, [rows[number] for number in chosen]))


def test_the_inputs_of_a_tile_are_the_rows_themselves() -> None:
    rows = make_rows(70)
    seen: dict[str, tuple[Any, ...]] = {}

    def look(inputs: Mapping[str, Any]) -> Any:
        assert all(len(value) == TILE_ROWS for value in inputs.values())
        bags, sequences = unpack(inputs["bag"]), unpack(inputs["sequence"])
        for number, name in enumerate(inputs["name"].to_pylist()):
            if name is not None:
                seen[name] = (bags[number], sequences[number], float(inputs["price"][number]))
        return inputs["price"]

    scores = score(look, make_inputs(rows), len(rows))
    assert torch.equal(scores, torch.tensor([row["price"] for row in rows], dtype=torch.float32))
    for row in rows:
        ids = [each for each in row["sequence"] if each is not None]
        assert seen[row["name"]] == (row["bag"], ids, pytest.approx(row["price"]))


def unpack(bag: Bag) -> list[list[int]]:
    counts = bag.data_len.reshape(len(bag), -1).sum(1).tolist()
    return [part.tolist() for part in bag.data.split_with_sizes(counts)]


def test_a_sequence_is_padded_to_a_power_of_two_of_its_own_length() -> None:
    lengths: list[int] = []

    def look(inputs: Mapping[str, Any]) -> Any:
        lengths.append(inputs["x"].data_len.shape[1])
        return inputs["x"].data_len.sum(1).float()

    rows: list[list[int | None]] = [[1] * 9, [], [1, 2, 3], [None, None], [5, None, None, None, None]]
    scores = score(look, {"x": make_sequence(rows)}, len(rows))
    assert scores.tolist() == [9, 0, 3, 0, 1]
    assert sorted(lengths) == [1, 4, 16]


def test_deeper_bags_keep_their_places() -> None:
    data_len = torch.zeros(3, 5, 3, dtype=torch.int32)
    data_len[0, 4, 2], data_len[1, 0, 0], data_len[2, 1, 1] = 2, 1, 1
    bag = Bag(torch.tensor([1, 2, 3, 4]), data_len)
    shapes: list[tuple[int, ...]] = []

    def look(inputs: Mapping[str, Any]) -> Any:
        shapes.append(tuple(inputs["x"].data_len.shape))
        return torch.stack([inputs["x"].data_len[:, 0, 0], inputs["x"].data_len.sum((1, 2))], 1)

    assert score(look, {"x": bag}, 3).tolist() == [[0, 2], [1, 1], [0, 1]]
    assert sorted(shapes) == [(32, 1, 1), (32, 2, 2), (32, 8, 4)]


def test_outputs_may_be_a_dict_and_no_rows_give_empty_outputs() -> None:
    def forward(inputs: Mapping[str, Any]) -> dict[str, torch.Tensor]:
        return {"click": inputs["x"], "both": torch.stack([inputs["x"], inputs["x"]], 1)}

    scores = score(forward, {"x": torch.arange(40.0)}, 40)
    assert torch.equal(scores["click"], torch.arange(40.0))
    assert scores["both"].shape == (40, 2)
    assert {name: tuple(value.shape) for name, value in score(forward, {"x": torch.zeros(0)}, 0).items()} == {
        "click": (0,),
        "both": (0, 2),
    }


def test_an_output_that_is_not_one_per_row_is_refused() -> None:
    with pytest.raises(BadInput, match=r"one prediction per row, \[32\] or \[32, K\].*got \[\]\. .*mixes_rows=True"):
        score(lambda inputs: torch.zeros(()), {"x": torch.zeros(5)}, 5)
