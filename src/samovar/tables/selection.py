"""Rows of several minibatches, chosen by number and put end to end. Knows no files."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from samovar.tables.record import Bag, RecordValue


def gather_rows(values: Sequence[RecordValue], rows: NDArray[np.int64]) -> RecordValue:
    """Some rows of one column of several minibatches.

    Args:
        values: The column of each minibatch.
        rows: The rows to take, in this order, counted through all minibatches.

    Returns:
        A value of the same kind. Shorter sequences of bags are filled up with empty bags.

    Example:
        >>> gather_rows([torch.tensor([1.0, 2.0]), torch.tensor([3.0])], np.array([2, 0]))
        tensor([3., 1.])
    """
    first = values[0]
    if isinstance(first, torch.Tensor):
        return _joined([each for each in values if isinstance(each, torch.Tensor)])[torch.from_numpy(rows)]
    if isinstance(first, Bag):
        return _gather_bags([each for each in values if isinstance(each, Bag)], rows)
    return pa.concat_arrays(values).take(pa.array(rows))


def _gather_bags(bags: Sequence[Bag], rows: NDArray[np.int64]) -> Bag:
    data, lengths = _joined([bag.data for bag in bags]), _joined(_widen([bag.data_len for bag in bags]))
    taken = lengths[torch.from_numpy(rows)]
    if lengths.dim() == 1 and len(data) == len(lengths) and (len(data) == 0 or int(lengths.min()) == 1):  # one id each
        return Bag.of_checked(data[torch.from_numpy(rows)], taken)
    counts = lengths.numpy().sum(axis=tuple(range(1, lengths.dim())), dtype=np.int64)
    sizes = counts[rows]
    # The ids of a row are neighbours before and after: all of them move by the same distance.
    distances = (np.cumsum(counts) - counts)[rows] - (np.cumsum(sizes) - sizes)
    order = np.arange(sizes.sum()) + np.repeat(distances, sizes)
    return Bag.of_checked(data[torch.from_numpy(order)], taken)


def _joined(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    return tensors[0] if len(tensors) == 1 else torch.cat(list(tensors))


def _widen(lengths: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Lengths of one shape beyond the rows: the longest sequence decides."""
    shapes = {each.shape[1:] for each in lengths}
    if len(shapes) == 1:
        return list(lengths)
    widest = [max(sizes) for sizes in zip(*shapes, strict=True)]
    widened = []
    for each in lengths:
        wide = each.new_zeros(len(each), *widest)
        wide[:, *(slice(size) for size in each.shape[1:])] = each
        widened.append(wide)
    return widened
