"""Readers that stream Arrow record batches: pyarrow over Parquet, and Lance."""

import importlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import torch
from benchmarks.contest.clicks import MULTIPLE, SINGLE
from benchmarks.loaders.base import BATCH_SIZE, Batch

ROWS_PER_GROUP = 65536


def write_parquet(rows: pa.Table, path: Path) -> None:
    parquet.write_table(rows, path, compression="zstd", row_group_size=ROWS_PER_GROUP)


def read_parquet(path: Path, batch_size: int) -> Iterator[Batch]:
    return _cut(parquet.ParquetFile(path).iter_batches(batch_size))


def write_lance(rows: pa.Table, path: Path) -> None:
    importlib.import_module("lance").write_dataset(rows, str(path))


def read_lance(path: Path, batch_size: int) -> Iterator[Batch]:
    lance: Any = importlib.import_module("lance")
    return _cut(lance.dataset(str(path)).scanner(batch_size=batch_size).to_batches())


def _cut(batches: Iterable[pa.RecordBatch]) -> Iterator[Batch]:
    ones = torch.ones(BATCH_SIZE, dtype=torch.int32)
    for batch in batches:
        for first in range(0, batch.num_rows, BATCH_SIZE):
            yield _tensors(batch.slice(first, BATCH_SIZE), ones)


def _tensors(rows: pa.RecordBatch, ones: torch.Tensor) -> Batch:
    """Without copies, except for the lengths of lists."""
    batch: list[torch.Tensor] = []
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        if name in MULTIPLE:
            lengths = np.diff(column.offsets.to_numpy())
            batch += [torch.from_numpy(column.flatten().to_numpy()), torch.from_numpy(lengths)]
        else:
            batch.append(torch.from_numpy(column.to_numpy()))
            if name in SINGLE:
                batch.append(ones)
    return batch
