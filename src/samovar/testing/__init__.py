"""Contract tests and fault-making disks that ship: a new store subclasses `StoreContract`, a new callback
`CallbackContract`, a new brewing engine `samovar.testing.engine.EngineContract`. Needs pytest; knows the seams, and no
implementation."""

import importlib
from typing import TYPE_CHECKING, Any

from samovar.testing.store import StoreContract

if TYPE_CHECKING:
    from samovar.testing.callback import CallbackContract

__all__ = ["CallbackContract", "StoreContract"]


def __getattr__(name: str) -> Any:
    if name != "CallbackContract":
        raise AttributeError(f"module 'samovar.testing' has no attribute {name!r}; it has {', '.join(__all__)}")
    return importlib.import_module("samovar.testing.callback").CallbackContract  # with torch, which stores do not need
