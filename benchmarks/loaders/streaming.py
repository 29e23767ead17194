"""MosaicML Streaming: a sample is a row, or a whole minibatch."""

import importlib
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from benchmarks.loaders.base import BATCH_SIZE, Batch
from benchmarks.loaders.dataloader import unpack
from numpy.typing import NDArray
from torch.utils.data import DataLoader

# Streaming imports these for its text and vision datasets; torchvision would bring a CUDA build.
_UNUSED = (
    "torchvision",
    "torchvision.datasets",
    "torchvision.transforms",
    "torchvision.transforms.functional",
    "transformers",
    "transformers.feature_extraction_utils",
    "transformers.models",
    "transformers.models.auto",
    "transformers.models.auto.tokenization_auto",
    "transformers.tokenization_utils_base",
)


class _Hollow(ModuleType):
    """A module that has any class asked for."""

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


def _import() -> Any:
    for name in _UNUSED:
        sys.modules.setdefault(name, _Hollow(name))
    return importlib.import_module("streaming")


def write_rows(arrays: Mapping[str, NDArray[Any]], folder: Path) -> None:
    kinds = {name: f"ndarray:{array.dtype}:{','.join(map(str, array.shape[1:]))}" for name, array in arrays.items()}
    with _import().MDSWriter(out=str(folder), columns=kinds) as writer:
        for index in range(len(arrays["real"])):
            writer.write({name: array[index] for name, array in arrays.items()})


def read_rows(folder: Path) -> Iterator[Batch]:
    ones = torch.ones(BATCH_SIZE, dtype=torch.int32)
    for rows in DataLoader(_open(folder, BATCH_SIZE), BATCH_SIZE):
        yield unpack(rows, ones)


def write_minibatches(batches: Iterable[Batch], folder: Path) -> None:
    columns: dict[str, str] = {}
    writer: Any = None
    for batch in batches:
        sample = {f"{number:02d}": np.ascontiguousarray(tensor.numpy()) for number, tensor in enumerate(batch)}
        if writer is None:
            columns = dict.fromkeys(sample, "ndarray")
            writer = _import().MDSWriter(out=str(folder), columns=columns)
        writer.write(sample)
    writer.finish()


def read_minibatches(folder: Path) -> Iterator[Batch]:
    for sample in _open(folder, 1):
        yield [torch.from_numpy(array) for array in sample.values()]


def _open(folder: Path, batch_size: int) -> Any:
    streaming = _import()
    streaming.base.util.clean_stale_shared_memory()
    return streaming.StreamingDataset(local=str(folder), shuffle=False, batch_size=batch_size)
