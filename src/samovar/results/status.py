"""`status.json`: what a directory's last process said of itself. The schema is the dataclass below.

It is written on every change and with each heartbeat, and it may be stale: whether that process still lives is
asked of the lease, never of this file.
"""

import json
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal, Self

from samovar.errors import Damaged, NotFound
from samovar.store import Holder, Store, write_file

State = Literal["created", "running", "stopped", "failed", "finished"]
FILE = "status.json"


@dataclass(frozen=True)
class Status:
    state: State
    """created: nothing done yet; running; stopped: on request, can go on; failed: by an error, can go on; finished."""
    kind: str
    """What the directory holds: model, table, or the name of a stage."""
    holder: Holder | None = None
    """Host, process and start of the one that works here, or worked here last."""
    heartbeat: str | None = None
    """When this was written, UTC."""
    position: Any = None
    """The position of the newest snapshot, as the stage counts it."""
    error: dict[str, str] | None = None
    """`type` and `message` of what made it fail."""
    format: int = 1

    def write(self, store: Store) -> None:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        write_file(store, FILE, json.dumps(asdict(replace(self, heartbeat=now)), indent=2).encode() + b"\n")

    @classmethod
    def read(cls, store: Store) -> Self | None:
        """What the file says; None when there is none yet."""
        try:
            record = json.loads(store.read(FILE))
            holder = Holder(**record["holder"]) if record["holder"] else None
            return cls(**{**record, "holder": holder})
        except NotFound:
            return None
        except (ValueError, TypeError, KeyError) as error:
            raise Damaged(
                f"{FILE}: cannot be read ({error}); expected the schema of format 1: remove the file"
            ) from error
