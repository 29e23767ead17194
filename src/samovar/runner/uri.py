"""URIs: the indivisible units of training. Knows streams of minibatches, not how a run is cut into them."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from samovar.runner.stream import Stream


@dataclass(frozen=True)
class Uri:
    """Some neighbouring minibatches of a stream. No other logic runs inside one."""

    number: int
    """From 0, in the order of the run."""
    name: str
    """For people: an hour, or an epoch and its minibatches."""
    stream: Stream
    first: int
    """Its first minibatch in the stream."""
    num_batches: int
    epoch: int
    """What policies count: the epoch offline, the number of the hour online."""
    is_epoch_end: bool = True
    hour: int | None = None
    """Start of its hour, seconds since 1970 UTC."""

    @property
    def is_epoch_begin(self) -> bool:
        """An hour is an epoch of its own."""
        return self.hour is not None or self.first == 0


class Uris(ABC):
    """All URIs of a run."""

    @abstractmethod
    def starting_at(self, number: int) -> Iterator[Uri]:
        """The URIs from one on; may wait for those that are not there yet."""

    @property
    @abstractmethod
    def count(self) -> int | None:
        """How many there are; None when nobody knows."""


@dataclass(frozen=True)
class UriList(Uris):
    """URIs that are all known."""

    uris: Sequence[Uri]

    def starting_at(self, number: int) -> Iterator[Uri]:
        return iter(self.uris[number:])

    @property
    def count(self) -> int:
        return len(self.uris)
