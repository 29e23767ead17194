"""Hash tables in a snapshot or a model, read without the model's code. Needs no torch."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class StoredTable:
    """One table of a state tree. `place` is the path of its HashEmbedding in the tree."""

    place: str
    name: str
    clock: int
    state: dict[str, Any]

    @property
    def optimizer(self) -> str:
        return str(self.state["optimizer"])

    @property
    def dim(self) -> int:
        return int(self.state["dim"])

    @property
    def ttl(self) -> int | None:
        ttl: int | None = self.state["ttl"]
        return ttl

    @property
    def num_ids(self) -> int:
        return sum(len(shard["ids"]) for shard in self.state["shards"])

    @property
    def size_bytes(self) -> int:
        return sum(array.nbytes for shard in self.state["shards"] for array in shard.values())

    @property
    def counters(self) -> dict[str, int]:
        counters: dict[str, int] = self.state["counters"]
        return counters

    def count_ages(self) -> NDArray[np.int64]:
        """The number of embedding rows last used 0, 1, 2… ticks of the clock ago."""
        counts = np.zeros(1, np.int64)
        for shard in self.state["shards"]:
            found = np.bincount(self.clock - shard["stamps"].astype(np.int64))
            longer = max(len(counts), len(found))
            counts = np.pad(counts, (0, longer - len(counts))) + np.pad(found, (0, longer - len(found)))
        return counts


def stored_tables(tree: object, place: str = "") -> Iterator[StoredTable]:
    """All hash tables of a state tree, wherever the model keeps them."""
    if isinstance(tree, dict):
        if _is_embedding(tree):
            for name, state in tree["tables"].items():
                yield StoredTable(place.removesuffix("._extra_state").removesuffix("/_extra_state"), name,
                                  tree["clock"], state)  # fmt: skip
            return
        for key, value in tree.items():
            yield from stored_tables(value, f"{place}/{key}" if place else str(key))
    elif isinstance(tree, list | tuple):
        for number, value in enumerate(tree):
            yield from stored_tables(value, f"{place}/{number}")


def _is_embedding(tree: dict[Any, Any]) -> bool:
    tables = tree.get("tables")
    return (
        tree.keys() == {"clock", "tables"}
        and isinstance(tables, dict)
        and all(isinstance(table, dict) and "shards" in table for table in tables.values())
    )
