"""Rows of several minibatches: the same as by a plain loop."""

from typing import Any

import numpy as np
import pyarrow as pa
import torch
from hypothesis import given
from hypothesis import strategies as st

from samovar.tables import Bag
from samovar.tables.selection import gather_rows

bags = st.lists(st.lists(st.lists(st.integers(0, 9), max_size=3), max_size=3), max_size=4)
"""Per minibatch, per row, a bag of ids."""


def make_bag(rows: list[list[int]]) -> Bag:
    data = torch.tensor([each for row in rows for each in row], dtype=torch.int64)
    return Bag(data, torch.tensor([len(row) for row in rows], dtype=torch.int32))


def ids_of(bag: Bag) -> list[list[int]]:
    return [part.tolist() for part in bag.data.split_with_sizes(bag.data_len.reshape(-1).tolist())]


@given(bags, st.data())
def test_rows_of_bags_keep_their_ids(minibatches: list[list[list[int]]], data: st.DataObject) -> None:
    rows = [row for minibatch in minibatches for row in minibatch]
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=6)) if rows else []
    if not minibatches:
        return
    found = gather_rows([make_bag(minibatch) for minibatch in minibatches], np.array(chosen, np.int64))
    assert isinstance(found, Bag)
    assert ids_of(found) == [rows[row] for row in chosen]


def test_sequences_of_other_lengths_are_filled_up_with_empty_bags() -> None:
    short = Bag(torch.tensor([1, 2]), torch.tensor([[1], [1]], dtype=torch.int32))
    long = Bag(torch.tensor([3, 4, 5]), torch.tensor([[1, 0, 2]], dtype=torch.int32))
    found = gather_rows([short, long], np.array([2, 0]))
    assert isinstance(found, Bag)
    assert found.data.tolist() == [3, 4, 5, 1]
    assert found.data_len.tolist() == [[1, 0, 2], [1, 0, 0]]


def test_tensors_and_keys_are_taken_too() -> None:
    matrices = [torch.arange(4.0).reshape(2, 2), torch.arange(4.0, 6.0).reshape(1, 2)]
    rows = np.array([2, 0])
    numbers = gather_rows(matrices, rows)
    assert isinstance(numbers, torch.Tensor)
    assert numbers.tolist() == [[4, 5], [0, 1]]
    keys: Any = gather_rows([pa.array(["a", None]), pa.array(["c"])], rows)
    assert keys.to_pylist() == ["c", "a"]
