"""Rows that several read one ahead of the other, decoded once: an hour is evaluated first, and trained on next.

    training               evaluation
        ▼                      ▼
        [ kept for training   ]  the reader goes on ──▶
          at most max_kept_bytes

Who comes last to a block is given it, all others before him copies: what one does to its tensors no other sees.
Whoever finds a row no longer kept, or not near, reads for himself.
"""

from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from samovar.tables.reader import BlockReader, Parsed, TableReader
from samovar.tables.record import Record


@dataclass(eq=False)
class _Follower:
    row: int
    """The next one that it wants."""


class SharedRows:
    """Some columns of a table, for all who read them in order. For one thread."""

    def __init__(
        self,
        names: Sequence[str],
        open_blocks: Callable[[int], BlockReader],
        read_alone: Callable[[int, int], TableReader],
        max_kept_bytes: int,
    ) -> None:
        self.names = names
        self._open_blocks = open_blocks
        self._read_alone = read_alone
        self._max_kept_bytes = max_kept_bytes
        self._followers: list[_Follower] = []
        self._reader: BlockReader | None = None
        self._kept: deque[Parsed] = deque()
        self._kept_bytes = 0
        self._first, self._end = 0, 0
        """Rows [first, end) are kept."""
        self._rows_read, self._bytes_read = 0, 0

    def read(self, start: int, stop: int) -> Generator[Record, None, None]:
        """The rows [start, stop). Close it, or read to the end."""
        if not self._is_near(start):
            with self._read_alone(start, stop) as reader:
                yield from reader
            return
        follower = _Follower(start)
        self._join(follower)
        try:
            while follower.row < stop:
                with closing(self._read_some(follower, stop)) as records:
                    for record in records:
                        follower.row = record.row + 1
                        if follower.row == stop:
                            self._leave(follower)  # it may never be asked to go on
                        yield record
        finally:
            self._leave(follower)

    def _is_near(self, row: int) -> bool:
        """Whether all between it and what was read can be kept for those who come later."""
        return self._reader is None or (row - self._end) * self._bytes_read <= self._max_kept_bytes * self._rows_read

    def _join(self, follower: _Follower) -> None:
        if self._reader is None:
            self._reader = self._open_blocks(follower.row)
            self._first = self._end = follower.row
        self._followers.append(follower)

    def _leave(self, follower: _Follower) -> None:
        if follower not in self._followers:
            return
        self._followers.remove(follower)
        while self._kept and not self._is_wanted(self._kept[0]):
            self._forget_first()
        if self._reader is not None and not self._followers:
            self._reader.close()
            self._reader = None

    def _read_some(self, follower: _Follower, stop: int) -> Generator[Record, None, None]:
        if follower.row < self._first:
            with self._read_alone(follower.row, min(stop, self._first)) as reader:
                yield from reader
            return
        parsed = self._take(follower)
        for record in parsed.records(self.names):
            if follower.row <= record.row < stop:
                yield record

    def _take(self, follower: _Follower) -> Parsed:
        while follower.row >= self._end:
            self._read_on()
        parsed = next(each for each in self._kept if follower.row < each.end)
        if self._is_wanted(parsed, besides=follower):
            return replace(parsed, decoded=parsed.decoded.copy())
        while self._first < parsed.end:
            self._forget_first()
        return parsed

    def _is_wanted(self, parsed: Parsed, besides: _Follower | None = None) -> bool:
        return any(each.row < parsed.end for each in self._followers if each is not besides)

    def _read_on(self) -> None:
        assert self._reader is not None
        parsed = next(self._reader)
        self._kept.append(parsed)
        self._end = parsed.end
        self._kept_bytes += parsed.block.num_bytes
        self._bytes_read += parsed.block.num_bytes
        self._rows_read += len(parsed.block.sizes)
        while self._kept_bytes > self._max_kept_bytes and len(self._kept) > 1:
            self._forget_first()

    def _forget_first(self) -> None:
        parsed = self._kept.popleft()
        self._first = parsed.end
        self._kept_bytes -= parsed.block.num_bytes
