"""The rows of a hash table that are newer than a clock, and older rows with newer ones over them: what a publication
is made of. Works on the arrays of a state (state.py), and knows no files.

    ids uint64 [n], stamps uint32 [n], rows float32 [n, width]   per shard; ids ascend

A row's stamp is the clock of its last use in training, so what was trained since clock c has a stamp above c, and what
was not used for longer than the ttl has expired. A row that is gone needs no record of its own.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from samovar.results import StreamedArray

Shard: TypeAlias = Mapping[str, Any]
_ROWS_PER_PIECE = 1 << 16


def rows_since(shards: Sequence[Shard], clock: int | None, width: int) -> list[dict[str, Any]]:
    """The rows that were used after a clock, as they will be streamed.

    Args:
        shards: Of a table, sorted by id.
        clock: Rows with a stamp above it are taken. None: all of them.
        width: How many floats of each row: its weights come first, then the state of the optimizer.

    Example:
        >>> shard = {"ids": np.array([5, 7], np.uint64), "stamps": np.array([1, 2], np.uint32),
        ...          "rows": np.ones((2, 3), np.float32)}
        >>> (newer,) = rows_since([shard], 1, 2)
        >>> newer["ids"], np.asarray(newer["rows"])
        (array([7], dtype=uint64), array([[1., 1.]], dtype=float32))
    """
    return [_newer(shard, clock, width) for shard in shards]


def _newer(shard: Shard, clock: int | None, width: int) -> dict[str, Any]:
    ids, stamps = np.asarray(shard["ids"]), np.asarray(shard["stamps"])
    is_new = np.ones(len(ids), np.bool_) if clock is None else stamps > clock

    def read() -> Iterator[memoryview]:
        first = 0
        for piece in _pieces(shard["rows"]):
            chosen = np.ascontiguousarray(piece[is_new[first : first + len(piece)], :width])
            first += len(piece)
            yield chosen.reshape(-1).view(np.uint8).data

    rows = StreamedArray("float32", (int(is_new.sum()), width), read)
    return {"ids": ids[is_new], "stamps": stamps[is_new], "rows": rows}


def _pieces(rows: Any) -> Iterator[NDArray[np.float32]]:
    """A two-dimensional array, some rows at a time."""
    if isinstance(rows, StreamedArray):
        for piece in rows.read():  # whole rows
            yield np.frombuffer(piece, np.float32).reshape(-1, rows.shape[1])
        return
    for first in range(0, len(rows), _ROWS_PER_PIECE):
        yield np.asarray(rows[first : first + _ROWS_PER_PIECE])


def rows_over(older: Shard, newer: Shard, clock: int, ttl: int | None) -> dict[str, Any]:
    """One shard with the rows of another over it, without those that have expired.

    Args:
        older: The rows before.
        newer: The rows of a later publication.
        clock: The clock of the later publication.
        ttl: After how many ticks without use a row expires. None: never.

    Example:
        >>> one = {"ids": np.array([5, 7], np.uint64), "stamps": np.array([1, 2], np.uint32),
        ...        "rows": np.zeros((2, 1), np.float32)}
        >>> two = {"ids": np.array([6, 7], np.uint64), "stamps": np.array([3, 3], np.uint32),
        ...        "rows": np.ones((2, 1), np.float32)}
        >>> found = rows_over(one, two, clock=3, ttl=1)
        >>> found["ids"], found["rows"][:, 0]
        (array([6, 7], dtype=uint64), array([1., 1.], dtype=float32))
    """
    both = {name: np.concatenate([np.asarray(newer[name]), np.asarray(older[name])]) for name in older}
    _, first = np.unique(both["ids"], return_index=True)  # of two rows of an id, the newer one comes first
    if ttl is not None:
        first = first[clock - both["stamps"][first].astype(np.int64) <= ttl]
    return {name: array[first] for name, array in both.items()}
