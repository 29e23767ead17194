"""Contract tests and fault-making disks that ship: a new store subclasses `StoreContract`. Needs pytest."""

from samovar.testing.store import StoreContract

__all__ = ["StoreContract"]
