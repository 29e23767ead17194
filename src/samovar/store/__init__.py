"""Where bytes live: the store interface, its implementations, and leases. Knows nothing of results or tables."""

from samovar.store.base import Attributes, Entry, Fence, Store, Tail, Writer, read_small, write_file
from samovar.store.files import open_file, size_of
from samovar.store.lease import Holder, Lease, LeaseState, lease_state, take_lease
from samovar.store.local import LocalStore
from samovar.store.memory import MemoryStore
from samovar.store.open import match_files, match_folders, open_store, place_of, read_config_at
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
    "match_files",
    "match_folders",
    "open_file",
    "open_store",
    "place_of",
    "read_config_at",
    "read_small",
    "save_text",
    "size_of",
    "take_lease",
    "write_file",
]
