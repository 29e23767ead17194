"""Samovar's tables as a loader."""

from collections.abc import Iterable, Iterator

import torch
from benchmarks.contest.clicks import SCHEMA, Columns
from benchmarks.loaders.base import BATCH_SIZE, Batch

from samovar.store import Store, take_lease
from samovar.tables import Bag, ReadOptions, Record, Table, open_table
from samovar.tables.cell import Compression
from samovar.tables.manifest import Manifest, commit_manifest
from samovar.tables.schema import Minibatch
from samovar.tables.writer import write_segment


def write_table(store: Store, batches: Iterable[Columns], compression: str) -> Table:
    rows = (Minibatch(None, BATCH_SIZE, batch) for batch in batches)
    segment = write_segment(store, SCHEMA, rows, compression=Compression.parse(compression))
    with take_lease(store) as lease:
        commit_manifest(store, lease.commit, Manifest(1, "benchmark", SCHEMA, compression, segment))
    return open_table(store)


def read_first(store: Store) -> Iterator[Batch]:
    """As a new process reads a table: every byte is verified."""
    yield from read_table(open_table(store))


def read_table(table: Table, num_parsers: int | None = None) -> Iterator[Batch]:
    with table.read(options=ReadOptions(num_parsers=num_parsers)) as records:
        yield from map(to_batch, records)


def to_batch(record: Record) -> Batch:
    batch: list[torch.Tensor] = []
    for value in record.values():
        if isinstance(value, Bag):
            batch += (value.data, value.data_len)
        else:
            assert isinstance(value, torch.Tensor)
            batch.append(value)
    return batch
