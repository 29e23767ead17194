"""How the holder of a lease in a bucket shows that it is alive: by an object that it puts again and again. Its age is
its Last-Modified against that of a probe, so that only the server's clock counts.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from secrets import token_hex
from typing import Annotated

from pydantic import Field

from samovar.config.records import check_record
from samovar.errors import StoreError
from samovar.store.base import Heartbeat, Json, Liveness
from samovar.store.bucket import AccessRefused, Bucket
from samovar.store.process import ProcessName

_CLOCK_SECONDS = 5.0  # by which clocks may differ without any being wrong


@dataclass(frozen=True)
class _Record:
    """What the lease says about its holder's heartbeat."""

    word: Annotated[str, Field(pattern="^[0-9a-f]{16}$")]
    """The name of the object."""
    process: ProcessName


class ObjectHeartbeat(Heartbeat):
    """The object of this process, below a prefix. `also` is called after each beat."""

    def __init__(self, bucket: Bucket, prefix: str, also: Callable[[], None]) -> None:
        word = token_hex(8)
        self.record = asdict(_Record(word, ProcessName.of_this_process()))
        self._bucket = bucket
        self._key = prefix + word
        self._also = also
        bucket.put(self._key, b"")

    def beat(self) -> None:
        with suppress(StoreError):  # to others it is then silent, which is right
            self._bucket.put(self._key, b"", is_patient=False)
        self._also()

    def stop(self) -> None:
        with suppress(StoreError):
            self._bucket.delete([self._key])


def find_liveness(
    bucket: Bucket, prefix: str, probe_prefix: str, record: Mapping[str, Json], lease_seconds: float
) -> Liveness:
    """Whether a process is alive, from its heartbeat's record and its object."""
    found = check_record(_Record, record, f"{bucket.url}/{prefix}: the record of a heartbeat")
    beat = bucket.head(prefix + found.word)
    if beat is None or (found.process.can_be_seen and not found.process.is_running):
        return "dead"
    now = datetime.now(UTC)  # enough to see that a beat is fresh
    if not -_CLOCK_SECONDS <= (now - beat.modified).total_seconds() <= lease_seconds / 2:
        with suppress(AccessRefused):  # who may only read takes no lease, and its own clock must do
            now = server_time(bucket, probe_prefix + token_hex(8))
    return "alive" if (now - beat.modified).total_seconds() <= lease_seconds else "silent"


def server_time(bucket: Bucket, key: str) -> datetime:
    """The time of the server's clock, from a probe."""
    try:
        bucket.put(key, b"")
        found = bucket.head(key)
    finally:
        with suppress(StoreError):
            bucket.delete([key])
    if found is None:
        raise StoreError(f"{bucket.url}/{key} vanished just after it was written. Does something clean up this bucket?")
    return found.modified
