"""Where bytes live: the seam, its implementations, and leases. Knows nothing of results, tables or training."""

from samovar.store.base import Attributes, Entry, Guard, Store, Tail, Writer, write_file
from samovar.store.lease import Holder, Lease, LeaseState, lease_state, take_lease
from samovar.store.local import LocalStore
from samovar.store.memory import MemoryStore

__all__ = [
    "Attributes",
    "Entry",
    "Guard",
    "Holder",
    "Lease",
    "LeaseState",
    "LocalStore",
    "MemoryStore",
    "Store",
    "Tail",
    "Writer",
    "lease_state",
    "take_lease",
    "write_file",
]
