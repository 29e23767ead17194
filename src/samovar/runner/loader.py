"""Minibatches URI by URI. Knows no models, and nothing about where a stream gets its minibatches."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from samovar.errors import CorruptData
from samovar.runner.stream import Minibatches, Stream
from samovar.runner.uri import Uri
from samovar.tables.record import MinibatchRecord


@dataclass
class _OpenStream:
    stream: Stream
    next: int
    """The minibatch that comes next."""
    minibatches: Minibatches


@dataclass
class Loader:
    """Reads URIs one after the other. Close it, or use it in a `with` block.

    A stream stays open between neighbouring URIs, so its threads read ahead while callbacks run. No minibatch
    of the next URI is handed out before that URI is asked for.
    """

    waiting_for: tuple[Uri, int] | None = field(default=None, init=False)
    """The URI and the minibatch in it that the loop is waiting for; None otherwise. Other threads may look at it."""
    _open: _OpenStream | None = field(default=None, init=False, repr=False)

    def read(self, uri: Uri) -> Iterator[MinibatchRecord]:
        """The minibatches of one URI, in order.

        Raises:
            CorruptData: the stream has fewer minibatches than the URI promises.
        """
        if uri.num_batches == 0:
            return
        opened = self._open_at(uri.stream, uri.first)
        for number in range(uri.num_batches):
            self.waiting_for = (uri, number)
            minibatch = next(opened.minibatches, None)
            self.waiting_for = None
            if minibatch is None:
                raise CorruptData(
                    f"{uri.name}: expected {uri.num_batches} minibatches, got {number}. The table changed while it was "
                    "read: restore it and start again"
                )
            opened.next += 1
            yield minibatch

    def _open_at(self, stream: Stream, first: int) -> _OpenStream:
        if self._open is None or self._open.stream is not stream or self._open.next != first:
            self.close()
            self._open = _OpenStream(stream, first, stream.open(first))
        return self._open

    def close(self) -> None:
        """Stop reading ahead."""
        if self._open is not None:
            self._open.minibatches.close()
            self._open = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
