"""Applies a frozen model so that the score of a row depends on that row alone: the one scoring function of `predict`,
`load` and serving. Knows no scripts and no files.

The bits of a matrix product depend on the number of its rows, and those of a sum on its padded length. So rows are
sorted by their sequence lengths, rounded up to powers of two, and scored in tiles of 32, the last one of each kind
filled up with empty rows:

    rows    a b c d e f g …        lengths 3 9 2 1 14 …
    tiles   | a c d … 0 0 | length 4        | b e … 0 0 | length 16
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from samovar.errors import BadInput
from samovar.tables.record import Bag, RecordValue

TILE_ROWS = 32
_ALIGNMENT = 64  # bytes; a matrix product may give other bits for another alignment
Inputs: TypeAlias = Mapping[str, RecordValue]
Forward: TypeAlias = Callable[[Inputs], Any]
"""From the inputs of some rows to a tensor [B] or [B, K], or a dict of them."""


@contextmanager
def restored_threads(num_threads: int) -> Iterator[None]:
    """Compute with this number of threads. Scores depend on it, and it belongs to the caller's process."""
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(num_threads)
        yield
    finally:
        torch.set_num_threads(before)


def score(forward: Forward, inputs: Inputs, num_rows: int) -> Any:
    """Apply a model to rows. Call it inside `torch.no_grad` and with the model in evaluation mode.

    Args:
        forward: Gets the inputs of one tile and returns its predictions.
        inputs: Feature name to tensor, `Bag` or Arrow array, for all rows.
        num_rows: The number of rows.

    Returns:
        A tensor whose first dimension is the rows, in their order, or a dict of such tensors.

    Raises:
        BadInput: `forward` does not return one prediction per row.

    Example:
        >>> score(lambda inputs: inputs["x"] * 2, {"x": torch.tensor([1.0, 2.0])}, 2)
        tensor([2., 4.])
    """
    layout = _lay_out(inputs, num_rows)
    columns = {name: _cut(name, value, layout) for name, value in inputs.items()}
    tiles = [_as_tensors(forward({name: column[k] for name, column in columns.items()})) for k in range(len(layout))]
    places = slice(num_rows) if layout.is_in_order else torch.from_numpy(layout.places)
    joined = {name: torch.cat([tile[name] for tile in tiles])[places] for name in tiles[0]}
    return joined.get("", joined)


@dataclass(frozen=True)
class _Layout:
    """Which row is where."""

    rows: NDArray[np.int64]
    """The row at each place of all tiles, end to end; -1 is an empty row."""
    places: NDArray[np.int64]
    """The place of each row."""
    widths: Sequence[Mapping[str, Sequence[int]]]
    """Per tile, the padded lengths of each sequence feature."""
    is_in_order: bool = False
    """Whether the rows stay where they are, and only the last tile is filled up: there are no sequences."""

    def __len__(self) -> int:
        return len(self.widths)


def _lay_out(inputs: Inputs, num_rows: int) -> _Layout:
    sequences = {name: value for name, value in inputs.items() if isinstance(value, Bag) and value.data_len.dim() > 1}
    if not sequences:
        num_tiles = max(1, -(-num_rows // TILE_ROWS))
        places = np.arange(num_tiles * TILE_ROWS)
        return _Layout(np.where(places < num_rows, places, -1), places[:num_rows], [{}] * num_tiles, is_in_order=True)
    keys = np.stack([column for bag in sequences.values() for column in _own_lengths(bag.data_len)], 1)
    kinds, kind_of_row = np.unique(keys, axis=0, return_inverse=True)
    rows: list[NDArray[np.int64]] = []
    widths: list[Mapping[str, Sequence[int]]] = []
    for kind, key in enumerate(kinds):
        members = np.flatnonzero(kind_of_row.reshape(-1) == kind)
        num_tiles = -(-len(members) // TILE_ROWS)
        rows.append(np.concatenate([members, np.full(num_tiles * TILE_ROWS - len(members), -1)]))
        widths += [_widths(sequences, key.tolist())] * num_tiles
    if not rows:  # no rows at all: one empty tile shows what the outputs are
        return _Layout(np.full(TILE_ROWS, -1), np.zeros(0, np.int64), [_widths(sequences, [1] * keys.shape[1])])
    placed = np.concatenate(rows)
    places = np.empty(num_rows, np.int64)
    places[placed[placed >= 0]] = np.flatnonzero(placed >= 0)
    return _Layout(placed, places, widths)


def _own_lengths(data_len: torch.Tensor) -> Iterator[NDArray[np.int64]]:
    """Per list level below the rows, the length that each row itself needs, rounded up to a power of two."""
    filled: NDArray[np.bool_] = (data_len > 0).numpy()
    for axis in range(1, filled.ndim):
        others = tuple(each for each in range(1, filled.ndim) if each != axis)
        used = np.asarray(filled.any(axis=others)) if others else filled
        last = used.shape[1] - np.argmax(used[:, ::-1], axis=1) if used.shape[1] else np.zeros(len(used), np.int64)
        length = np.where(used.any(axis=1), last, 1)  # a model may not expect a length of 0
        yield 1 << np.ceil(np.log2(length)).astype(np.int64)


def _widths(sequences: Mapping[str, Bag], key: list[int]) -> dict[str, list[int]]:
    widths = {}
    for name, bag in sequences.items():
        depth = bag.data_len.dim() - 1
        widths[name], key = key[:depth], key[depth:]
    return widths


def _cut(name: str, value: RecordValue, layout: _Layout) -> Sequence[RecordValue]:
    """The tiles of one feature."""
    if isinstance(value, pa.Array):
        chosen = value.take(pa.array(layout.rows, mask=layout.rows < 0))
        return [chosen.slice(k * TILE_ROWS, TILE_ROWS) for k in range(len(layout))]
    if isinstance(value, Bag):
        data, lengths = _take_bag(value, layout)
        widths = [tile.get(name, ()) for tile in layout.widths]
        return [Bag.of_checked(*tile) for tile in zip(data, map(_resize, lengths, widths), strict=True)]
    return _split(_take(value, layout))  # aligned like the whole, because 32 rows of floats fill whole cache lines


def _split(tensor: torch.Tensor) -> Sequence[torch.Tensor]:
    return tensor.split_with_sizes([TILE_ROWS] * (len(tensor) // TILE_ROWS))


def _take(tensor: torch.Tensor, layout: _Layout) -> torch.Tensor:
    """The rows of a tensor at their places, with zeros for empty rows."""
    is_aligned = tensor.data_ptr() % _ALIGNMENT == 0 and tensor.is_contiguous()
    if layout.is_in_order and len(tensor) == len(layout.rows) and is_aligned:
        return tensor
    taken = tensor.new_zeros(len(layout.rows), *tensor.shape[1:])
    taken[slice(len(tensor)) if layout.is_in_order else torch.from_numpy(layout.places)] = tensor
    return taken


def _take_bag(bag: Bag, layout: _Layout) -> tuple[Sequence[torch.Tensor], Sequence[torch.Tensor]]:
    """The ids and the lengths of each tile."""
    taken = _take(bag.data_len, layout)
    lengths = _split(taken)
    if layout.is_in_order:
        return bag.data.split_with_sizes(taken.numpy().reshape(-1, TILE_ROWS).sum(1).tolist()), lengths
    counts = bag.data_len.numpy().sum(axis=tuple(range(1, bag.data_len.dim())), dtype=np.int64)
    starts = np.cumsum(counts) - counts
    is_row = layout.rows >= 0
    kept = layout.rows[is_row]
    sizes = np.zeros(len(layout.rows), np.int64)
    sizes[is_row] = counts[kept]
    ends = np.cumsum(sizes)
    # The ids of a row are neighbours before and after: all of them move by the same distance.
    shifts = np.zeros(len(layout.rows), np.int64)
    shifts[is_row] = starts[kept] - (ends - sizes)[is_row]
    order = np.arange(ends[-1]) + np.repeat(shifts, sizes)
    data = bag.data[torch.from_numpy(order)].split_with_sizes(sizes.reshape(-1, TILE_ROWS).sum(1).tolist())
    return data, lengths


def _resize(lengths: torch.Tensor, widths: Sequence[int]) -> torch.Tensor:
    """Cut off or fill up the sequences of a tile. Only empty bags are cut off."""
    if lengths.shape[1:] == tuple(widths):
        return lengths
    resized = lengths.new_zeros(TILE_ROWS, *widths)
    common = tuple(slice(0, min(pair)) for pair in zip(lengths.shape[1:], widths, strict=True))
    resized[:, *common] = lengths[:, *common]
    return resized


def _as_tensors(prediction: Any) -> dict[str, torch.Tensor]:
    """The outputs of one tile by name; the name of a single output is empty."""
    named = prediction if isinstance(prediction, Mapping) else {"": prediction}
    outputs = {}
    for name, value in named.items():
        tensor = value.detach().cpu() if isinstance(value, torch.Tensor) else torch.as_tensor(np.asarray(value))
        if tensor.dim() == 0 or len(tensor) != TILE_ROWS:
            raise BadInput(
                f"predict: {f'{name!r} ' if name else ''}must have one prediction per row, [{TILE_ROWS}] or "
                f"[{TILE_ROWS}, K] for the {TILE_ROWS} rows that are scored together, got {list(tensor.shape)}. A "
                "model that mixes the rows of a minibatch needs Learner(mixes_rows=True)"
            )
        outputs[str(name)] = tensor
    return outputs
