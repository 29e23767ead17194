"""torch's DataLoader in this process: row by row with the default collate, and whole minibatches."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarks.contest.clicks import CATEGORICAL, MOST_IDS, MULTIPLE, REAL, SINGLE, Columns, floats, ids
from benchmarks.loaders.base import BATCH_SIZE, Batch
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Dataset

from samovar.tables import Ids

PACKED = ("single", "multiple", "lengths", "real")

Row = dict[str, Any]


def pack_rows(columns: Columns) -> dict[str, NDArray[Any]]:
    """A few wide arrays, lists padded to the longest: the most favourable form for reading row by row."""
    multiple = np.zeros((len(floats(columns, "label")), len(MULTIPLE), MOST_IDS), np.int64)
    for number, name in enumerate(MULTIPLE):
        column = ids(columns, name)
        multiple[:, number][np.arange(MOST_IDS) < column.lengths[:, None]] = column.data.view(np.int64)
    return {
        "single": np.stack([ids(columns, name).data.view(np.int64) for name in SINGLE], axis=1),
        "multiple": multiple,
        "lengths": np.stack([ids(columns, name).lengths for name in MULTIPLE], axis=1),
        "real": np.stack([floats(columns, name) for name in REAL], axis=1),
    }


def unpack(rows: Mapping[str, torch.Tensor], ones: torch.Tensor) -> Batch:
    """Packed rows of a minibatch as the common tensors."""
    batch: list[torch.Tensor] = []
    for data in rows["single"].t().contiguous().unbind():
        batch += [data, ones]
    is_there = torch.arange(MOST_IDS) < rows["lengths"][:, :, None]
    for number, lengths in enumerate(rows["lengths"].t().contiguous().unbind()):
        batch += [rows["multiple"][:, number][is_there[:, number]], lengths]
    batch += rows["real"].t().contiguous().unbind()
    return batch


class Rows(Dataset[Row]):
    def __init__(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self._arrays = arrays

    def __len__(self) -> int:
        return len(self._arrays["real"])

    def __getitem__(self, index: int) -> Row:
        return {name: array[index] for name, array in self._arrays.items()}


def write_rows(arrays: Mapping[str, NDArray[Any]], folder: Path) -> None:
    folder.mkdir()
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)


def read_rows(folder: Path) -> Iterator[Batch]:
    ones = torch.ones(BATCH_SIZE, dtype=torch.int32)
    for rows in DataLoader(Rows({name: _map(folder, name) for name in PACKED}), BATCH_SIZE):
        yield unpack(rows, ones)


class Gathered(Dataset[torch.Tensor]):
    """Gathers all rows of a minibatch at once from mapped .npy files; any order of rows works."""

    def __init__(self, folder: Path) -> None:
        self._columns: dict[str, Any] = {name: _map(folder, name) for name in (*CATEGORICAL, *REAL)}
        self._lengths: dict[str, Any] = {name: _map(folder, f"{name}.lengths") for name in MULTIPLE}
        self._starts = {name: np.cumsum(array, dtype=np.int64) - array for name, array in self._lengths.items()}
        self._ones = torch.ones(BATCH_SIZE, dtype=torch.int32)

    def __len__(self) -> int:
        return len(self._columns["label"])

    def __getitems__(self, indices: list[int]) -> list[torch.Tensor]:
        rows = np.asarray(indices)
        batch: list[torch.Tensor] = []
        for name, column in self._columns.items():
            if name in MULTIPLE:
                lengths = self._lengths[name][rows]
                ends = np.cumsum(lengths)
                places = np.repeat(self._starts[name][rows] - ends + lengths, lengths) + np.arange(ends[-1])
                batch += [torch.from_numpy(column[places]), torch.from_numpy(lengths)]
            else:
                batch.append(torch.from_numpy(column[rows]))
                if name in SINGLE:
                    batch.append(self._ones)
        return batch


def _map(folder: Path, name: str) -> Any:
    return np.load(folder / f"{name}.npy", mmap_mode="r")


def write_arrays(columns: Columns, folder: Path) -> None:
    folder.mkdir()
    for name, column in columns.items():
        if isinstance(column, Ids):
            np.save(folder / f"{name}.npy", column.data.view(np.int64))
            np.save(folder / f"{name}.lengths.npy", column.lengths)
        else:
            np.save(folder / f"{name}.npy", column)


def read_gathered(folder: Path) -> Iterable[Batch]:
    return DataLoader(Gathered(folder), BATCH_SIZE, collate_fn=_as_it_is)


def _as_it_is(batch: list[torch.Tensor]) -> list[torch.Tensor]:
    return batch
