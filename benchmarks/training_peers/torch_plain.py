"""torch's own: a sparse EmbeddingBag per feature, fed by the default DataLoader row by row or by Arrow in batches.

python -m benchmarks.training_peers.torch_plain FOLDER NUM_BATCHES NUM_ROW_BATCHES: takes turns
"""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import torch
from benchmarks.contest.clicks import CATEGORICAL, MOST_IDS, MULTIPLE, REAL, SINGLE
from benchmarks.loaders.arrow import ROWS_PER_GROUP, read_parquet
from benchmarks.loaders.base import BATCH_SIZE, Batch
from benchmarks.loaders.dataloader import PACKED, unpack
from benchmarks.training_peers.base import DIM, EMBEDDING_LR, NUM_FOLDED, Peer, serve
from benchmarks.training_peers.data import BATCHED, COLUMNS, ROWS
from torch.utils.data import DataLoader, IterableDataset

DEFAULT = "torch, default DataLoader"
WIDE = "torch, default DataLoader, four wide arrays per row"
ARROW = "torch, batched Arrow loader"

Row = dict[str, Any]


class ColumnRows(IterableDataset[Row]):
    """Row by row from a Parquet file, one row group in memory: one value per column, lists padded."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __iter__(self) -> Iterator[Row]:
        file = pq.ParquetFile(self._path)
        for number in range(file.num_row_groups):
            group = file.read_row_group(number)
            columns = {name: group[name].to_pylist() for name in (*SINGLE, *REAL)}
            for name in MULTIPLE:
                lists = group[name].combine_chunks()
                lengths = lists.value_lengths().to_numpy()
                padded = np.zeros((len(lists), MOST_IDS), np.int64)
                padded[np.arange(MOST_IDS) < lengths[:, None]] = lists.flatten().to_numpy()
                columns |= {name: list(padded), _lengths(name): lengths.tolist()}
            for values in zip(*columns.values(), strict=True):
                yield dict(zip(columns, values, strict=True))


def join_columns(rows: Mapping[str, torch.Tensor], ones: torch.Tensor) -> Batch:
    """The default collate's output for such rows, as the common tensors."""
    batch: list[torch.Tensor] = []
    for name in SINGLE:
        batch += [rows[name], ones]
    for name in MULTIPLE:
        lengths = rows[_lengths(name)]
        batch += [rows[name][torch.arange(MOST_IDS) < lengths[:, None]], lengths]
    return [*batch, *(rows[name].float() for name in REAL)]


def _lengths(name: str) -> str:
    return f"{name}_len"


class WideRows(IterableDataset[Row]):
    """The same out of four wide columns: the kindest form for reading row by row."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __iter__(self) -> Iterator[Row]:
        shapes = {"multiple": (len(MULTIPLE), MOST_IDS)}
        file = pq.ParquetFile(self._path)
        for number in range(file.num_row_groups):
            group = file.read_row_group(number)
            columns = {name: group[name].combine_chunks() for name in PACKED}
            arrays = {
                name: column.flatten().to_numpy().reshape(len(column), *shapes.get(name, (-1,)))
                for name, column in columns.items()
            }
            for index in range(group.num_rows):
                yield {name: array[index] for name, array in arrays.items()}


def make_peer() -> Peer:
    weights = [torch.empty(NUM_FOLDED, DIM).uniform_(-0.01, 0.01) for _ in CATEGORICAL]
    bags = [
        torch.nn.EmbeddingBag.from_pretrained(weight, freeze=False, mode="sum", sparse=True, include_last_offset=True)
        for weight in weights
    ]
    alone = torch.arange(BATCH_SIZE + 1)

    def embed(ids: Batch) -> torch.Tensor:
        offsets = [alone] * len(SINGLE) + [_offsets(lengths) for lengths in ids[2 * len(SINGLE) + 1 :: 2]]
        return torch.cat([bag(data, ends) for bag, data, ends in zip(bags, ids[::2], offsets, strict=True)], 1)

    return Peer(embed, [torch.optim.Adagrad([bag.weight for bag in bags], lr=EMBEDDING_LR)])


def _offsets(lengths: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.pad(lengths.cumsum(0), (1, 0))


def main(folder: Path, num_batches: int, num_row_batches: int) -> None:
    peer = make_peer()
    ones = torch.ones(BATCH_SIZE, dtype=torch.int32)
    by_column = DataLoader(ColumnRows(folder / COLUMNS), BATCH_SIZE)
    by_wide = DataLoader(WideRows(folder / ROWS), BATCH_SIZE)
    serve(
        {
            DEFAULT: lambda: (peer.step(join_columns(rows, ones)) for rows in by_column),
            WIDE: lambda: (peer.step(unpack(rows, ones)) for rows in by_wide),
            ARROW: lambda: map(peer.step, read_parquet(folder / BATCHED, ROWS_PER_GROUP)),
        },
        {DEFAULT: num_row_batches, WIDE: num_row_batches, ARROW: num_batches},
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
