"""Hash tables in a snapshot or a model, read without the model's code. Needs no torch."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field

from samovar.config.places import PathLike
from samovar.config.records import Count, as_corrupt, check_record
from samovar.config.values import suggest
from samovar.embeddings.vectors import Ids, Vectors, as_ids, write_vectors
from samovar.errors import CorruptData, NotAResult, UnknownColumn
from samovar.results import open_directory

COUNTERS = ("inserted", "reset", "freed", "missed", "skipped")
_ROWS_PER_PIECE = 1 << 16
_Clock = Annotated[int, Field(ge=0, lt=2**32)]


@dataclass(frozen=True)
class StoredTable:
    """One hash table of a model that was saved.

    Attributes:
        place: The path of its HashEmbedding in the model.
        name: Of the table.
        clock: How often time was counted.
        state: The arrays of its rows, and its settings.

    Example:
        >>> from samovar.embeddings import stored_tables
        >>> print(*(table.name for table in stored_tables("models/hashed")))
        user
    """

    place: str
    name: str
    clock: int
    state: dict[str, Any]

    @property
    def optimizer(self) -> str:
        """The kind of its optimizer."""
        return str(self.state["optimizer"])

    @property
    def dim(self) -> int:
        """The length of an embedding row."""
        return int(self.state["dim"])

    @property
    def ttl(self) -> int | None:
        """After how many ticks without use a row expires; None: never."""
        ttl: int | None = self.state["ttl"]
        return ttl

    @property
    def num_ids(self) -> int:
        """How many ids have a row."""
        return sum(len(shard["ids"]) for shard in self.state["shards"])

    @property
    def size_bytes(self) -> int:
        """The size of its arrays."""
        return sum(array.nbytes for shard in self.state["shards"] for array in shard.values())

    @property
    def counters(self) -> dict[str, int]:
        """How many ids were inserted, reset, freed, and how many updates were skipped."""
        counters: dict[str, int] = self.state["counters"]
        return counters

    @property
    def path(self) -> str:
        """Its name in the model, as `frozen` and `pretrained` take it: `embedding.user`."""
        module = self.place.removeprefix("model/weights").removeprefix("/").removesuffix("_extra_state")
        return f"{module}.{self.name}" if module else self.name

    def weights_of(self, ids: ArrayLike) -> Vectors:
        """The weights [N, dim] of ids, as `Model.embedding` returns them: zeros for an id without a row.

        Args:
            ids: Signed or unsigned 64-bit integers; strings for a hashed column.

        Raises:
            BadInput: The ids are neither.
        """
        wanted = as_ids(ids)
        order = np.argsort(wanted, kind="stable")
        found = np.zeros((len(wanted), self.dim), np.float32)
        for shard in self.state["shards"]:
            known = np.asarray(shard["ids"])
            here = np.flatnonzero(np.isin(known, wanted))
            first = np.searchsorted(wanted[order], known[here], side="left")
            last = np.searchsorted(wanted[order], known[here], side="right")
            for row, start, stop in zip(here.tolist(), first.tolist(), last.tolist(), strict=True):
                found[order[start:stop]] = shard["rows"][row, : self.dim]
        return found

    def has(self, ids: ArrayLike) -> NDArray[np.bool_]:
        """Whether each id has a row.

        Args:
            ids: As in `weights_of`.
        """
        wanted = as_ids(ids)
        is_known = np.zeros(len(wanted), np.bool_)
        for shard in self.state["shards"]:
            is_known |= np.isin(wanted, shard["ids"])
        return is_known

    def export(self, path: Path | str, ids: ArrayLike | None = None) -> int:
        """Write ids and their weights as a Parquet file, with the columns `id` and `vector`, which `pretrained` reads.

        Args:
            path: The file.
            ids: Which of them; those without a row are left out. None: all of them.

        Returns:
            How many were written.

        Raises:
            BadInput: The file cannot be written.
        """
        if ids is None:
            return write_vectors(Path(path), self._pieces(), self.dim)
        known = np.unique(as_ids(ids)[self.has(ids)])
        return write_vectors(Path(path), iter([(known, self.weights_of(known))]), self.dim)

    def _pieces(self) -> Iterator[tuple[Ids, Vectors]]:
        for shard in self.state["shards"]:
            for start in range(0, len(shard["ids"]), _ROWS_PER_PIECE):
                piece = slice(start, start + _ROWS_PER_PIECE)
                yield shard["ids"][piece], shard["rows"][piece, : self.dim]

    def count_ages(self) -> dict[int, int]:
        """The number of embedding rows by age: how many ticks of the clock ago they were last used. Sorted."""
        counts: Counter[int] = Counter()
        for shard in self.state["shards"]:
            stamps, found = np.unique(shard["stamps"], return_counts=True)
            if len(stamps) and stamps[-1] > self.clock:
                raise CorruptData(
                    f"hash table {self.name!r} was last used at {stamps[-1]}, after its clock {self.clock}"
                )
            counts.update(dict(zip((self.clock - stamps.astype(np.int64)).tolist(), found.tolist(), strict=True)))
        return dict(sorted(counts.items()))


def stored_tables(path: PathLike) -> list[StoredTable]:
    """Read the hash tables of a model without its code.

    Args:
        path: A model directory. One that is still training is read as of its newest snapshot.

    Returns:
        All tables, in the order of the model.

    Raises:
        NotAResult: There is no model at the path, or it has no hash tables.

    Example:
        >>> for table in stored_tables("models/hashed"):
        ...     print(table.name, table.dim, table.num_ids)
        user 4 20
    """
    directory = open_directory(path)
    tables = list(find_tables(directory.load_model().tree))
    if not tables:
        raise NotAResult(f"{directory.name}: the model has no hash tables")
    return tables


def stored_table(path: PathLike, table: str | None = None) -> StoredTable:
    """Open one hash table of a model.

    Args:
        path: A model directory.
        table: Its name, such as `user` or `embedding.user`. None: the only one.

    Returns:
        The table.

    Raises:
        NotAResult: There is no model at the path, or it has no hash tables.
        UnknownColumn: There is no such table, or several.

    Example:
        >>> stored_table("models/hashed", "user").weights_of([17, 99]).shape
        (2, 4)
    """
    tables = stored_tables(path)
    names = [each.path for each in tables]
    found = [each for each in tables if table in (None, each.name, each.path)]
    if len(found) == 1:
        return found[0]
    if table is None or found:
        which = "hash tables" if table is None else f"tables {table!r}"
        raise UnknownColumn(f"{path}: there are {len(found)} {which}. Name one of them: {', '.join(names)}")
    raise UnknownColumn(f"{path}: no hash table {table!r}{suggest(table, names)}")


def find_tables(tree: object, place: str = "") -> Iterator[StoredTable]:
    """All hash tables of a state tree, wherever the model keeps them."""
    if isinstance(tree, dict):
        if _is_embedding(tree):
            where = place.removesuffix("._extra_state").removesuffix("/_extra_state")
            clock = check_record(_Clock, tree["clock"], f"{where}: the clock of its hash tables")
            for name, state in tree["tables"].items():
                _check_table(state, f"{where}: the state of hash table {name!r}")
                yield StoredTable(where, str(name), clock, state)
            return
        for key, value in tree.items():
            yield from find_tables(value, f"{place}/{key}" if place else str(key))
    elif isinstance(tree, list | tuple):
        for number, value in enumerate(tree):
            yield from find_tables(value, f"{place}/{number}")


@dataclass(frozen=True)
class _Facts:
    optimizer: str
    dim: Count
    ttl: Count | None
    counters: dict[str, Annotated[int, Field(ge=0, lt=2**64)]]


def _check_table(state: dict[str, Any], where: str) -> None:
    facts = check_record(_Facts, {key: value for key, value in state.items() if key in _Facts.__annotations__}, where)
    missing = set(COUNTERS) - facts.counters.keys()
    if missing:
        raise CorruptData(f"{where} lacks the counter {min(missing)!r}. Restore it from a copy")
    with as_corrupt(where):
        for shard in state["shards"]:
            arrays = [shard[name] for name in ("ids", "stamps", "rows")]
            types = [array.dtype.name for array in arrays]
            if types != ["uint64", "uint32", "float32"] or len(set(map(len, arrays))) > 1:
                raise ValueError("a shard has other arrays than ids, stamps and rows of one length")


def _is_embedding(tree: dict[Any, Any]) -> bool:
    tables = tree.get("tables")
    return (
        tree.keys() == {"clock", "tables"}
        and isinstance(tables, dict)
        and all(isinstance(table, dict) and "shards" in table for table in tables.values())
    )
