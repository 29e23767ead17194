"""Small tables for tests."""

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from samovar.store import Store, take_lease
from samovar.tables import ColumnSchema, Ids, TableSchema, open_table
from samovar.tables.cell import Compression
from samovar.tables.manifest import Manifest, commit_manifest
from samovar.tables.schema import Minibatch
from samovar.tables.table import Table
from samovar.tables.writer import write_segment

SCHEMA = TableSchema(
    (
        ColumnSchema("banner", "categorical", 1, "uint64"),
        ColumnSchema("words", "categorical", 1, "list<item: uint64>"),
        ColumnSchema("history", "categorical", 2, "list<item: list<item: uint64>>"),
        ColumnSchema("price", "real", 1, "double"),
        ColumnSchema("factors", "real", 2, "list<item: double>"),
        ColumnSchema("hit", "key", 1, "string"),
    ),
    ("hour",),
)


def make_minibatch(number: int, num_examples: int = 5, hour: int | None = 0) -> Minibatch:
    """Random values that depend on the number alone."""
    chance = np.random.Generator(np.random.Philox(key=number))
    lengths = chance.integers(0, 4, num_examples).astype(np.int32)
    nested = chance.integers(0, 3, (num_examples, 3)).astype(np.int32)
    keys = [None if index % 4 == 3 else f"hit {number} {index}" for index in range(num_examples)]
    return Minibatch(
        hour,
        num_examples,
        {
            "banner": Ids(_ids(chance, num_examples), np.ones(num_examples, np.int32)),
            "words": Ids(_ids(chance, int(lengths.sum())), lengths),
            "history": Ids(_ids(chance, int(nested.sum())), nested),
            "price": chance.standard_normal(num_examples).astype(np.float32),
            "factors": chance.standard_normal((num_examples, 2)).astype(np.float32),
            "hit": pa.array(keys, pa.string()),
        },
    )


def _ids(chance: np.random.Generator, count: int) -> NDArray[np.uint64]:
    """A few popular ids, so that some cells are stored as distinct ids."""
    popular = np.array([0, 1, 2**64 - 1, 2**63, 12345678901234567890], np.uint64)
    return popular[chance.integers(0, len(popular), count)]


def add_version(
    store: Store, minibatches: Iterable[Minibatch], schema: TableSchema = SCHEMA, compression: str = "zstd"
) -> Table:
    """Write a table, or append to it."""
    earlier = list(open_table(store).manifests) if store.attributes().version else []
    first_minibatch = open_table(store).num_minibatches if earlier else 0
    version = len(earlier) + 1
    segment = write_segment(
        store,
        schema,
        minibatches,
        number=version,
        first_minibatch=first_minibatch,
        compression=Compression.parse(compression),
    )
    with take_lease(store) as lease:
        commit_manifest(store, lease.commit, Manifest(version, "a table", schema, compression, segment))
    return open_table(store)


def make_table(
    store: Store, num_minibatches: int, compression: str = "zstd", num_examples: Sequence[int] = (5, 300)
) -> Table:
    minibatches = (
        make_minibatch(number, num_examples[number % len(num_examples)], number // 3 * 3600)
        for number in range(num_minibatches)
    )
    return add_version(store, minibatches, compression=compression)
