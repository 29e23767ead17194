"""URIs: the indivisible units of training. Knows streams, but not how a run is cut into URIs."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from samovar.hours import HOURLY, Period
from samovar.runner.stream import Stream


@dataclass(frozen=True)
class Uri:
    """Neighbouring minibatches of a stream that are trained without interruption: an hour, or a piece of an epoch.

    Callbacks, snapshots and stops happen only between URIs.

    Args:
        number: Its position in the run, from 0.
        name: For people: an hour, or an epoch and its minibatches.
        stream: Where its minibatches come from.
        first: Its first minibatch in the stream.
        num_batches: May be 0: an hour without data is a URI too.
        epoch: What policies count: the epoch offline, the number of the hour online.
        is_epoch_end: Whether the epoch ends with this URI.
        hour: The start of its hour in seconds since 1970 UTC; None offline.
        period: What it covers, if not an hour.
    """

    number: int
    name: str
    stream: Stream
    first: int
    num_batches: int
    epoch: int
    is_epoch_end: bool = True
    hour: int | None = None
    period: Period = HOURLY

    @property
    def is_epoch_begin(self) -> bool:
        """Whether an epoch begins with this URI. Each hour is an epoch."""
        return self.hour is not None or self.first == 0


class Uris(ABC):
    """All URIs of a run."""

    @abstractmethod
    def starting_at(self, number: int) -> Iterator[Uri]:
        """The URIs from `number` on. May wait for those that do not exist yet."""

    @property
    @abstractmethod
    def count(self) -> int | None:
        """How many there are; None if the run has no last URI."""


@dataclass(frozen=True)
class UriList(Uris):
    """URIs that are all known from the start."""

    uris: Sequence[Uri]

    def starting_at(self, number: int) -> Iterator[Uri]:
        return iter(self.uris[number:])

    @property
    def count(self) -> int:
        return len(self.uris)
