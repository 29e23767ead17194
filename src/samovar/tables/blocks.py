"""How a file's minibatches are grouped into blocks, the unit that a reader fetches at a time."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from samovar.tables.cell import CellColumns
from samovar.tables.files import Places, TableFile
from samovar.tables.reader import MINIBATCHES_PER_BLOCK, REMOTE_BLOCK_BYTES, Block
from samovar.tables.writer import MINIBATCHES_PER_GROUP


@dataclass(frozen=True)
class FileContents:
    """What is known about a file's minibatches before they are read."""

    file: TableFile
    columns: CellColumns
    first: int
    """Number of its first minibatch in the table."""
    sizes: list[int]
    hours: list[int | None]
    num_examples: NDArray[np.uint64]
    places: Places
    checked: NDArray[np.bool_]

    def blocks(self, first: int, last: int, max_bytes: int) -> Iterator[Block]:
        """Neighbours in one block; a block of more than one minibatch takes at most a quarter of the cache. Over a
        network it is some whole groups, in which the wanted cells of a column are neighbours."""
        limit = max_bytes // 4
        while first < last:
            stop = (
                min(first + MINIBATCHES_PER_BLOCK, last)
                if self.file.can_map
                else self._end_of_groups(first, last, limit)
            )
            count, size = 1, self.sizes[first]
            while first + count < stop and size + self.sizes[first + count] <= limit:
                size += self.sizes[first + count]
                count += 1
            yield self.block(first, count)
            first += count

    def _end_of_groups(self, first: int, last: int, limit: int) -> int:
        """After as many whole groups as are worth a request, at least one."""
        stop, size = first, 0
        while stop < last:
            end = min(last, (stop // MINIBATCHES_PER_GROUP + 1) * MINIBATCHES_PER_GROUP)
            size += sum(self.sizes[stop:end])
            if stop > first and size > min(limit, REMOTE_BLOCK_BYTES):
                break
            stop = end
        return stop

    def block(self, first: int, count: int) -> Block:
        """The block of some neighbours."""
        span = slice(first, first + count)
        return Block(
            self.file, self.columns, self.places[span], self.first + first, self.hours[span], self.num_examples[span],
            self.sizes[span], self.checked[span],
        )  # fmt: skip
