"""litdata, uncompressed: a sample is a row, or a whole minibatch whose tensors are views of a mapped file."""

import importlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from benchmarks.loaders.base import BATCH_SIZE, Batch
from benchmarks.loaders.dataloader import unpack
from numpy.typing import NDArray

CHUNK = "64MB"


def write_rows(arrays: Mapping[str, NDArray[Any]], folder: Path) -> None:
    count = len(arrays["real"])
    rows = ({name: torch.from_numpy(array[index]) for name, array in arrays.items()} for index in range(count))
    _write(rows, folder)


def write_minibatches(batches: Iterable[Batch], folder: Path) -> None:
    _write(map(list, batches), folder)


def _write(samples: Iterable[Any], folder: Path) -> None:
    cache = importlib.import_module("litdata.streaming.cache").Cache(str(folder), chunk_bytes=CHUNK)
    for index, sample in enumerate(samples):
        cache[index] = sample
    cache.done()
    cache.merge()


def read_rows(folder: Path) -> Iterator[Batch]:
    ones = torch.ones(BATCH_SIZE, dtype=torch.int32)
    loader = importlib.import_module("litdata").StreamingDataLoader
    for rows in loader(_open(folder), batch_size=BATCH_SIZE, num_workers=0):
        yield unpack(rows, ones)


def read_minibatches(folder: Path) -> Iterator[Batch]:
    yield from _open(folder)


def _open(folder: Path) -> Any:
    return importlib.import_module("litdata").StreamingDataset(str(folder), shuffle=False)
