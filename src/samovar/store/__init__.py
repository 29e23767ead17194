"""Where bytes live: the store interface, its implementations, and leases. Knows nothing of results or tables."""

from samovar.store.base import Attributes, Entry, Fence, Store, Tail, Writer, read_small, write_file
from samovar.store.lease import Holder, Lease, LeaseState, lease_state, take_lease
from samovar.store.local import LocalStore
from samovar.store.memory import MemoryStore
from samovar.store.reports import save_text

__all__ = [
    "Attributes",
    "Entry",
    "Fence",
    "Holder",
    "Lease",
    "LeaseState",
    "LocalStore",
    "MemoryStore",
    "Store",
    "Tail",
    "Writer",
    "lease_state",
    "read_small",
    "save_text",
    "take_lease",
    "write_file",
]
