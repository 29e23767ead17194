"""`status.json`: what the last process of a directory said about itself."""

import json
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator

from samovar.config.records import Moment, read_record
from samovar.errors import CorruptData, NotFound
from samovar.store import Holder, Store, read_small, write_file

STATUS = "status.json"
State = Literal["created", "running", "stopped", "failed", "finished"]


def _check_failure(error: dict[str, str]) -> dict[str, str]:
    if not {"type", "message"} <= error.keys():
        raise ValueError("an error has a type and a message")
    return error


Failure = Annotated[dict[str, str], AfterValidator(_check_failure)]


@dataclass(frozen=True)
class Status:
    """`status.json`: what the last process of a directory said about itself.

    It is written on every change and with each heartbeat, and may be stale: only the lease knows whether the process
    is alive.

    Example:
        >>> open_directory("stages/total").status.state
        'finished'
    """

    state: State
    """created: nothing done yet; running; stopped: on request, resumable; failed: by an error, resumable; finished."""
    kind: str
    """What the directory contains: model, table, or the name of a stage."""
    holder: Holder | None = None
    """The process that works here, or worked here last."""
    heartbeat: Moment | None = None
    """When this was written, UTC."""
    position: Any = None
    """The position of the newest snapshot, as the stage counts it."""
    error: Failure | None = None
    """`type` and `message` of the error that made it fail."""
    format: int = 1
    """Of the file."""

    def write(self, store: Store) -> None:
        """Write the file, with the current time as the heartbeat.

        Args:
            store: The directory.
        """
        now = datetime.now(UTC).isoformat(timespec="seconds")
        write_file(store, STATUS, json.dumps(asdict(replace(self, heartbeat=now)), indent=2).encode() + b"\n")

    @classmethod
    def read(cls, store: Store) -> Self | None:
        """Read the file; None if there is none yet.

        Args:
            store: The directory.
        """
        try:
            return read_record(cls, read_small(store, STATUS), f"{store.name}/{STATUS}")
        except NotFound:
            return None
        except CorruptData as error:
            raise CorruptData(f"{error}, or remove this file: the next start writes it again") from None
